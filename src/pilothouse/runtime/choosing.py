"""Which models somebody may choose where they are: those in use there, then what the engine says that it has."""

from __future__ import annotations

from collections.abc import Mapping

from pilothouse.core.conversation import Conversation
from pilothouse.core.engine import Engine, ListsModels
from pilothouse.core.ids import EngineId
from pilothouse.core.store import Tx
from pilothouse.runtime.binding import bound

Listed = Mapping[EngineId, tuple[str, ...]]


def list_models(engines: Mapping[EngineId, Engine]) -> Listed:
    """Of every engine that says. Not for the inside of a transaction, which runs in another thread."""
    return {
        id: tuple(model.name for model in engine.models())
        for id, engine in engines.items()
        if isinstance(engine, ListsModels)
    }


def models_to_choose(tx: Tx, conversation: Conversation, engine: EngineId, listed: Listed) -> list[str]:
    sessions = sorted(tx.sessions.of(conversation.id), key=lambda one: one.used_at, reverse=True)
    used = [session.model for session in sessions if session.engine == engine]
    names = (bound(tx, conversation).model, *used, *listed.get(engine, ()))
    return list(dict.fromkeys(name for name in names if name))
