"""What the tests of the script engine share: a host, a folder for scripts, and a look at what is left running."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio

from pilothouse.core.ask import Decision
from pilothouse.core.engine import Answerable, Brief, EngineHost, EngineSession
from pilothouse.core.event import Asked, EngineEvent
from pilothouse.core.ids import SessionId
from pilothouse.core.turn import Prompt
from pilothouse.engines.script.config import ScriptConfig
from pilothouse.engines.script.engine import ScriptEngine
from pilothouse.testing.hosts import MemoryBlobs

MARK = "PILOTHOUSE_TEST_MARK"
WITHIN_S = 100.0


class Rig:
    """Every process of its engines carries a mark of its own, so that tests may run side by side."""

    def __init__(self, folder: Path, **config: Any) -> None:
        self.folder = folder
        self.blobs = MemoryBlobs()
        self.logged: list[tuple[str, dict[str, Any]]] = []
        self._mark = secrets.token_hex(8)
        self._config: dict[str, Any] = {"stop_grace_s": 3.0, "environment": [MARK], **config}

    def write(self, *turns: list[dict[str, Any]]) -> Path:
        """A script with these turns, whose steps are given as dictionaries."""
        path = self.folder / "script.toml"
        path.write_text("\n".join(f"[[turn]]\nsteps = [{', '.join(map(inline, turn))}]" for turn in turns))
        return path

    def engine(self, *turns: list[dict[str, Any]], **config: Any) -> ScriptEngine:
        settings = {**self._config, **config}
        if turns:
            settings["script"] = str(self.write(*turns))
        return ScriptEngine(ScriptConfig(**settings), self.host())

    def host(self) -> EngineHost:
        return EngineHost(
            blobs=self.blobs,
            environment={**os.environ, MARK: self._mark},
            state_dir=str(self.folder),
            node_marker="test-node",
            log=self._log,
        )

    def _log(self, event: str, **fields: Any) -> None:
        self.logged.append((event, fields))

    def brief(self, name: str = "one", **fields: Any) -> Brief:
        return Brief(session_id=SessionId(name), workspace=str(self.folder), **fields)

    def pids(self) -> list[int]:
        """The living processes of this rig's engines."""
        wanted = f"{MARK}={self._mark}".encode()
        return sorted(
            pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if carries(pid, wanted)
        )

    def leftovers(self) -> list[str]:
        return [f"process {pid}" for pid in self.pids()]


def carries(pid: int, wanted: bytes) -> bool:
    try:
        return wanted in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False


def inline(value: Any) -> str:
    """A value as TOML writes it in one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {inline(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(inline, value)) + "]"
    return json.dumps(value)


async def read(
    session: EngineSession,
    text: str = "Hello",
    when: Callable[[EngineEvent], Awaitable[object] | None] | None = None,
) -> list[EngineEvent]:
    events: list[EngineEvent] = []
    with anyio.fail_after(WITHIN_S):
        async for event in session.run(Prompt(text)):
            events.append(event)
            if when and (reaction := when(event)):
                await reaction
    return events


async def play(rig: Rig, *steps: dict[str, Any], decision: Decision | None = None) -> list[EngineEvent]:
    """One turn of these steps, from a new engine."""
    async with rig.engine(list(steps)) as engine, engine.open(rig.brief()) as session:
        return await read(session, when=answer_with(session, decision) if decision else None)


def answer_with(
    session: EngineSession, decision: Decision
) -> Callable[[EngineEvent], Awaitable[object] | None]:
    assert isinstance(session, Answerable)
    return lambda event: session.answer(event.ask.id, decision) if isinstance(event, Asked) else None
