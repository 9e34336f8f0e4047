"""How the Claude engine presents itself. Cheap to import: what it needs is loaded when it is used."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Self

from pilothouse.core.engine import (
    Brief,
    Engine,
    EngineHost,
    EngineSession,
    EngineSpec,
    EngineStatus,
    LineTranslator,
)
from pilothouse.core.errors import EngineError
from pilothouse.core.failure import Failure
from pilothouse.core.ids import EngineId
from pilothouse.engines.claude.config import ClaudeConfig

NOT_YET = "This Pilothouse reads Claude Code's recordings, and cannot run it yet."


class NotYet:
    """Stands in the engine's place, so that a house with it starts, and whoever asks for it is told."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def open(self, brief: Brief) -> AbstractAsyncContextManager[EngineSession]:
        raise EngineError(Failure("bad_request", NOT_YET))


def build(config: ClaudeConfig, host: EngineHost) -> Engine:
    return NotYet()


def probe(config: ClaudeConfig) -> EngineStatus:
    return EngineStatus(False, problem=NOT_YET, fix="Upgrade Pilothouse")


def translator() -> LineTranslator:
    from pilothouse.engines.claude.translate import Translator

    return Translator()


ENGINE = EngineSpec(
    id=EngineId("claude"),
    title="Claude Code",
    config=ClaudeConfig,
    build=build,
    probe=probe,
    aliases=("claude-code",),
    translator=translator,
)
