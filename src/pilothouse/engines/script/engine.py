"""The script engine: owns the processes, leases sessions on them.

One process serves all sessions, unless the configuration or the program's hello says otherwise. Every process runs in the
engine's task group, so leaving the engine ends them all.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path

import pilothouse
from pilothouse.core.engine import NODE_MARKER, Brief, EngineHost, ProcessStart
from pilothouse.core.errors import EngineError
from pilothouse.core.ids import EngineId
from pilothouse.core.outcome import Failure
from pilothouse.engines.link import LinkPlan
from pilothouse.engines.link_owner import LinkOwner
from pilothouse.engines.script.config import ScriptConfig
from pilothouse.engines.script.session import ScriptLink, ScriptPort, ScriptSession
from pilothouse.engines.script.translate import ENGINE_ID
from pilothouse.engines.script.wire import MAX_LINE_BYTES
from pilothouse.processes import BASE_NAMES, Launcher, ProcessLimits, allowed_environment

DEMO = Path(__file__).with_name("demo.toml")


class ScriptEngine(LinkOwner[ScriptLink]):
    def __init__(self, config: ScriptConfig, host: EngineHost, id: EngineId = ENGINE_ID) -> None:
        super().__init__()
        self._id = id
        self._config = config
        self._host = host
        self._launcher = Launcher(host.jail)
        self._shared: ScriptLink | None = None
        self._numbers: Iterator[int] = count(1)

    @asynccontextmanager
    async def open(self, brief: Brief) -> AsyncIterator[ScriptSession]:
        check_token(brief, self._id)
        session = ScriptSession(
            self._id, brief, self._host.blobs, self._lease, self._expect_end, self._config.open_s
        )
        try:
            await session.enter()
            yield session
        finally:
            await session.leave()

    async def _lease(self, brief: Brief) -> tuple[ScriptLink, ScriptPort]:
        name = f"{brief.session_id}.{next(self._numbers)}"
        while True:
            shared = None if self._is_private(brief) else self._shared
            link = shared if shared and shared.alive else self._start(brief)
            await link.wait_ready()
            if link.private and link is self._shared:
                self._shared = None
            if port := link.lease(name):
                return link, port

    def _is_private(self, brief: Brief) -> bool:
        """A jailed workspace has a process of its own."""
        return self._config.process == "per-session" or self._host.isolation(brief.workspace).confines

    def _start(self, brief: Brief) -> ScriptLink:
        link = self._begin(ScriptLink(self._plan(brief)))
        if not link.private:
            self._shared = link
        return link

    def _plan(self, brief: Brief) -> LinkPlan:
        config, private = self._config, self._is_private(brief)
        extra = {NODE_MARKER: self._host.node_marker} | (dict(brief.environment) if private else {})
        if config.command is None:
            extra["PYTHONPATH"] = str(Path(pilothouse.__file__).parent.parent)
        names = [*BASE_NAMES, *config.environment]
        return LinkPlan(
            engine=self._id,
            launcher=self._launcher,
            start=ProcessStart(
                "script player",
                config.command or player_command(config.script),
                brief.workspace if private else self._host.state_dir,
                allowed_environment(self._host.environment, names, extra),
                brief.workspace if private else "",
                private and brief.trusted,
            ),
            grace_s=config.stop_grace_s,
            open_s=config.open_s,
            stall_s=config.stall_s,
            private=private,
            log=self._host.log,
            limits=ProcessLimits(max_line_bytes=MAX_LINE_BYTES),
        )


def player_command(script: str | None) -> list[str]:
    path = Path(script).expanduser().absolute() if script else DEMO
    return [sys.executable, "-m", "pilothouse.engines.script.player", str(path)]


def check_token(brief: Brief, engine: EngineId) -> None:
    token = brief.resume
    if token is not None and token.engine != engine:
        text = f"This session belongs to the engine {token.engine!r}, not to {engine!r}. Start a new session."
        raise EngineError(Failure("stale_session", text))
