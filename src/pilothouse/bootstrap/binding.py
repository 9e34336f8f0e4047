"""A conversation bound to a folder: what a flag says, else what was chosen there, else what the folder's file wishes."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
from msgspec import Struct

from pilothouse.bootstrap.house import House, default_engine, engine_names, engine_problem
from pilothouse.config import AUTO, in_workspace
from pilothouse.core.conversation import Conversation
from pilothouse.core.errors import ConfigError
from pilothouse.core.ids import EngineId
from pilothouse.core.message import Address, conversation_id
from pilothouse.core.policy import ApprovalMode
from pilothouse.core.store import Tx
from pilothouse.runtime.wishes import Wishes, keep_wishes


class Chosen(Struct, frozen=True):
    """What somebody said on the command line."""

    engine: str | None = None
    model: str | None = None
    mode: ApprovalMode | None = None
    new: bool = False


async def bind(house: House, place: Address, folder: Path, chosen: Chosen, *, private: bool) -> EngineId:
    """The engine that answers there from now on. In another folder than before a new session begins.

    Raises `ConfigError` where the engine that was named would not answer: it would stay the one that is asked.
    """
    said = None if chosen.engine is None else await _usable(house, chosen.engine)
    wishes = _wishes(house, folder, chosen.mode)
    names, now = set(engine_names(house).values()), house.clock.now()

    def unit(tx: Tx) -> EngineId | None:
        stored = tx.conversations.ensure(
            Conversation(conversation_id(place), place, now, private=private, workspace=str(folder))
        )
        new = chosen.new or stored.workspace != str(folder)
        kept = stored.engine if stored.engine in names and not chosen.new else None
        bound = msgspec.structs.replace(
            stored,
            workspace=str(folder),
            engine=said or kept,
            model=chosen.model or (None if chosen.new else stored.model),
            session_id=None if new else stored.session_id,
        )
        if bound != stored:
            tx.conversations.save(bound)
        keep_wishes(tx, bound.id, wishes)
        return bound.engine or wishes.engine

    return await house.store.write(unit) or default_engine(house)


def _wishes(house: House, folder: Path, mode: ApprovalMode | None) -> Wishes:
    wishes, gateway = in_workspace(house.holder.loaded, folder), house.config.gateway
    for problem in wishes.warnings:
        house.log.warning("config.warned", text=str(problem))
        sys.stderr.write(f"warning: {problem}\n")
    engine = None if wishes.engine in (AUTO, gateway.default_engine) else _known(house, wishes.engine)
    return Wishes(
        engine,
        wishes.model,
        wishes.busy if wishes.busy != gateway.busy else None,
        wishes.show_cost if wishes.show_cost != gateway.show_cost else None,
        mode,
    )


async def _usable(house: House, name: str) -> EngineId:
    engine = _known(house, name)
    if problem := await engine_problem(house, engine):
        raise ConfigError(f"{engine} does not work here: {problem}")
    return engine


def _known(house: House, name: str) -> EngineId:
    names = engine_names(house)
    if name.lower() not in names:
        known = ", ".join(sorted(set(names.values())))
        raise ConfigError(f"There is no engine {name!r} here. There are: {known}.")
    return names[name.lower()]
