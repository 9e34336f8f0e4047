"""Binds a conversation to a folder when a chat opens there, and asks for the folder's approval mode once.

Flags come first, then what was chosen in the conversation, then the preferences in the folder's `.pilothouse.toml`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
from msgspec import Struct

from pilothouse.bootstrap.app import DEMO, App, default_engine, engine_names, engine_problem
from pilothouse.bootstrap.people import terminal_user
from pilothouse.config import AUTO, in_workspace, mode_in
from pilothouse.core.conversation import Conversation
from pilothouse.core.errors import ConfigError
from pilothouse.core.ids import EngineId
from pilothouse.core.message import Address, conversation_id
from pilothouse.core.policy import MODES, ApprovalMode
from pilothouse.core.store import Tx
from pilothouse.runtime.conversations.binding import Wishes, keep_wishes, pick_mode, picked_mode

QUESTION = """\
How much may {engine} do in {folder} without asking?
  1  minimal      read in this folder
  2  trusted      also change files in this folder
  3  full-access  everything that no rule denies
"""
ASK = "Pick 1, 2 or 3 (1): "
TRIES = 3


class ChatOptions(Struct, frozen=True):
    """Flags of the command line."""

    engine: str | None = None
    model: str | None = None
    mode: ApprovalMode | None = None
    new: bool = False


async def bind(app: App, place: Address, folder: Path, chosen: ChatOptions, *, private: bool) -> EngineId:
    """Binds the conversation and returns the engine that answers there. Another folder than before starts a new session.

    Raises `ConfigError` if the named engine does not work here, before it is stored as the chosen one.
    """
    said = None if chosen.engine is None else await _usable(app, chosen.engine)
    wishes = _wishes(app, folder, chosen.mode)
    names, now = set(engine_names(app).values()), app.clock.now()

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

    return await app.store.write(unit) or default_engine(app)


def _wishes(app: App, folder: Path, mode: ApprovalMode | None) -> Wishes:
    wishes, gateway = in_workspace(app.holder.loaded, folder), app.config.gateway
    for problem in wishes.warnings:
        app.log.warning("config.warned", text=str(problem))
        sys.stderr.write(f"warning: {problem}\n")
    engine = None if wishes.engine in (AUTO, gateway.default_engine) else _known(app, wishes.engine)
    return Wishes(
        engine,
        wishes.model,
        wishes.busy if wishes.busy != gateway.busy else None,
        wishes.show_cost if wishes.show_cost != gateway.show_cost else None,
        mode,
    )


async def _usable(app: App, name: str) -> EngineId:
    engine = _known(app, name)
    if problem := await engine_problem(app, engine):
        raise ConfigError(f"{engine} does not work here: {problem}")
    return engine


def _known(app: App, name: str) -> EngineId:
    names = engine_names(app)
    if name.lower() not in names:
        known = ", ".join(sorted(set(names.values())))
        raise ConfigError(f"There is no engine {name!r} here. There are: {known}.")
    return names[name.lower()]


async def ask_for_mode(app: App, folder: Path, engine: EngineId) -> None:
    """Asks for the approval mode once per folder, on a terminal, unless the demo engine answers. Stores only an answer."""
    if engine == DEMO or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return
    if mode_in(app.holder.loaded, folder) or await app.store.read(
        lambda tx: picked_mode(tx, os.path.realpath(folder))
    ):
        return
    sys.stderr.write(QUESTION.format(engine=engine, folder=folder))
    mode = read_pick(_read_line)
    if mode is not None:
        at, by = app.clock.now(), terminal_user()
        await app.store.write(lambda tx: pick_mode(tx, str(folder), mode, at, by))


def read_pick(read_line: Callable[[], str]) -> ApprovalMode | None:
    """Reads a number or a mode's name; Enter means `minimal`. Returns None at the end of input or after three bad lines."""
    for _ in range(TRIES):
        line = read_line()
        if not line:
            return None
        said = line.strip()
        for number, mode in enumerate(MODES, 1):
            if said in (str(number), mode) or (not said and number == 1):
                return mode
    return None


def _read_line() -> str:
    sys.stderr.write(ASK)
    sys.stderr.flush()
    return sys.stdin.readline()
