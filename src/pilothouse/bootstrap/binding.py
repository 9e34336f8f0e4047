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
from pilothouse.core.conversation import Conversation, Session
from pilothouse.core.errors import ConfigError
from pilothouse.core.ids import EngineId
from pilothouse.core.message import Address, conversation_id
from pilothouse.core.policy import MODES, ApprovalMode
from pilothouse.core.store import Tx
from pilothouse.core.text import first_line
from pilothouse.runtime.conversations.binding import Wishes, keep_wishes, pick_mode, picked_mode
from pilothouse.runtime.conversations.handover import find_earlier, move_back, move_on
from pilothouse.runtime.ports import new_id
from pilothouse.runtime.turns.prompt import unframe
from pilothouse.runtime.turns.start import fits_engine

QUESTION = """\
Approval mode: how much may {engine} do in {folder} without asking?
  1  minimal      read in this folder
  2  trusted      also change files in this folder
  3  full-access  everything that no rule denies
"""
ASK = "Pick 1, 2 or 3 (1): "
PICK = "Type 1, 2 or 3, or press Enter for 1.\n"
TRIES = 3
LAST_CHARS = 40


class ChatOptions(Struct, frozen=True):
    """Flags of the command line."""

    engine: str | None = None
    model: str | None = None
    mode: ApprovalMode | None = None
    new: bool = False


class Bound(Struct, frozen=True):
    """The engine that answers in a conversation, and the session that it continues, if any."""

    engine: EngineId
    session: Session | None = None
    last_said: str = ""
    """The last message of that session, in one line."""
    is_named: bool = True
    """False if nobody chose the engine."""


async def bind(app: App, place: Address, folder: Path, chosen: ChatOptions, *, private: bool) -> Bound:
    """Binds the conversation. Another folder than before, or an engine that is switched off, starts a new session.

    Raises `ConfigError` if the named engine does not work here, before it is stored as the chosen one.
    """
    said = None if chosen.engine is None else await usable_engine(app, chosen.engine)
    wishes = _wishes(app, folder, chosen.mode)
    names, now = set(engine_names(app).values()), app.clock.now()
    default = default_engine(app)

    def unit(tx: Tx) -> Bound:
        stored = tx.conversations.ensure(
            Conversation(conversation_id(place), place, now, private=private, workspace=str(folder))
        )
        session = tx.sessions.get(stored.session_id) if stored.session_id else None
        lost = session is not None and session.engine not in names
        new = chosen.new or lost or stored.workspace != str(folder)
        if said is not None and session is not None and not new and session.engine != said:
            stored = _move(tx, stored, session, said, now)
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
        return _continued(tx, bound, bound.engine or wishes.engine, default)

    return await app.store.write(unit)


def _move(tx: Tx, stored: Conversation, session: Session, engine: EngineId, at: float) -> Conversation:
    """Goes back to the session that the engine had here, or begins a new one; `/engine` leads back from there."""
    earlier = find_earlier(tx, session, engine)
    if earlier is not None:
        move_back(tx, stored, session, earlier)
    else:
        move_on(tx, new_id, stored, session, engine, at, along=False)
    return tx.conversations.get(stored.id) or stored


def _continued(tx: Tx, bound: Conversation, chosen: EngineId | None, default: EngineId) -> Bound:
    """Returns the session that the next message continues, by the same rule as the start of a turn."""
    session = tx.sessions.get(bound.session_id) if bound.session_id else None
    engine = chosen or default
    if (
        session is None
        or not fits_engine(session, chosen, engine, DEMO)
        or session.retired
        or not session.turns
    ):
        return Bound(engine, is_named=chosen is not None)
    turns = (turn for turn in tx.turns.of(bound.id) if turn.session_id == session.id)
    last = next((unframe(turn.prompt.text) for turn in turns), "")
    return Bound(session.engine, session, first_line(last, LAST_CHARS))


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


async def usable_engine(app: App, name: str) -> EngineId:
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
        sys.stderr.write(PICK)
    return None


def _read_line() -> str:
    sys.stderr.write(ASK)
    sys.stderr.flush()
    return sys.stdin.readline()
