"""What the tests of the native engine share: a scripted model, a host, a workspace."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from anyio.lowlevel import checkpoint
from msgspec.structs import replace
from tests.engines.native.model import ScriptedModel

from pilothouse.core.ask import Ask, Decision
from pilothouse.core.engine import Brief, EngineHost, EngineSession
from pilothouse.core.event import EngineEvent, TurnEnded
from pilothouse.core.ids import SessionId
from pilothouse.core.policy import Ruling, Site, parse_rule
from pilothouse.core.secret import Secret
from pilothouse.engines.native.config import NativeConfig
from pilothouse.engines.native.engine import NativeEngine
from pilothouse.testing.engine import Reaction, answering, read_turn
from pilothouse.testing.hosts import engine_host, running_processes
from pilothouse.testing.policy import FixedPolicy

KEY = "no-key-at-all"
YES = Decision("allow")


class Rig:
    def __init__(
        self,
        folder: Path,
        model: ScriptedModel,
        /,
        provider: str = "anthropic",
        rules: Sequence[str] = (),
        **config: Any,
    ) -> None:
        self.folder = folder.resolve()
        self.model = model
        self.pauses: list[float] = []
        self.workspace = self.folder / "workspace"
        self.workspace.mkdir(exist_ok=True)
        self.policy = FixedPolicy([parse_rule(rule) for rule in rules])
        self._config: dict[str, Any] = {
            "provider": provider,
            "model": "scripted",
            "base_url": model.base_url(provider),
            "api_key" if provider == "compatible" else f"{provider}_api_key": Secret(KEY),
            "context_window": 100_000,
            **config,
        }
        self.host: EngineHost = engine_host(self.folder / "state", judge=self._judge)

    async def _judge(self, ask: Ask, site: Site) -> Ruling:
        return await self.policy.judge(ask, site)

    async def _pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await checkpoint()

    @property
    def config(self) -> NativeConfig:
        return NativeConfig(**self._config)

    def engine(self, **changed: Any) -> NativeEngine:
        config = replace(self.config, **changed)
        return NativeEngine(config, self.host, sleep=self._pause, models_url=f"{self.model.url}/none")

    def brief(self, name: str = "one", **fields: Any) -> Brief:
        return Brief(session_id=SessionId(name), workspace=str(self.workspace), **fields)

    def leftovers(self) -> list[str]:
        return running_processes(self.host)

    async def turn(
        self,
        text: str = "Hello",
        decision: Decision | None = YES,
        react: Reaction | None = None,
        **fields: Any,
    ) -> list[EngineEvent]:
        """Run one turn of a new engine; every ask gets the decision."""
        async with self.engine() as engine, engine.open(self.brief(**fields)) as session:
            return await ask(session, text, decision, react)


async def ask(
    session: EngineSession, text: str, decision: Decision | None = YES, react: Reaction | None = None
) -> list[EngineEvent]:
    return await read_turn(session, text, react or (answering(session, decision) if decision else None))


def end_of(events: list[EngineEvent]) -> TurnEnded:
    assert isinstance(events[-1], TurnEnded)
    return events[-1]
