"""What the tests with the real binary share: a home of its own, a scripted API, and a look at what is left running."""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
from tests.engines.claude.api import ScriptedApi
from tests.engines.claude.binary import claude_binary, claude_version
from tests.isolation.everywhere import maybe_jailed

from pilothouse.core.ask import Decision
from pilothouse.core.engine import Answerable, Brief, EngineHost, EngineSession
from pilothouse.core.event import Asked, EngineEvent, Notice, TurnEnded, well_formed
from pilothouse.core.ids import SessionId
from pilothouse.core.policy import Policy
from pilothouse.core.turn import Prompt
from pilothouse.engines.claude.config import ClaudeConfig
from pilothouse.engines.claude.engine import ClaudeEngine
from pilothouse.engines.claude.gate_proof import PROOFS, remember_proof
from pilothouse.engines.machine import scratch_path
from pilothouse.policy.decide import PolicyEnv
from pilothouse.policy.paths import Filesystem
from pilothouse.testing.hosts import MemoryBlobs
from pilothouse.testing.policy import FixedPolicy

MARK = "HOUSE_UNDER_TEST"  # not PILOTHOUSE_…: the gateway keeps those to itself
KEY = "sk-ant-no-key-at-all"
WITHIN_S = 100.0

Reaction = Callable[[EngineEvent], Awaitable[object] | None]


class Rig:
    """Every process of its engines carries a mark of its own, and sees nothing of the real home."""

    def __init__(self, folder: Path, api: ScriptedApi, **config: Any) -> None:
        self.api = api
        self.home = folder / "home"
        self.workspace = folder / "work"
        self.state = folder / "state"
        for made in (self.home, self.workspace, self.state):
            made.mkdir(exist_ok=True)
        remember_proof(
            self.state / PROOFS, str(claude_binary()), claude_version()
        )  # once, in its own test, is enough
        self.blobs = MemoryBlobs()
        self.policy: Policy = FixedPolicy(env=PolicyEnv(filesystem=Filesystem(str(self.home))))
        """Reads no commands, so that every one of them asks."""
        self.more: dict[str, str] = {}
        """What else stands in the gateway's environment."""
        self.logged: list[tuple[str, dict[str, Any]]] = []
        self._mark = secrets.token_hex(8)
        self._config = config

    def environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "ANTHROPIC_API_KEY": KEY,
            "ANTHROPIC_BASE_URL": self.api.url,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_TELEMETRY": "1",
            "DISABLE_ERROR_REPORTING": "1",
            MARK: self._mark,
            **self.more,
        }

    def config(self, **changed: Any) -> ClaudeConfig:
        names = ["ANTHROPIC_*", "CLAUDE_CODE_*", "DISABLE_*", MARK]
        plain: dict[str, Any] = {
            "command": str(claude_binary()),
            "environment": names,
            "max_retries": 1,
            "api_timeout_s": 20.0,
        }
        return ClaudeConfig(**(plain | self._config | changed))

    def engine(self, **changed: Any) -> ClaudeEngine:
        return ClaudeEngine(self.config(**changed), self.host())

    def host(self) -> EngineHost:
        host = EngineHost(
            blobs=self.blobs,
            environment=self.environment(),
            state_dir=str(self.state),
            node_marker=self._mark,
            log=self._log,
            judge=self.policy.judge,
        )
        return maybe_jailed(host, self.home)

    def _log(self, event: str, **fields: Any) -> None:
        self.logged.append((event, fields))

    def brief(self, name: str = "one", **fields: Any) -> Brief:
        plain: dict[str, Any] = {"session_id": SessionId(name), "workspace": str(self.workspace)}
        return Brief(**(plain | fields))

    def pids(self) -> list[int]:
        """The living processes of this rig's engines, and of their tools."""
        return processes_with(MARK, self._mark)

    def leftovers(self) -> list[str]:
        folders = Path(tempfile.gettempdir()).glob(Path(scratch_path(self._mark)).name + "*")
        return [*(f"process {pid}: {command_of(pid)}" for pid in self.pids()), *map(str, folders)]


def processes_with(name: str, value: str) -> list[int]:
    wanted = f"{name}={value}".encode()
    return sorted(pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if carries(pid, wanted))


def carries(pid: int, wanted: bytes) -> bool:
    try:
        return wanted in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
    except OSError:
        return ""


async def read(
    session: EngineSession, text: str = "Hello", when: Reaction | None = None
) -> list[EngineEvent]:
    return await read_prompt(session, Prompt(text), when)


async def read_prompt(
    session: EngineSession, prompt: Prompt, when: Reaction | None = None
) -> list[EngineEvent]:
    events: list[EngineEvent] = []
    with anyio.fail_after(WITHIN_S):
        async for event in session.run(prompt):
            events.append(event)
            if when and (reaction := when(event)):
                await reaction
    assert list(well_formed(events)) == events, "the stream breaks the grammar"
    return events


async def play(
    rig: Rig, text: str = "Hello", decision: Decision | None = None, **config: Any
) -> list[EngineEvent]:
    """One turn from a new engine."""
    async with rig.engine(**config) as engine, engine.open(rig.brief()) as session:
        return await read(session, text, answer_with(session, decision) if decision else None)


def answer_with(session: EngineSession, decision: Decision) -> Reaction:
    assert isinstance(session, Answerable)
    return lambda event: session.answer(event.ask.id, decision) if isinstance(event, Asked) else None


def end_of(events: list[EngineEvent]) -> TurnEnded:
    assert isinstance(events[-1], TurnEnded)
    return events[-1]


def asks_of(events: list[EngineEvent]) -> list[Asked]:
    return [event for event in events if isinstance(event, Asked)]


def notices_of(events: list[EngineEvent]) -> list[str]:
    return [event.text for event in events if isinstance(event, Notice)]
