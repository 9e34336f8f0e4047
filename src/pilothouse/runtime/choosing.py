"""Which models somebody may choose where they are: those in use there, then what the engine says that it has."""

from __future__ import annotations

from collections.abc import Mapping

from pilothouse.core.conversation import Conversation
from pilothouse.core.engine import ListsModels
from pilothouse.core.ids import EngineId
from pilothouse.core.store import Tx
from pilothouse.runtime.binding import bound
from pilothouse.runtime.ports import Ports

Listed = Mapping[EngineId, tuple[str, ...]]


def list_models(ports: Ports) -> Listed:
    """Of every engine that says. Not for the inside of a transaction, which runs in another thread."""
    listed: dict[EngineId, tuple[str, ...]] = {}
    for id, engine in ports.engines.items():
        try:
            if isinstance(engine, ListsModels):
                listed[id] = tuple(model.name for model in engine.models())
        except Exception as error:  # noqa: BLE001 - whatever an engine does here, people can still type a name
            ports.log("engine.models_failed", level="warning", engine=id, error=error)
    return listed


def models_to_choose(tx: Tx, conversation: Conversation, engine: EngineId, listed: Listed) -> list[str]:
    sessions = sorted(tx.sessions.of(conversation.id), key=lambda one: one.used_at, reverse=True)
    used = [session.model for session in sessions if session.engine == engine]
    names = (bound(tx, conversation).model, *used, *listed.get(engine, ()))
    return list(dict.fromkeys(name for name in names if name))
