"""What the tests with the real binary share: homes of their own, a scripted API, and a look at what is left running."""

from __future__ import annotations

import os
import secrets
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
from tests.engines.codex.api import ScriptedApi
from tests.engines.codex.binary import codex_binary
from tests.isolation.everywhere import maybe_jailed

from pilothouse.core.ask import Decision
from pilothouse.core.engine import Answerable, Brief, EngineHost, EngineSession
from pilothouse.core.event import Asked, EngineEvent, Notice, TurnEnded, well_formed
from pilothouse.core.ids import SessionId
from pilothouse.core.policy import Policy
from pilothouse.core.turn import Prompt
from pilothouse.engines.codex.config import CodexConfig
from pilothouse.engines.codex.engine import CodexEngine
from pilothouse.policy.decide import PolicyEnv
from pilothouse.policy.paths import Filesystem
from pilothouse.testing.hosts import MemoryBlobs, running_processes
from pilothouse.testing.policy import FixedPolicy

WITHIN_S = 100.0

SETTINGS = """
model = "{model}"
model_provider = "scripted"
[model_providers.scripted]
name = "Scripted"
base_url = "{url}"
env_key = "SCRIPTED_KEY"
wire_api = "responses"
request_max_retries = 1
stream_max_retries = 1
"""

Reaction = Callable[[EngineEvent], Awaitable[object] | None]


class Rig:
    """The user's home has a provider that is the scripted API. Every process carries the rig's own marker."""

    def __init__(self, folder: Path, api: ScriptedApi, model: str = "gpt-5.5", **config: Any) -> None:
        self.api = api
        self.home = folder / "home"
        self.codex_home = self.home / ".codex"
        self.workspace = folder / "work"
        self.state, self.temporary = folder / "state", folder / "tmp"
        for made in (self.codex_home, self.workspace, self.state, self.temporary):
            made.mkdir(parents=True, exist_ok=True)
        self.settings = SETTINGS.format(model=model, url=api.url)
        (self.codex_home / "config.toml").write_text(self.settings)
        self.blobs = MemoryBlobs()
        self.policy: Policy = FixedPolicy(env=PolicyEnv(filesystem=Filesystem(str(self.home))))
        """Reads no commands, so that every one of them asks."""
        self.logged: list[tuple[str, dict[str, Any]]] = []
        self._marker = f"test-{secrets.token_hex(8)}"
        self._config = config

    def environment(self) -> dict[str, str]:
        """Codex makes no helper programs in a home below the temporary folder, and its sandbox may need them."""
        return {
            "TMPDIR": str(self.temporary),
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "SCRIPTED_KEY": "no-key-at-all",
        }

    def engine(self, state: str = "", **changed: Any) -> CodexEngine:
        """With `state`, an engine of another gateway."""
        plain: dict[str, Any] = {"command": str(codex_binary())}
        return CodexEngine(CodexConfig(**(plain | self._config | changed)), self.host(state))

    def host(self, state: str = "") -> EngineHost:
        host = EngineHost(
            blobs=self.blobs,
            environment=self.environment(),
            state_dir=str(self.state / state),
            node_marker=self._marker,
            log=self._log,
            judge=self.policy.judge,
        )
        return maybe_jailed(host, self.home)

    def _log(self, event: str, **fields: Any) -> None:
        self.logged.append((event, fields))

    def brief(self, name: str = "one", **fields: Any) -> Brief:
        plain: dict[str, Any] = {"session_id": SessionId(name), "workspace": str(self.workspace)}
        return Brief(**(plain | fields))

    def leftovers(self) -> list[str]:
        return running_processes(self.host())


async def read(
    session: EngineSession, text: str | Prompt = "Hello", when: Reaction | None = None
) -> list[EngineEvent]:
    prompt = text if isinstance(text, Prompt) else Prompt(text)
    events: list[EngineEvent] = []
    with anyio.fail_after(WITHIN_S):
        async for event in session.run(prompt):
            events.append(event)
            if when and (reaction := when(event)):
                await reaction
    assert list(well_formed(events)) == events, "the stream breaks the grammar"
    return events


async def play(
    rig: Rig, text: str = "Hello", decision: Decision | None = None, **fields: Any
) -> list[EngineEvent]:
    """One turn from a new engine."""
    async with rig.engine() as engine, engine.open(rig.brief(**fields)) as session:
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
