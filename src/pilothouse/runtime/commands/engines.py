"""`/engine`: show the engines, and move the conversation to another one.

A conversation with a history moves in one of two ways. *Along* gives the new engine a recap of it, *fresh* does not. An
engine that this conversation moved away from goes on in the session that it had, with a recap of what was said since.
"""

from __future__ import annotations

from collections.abc import Sequence

from pilothouse.core.conversation import Session
from pilothouse.core.ids import EngineId
from pilothouse.core.message import CommandButton
from pilothouse.core.turn import Turn, is_movable
from pilothouse.runtime.commands.call import (
    CommandCall,
    NotDone,
    Reply,
    engine_of,
    refusal,
    save,
    session_of,
)
from pilothouse.runtime.conversations.handover import find_earlier, handover_of, move_back, move_on
from pilothouse.runtime.engine_report import EngineReport, state_line
from pilothouse.runtime.turns.recover import run_elsewhere

ALONG, FRESH = "along", "fresh"
USAGE = "/engine {engine} along takes the context along, /engine {engine} fresh starts without it."
OFFER = "Move this conversation to {engine}? It can start with a recap of what was asked, answered and changed here, or fresh."
UNCHANGED = "Nothing was changed: the engine is {now}."


def set_engine(call: CommandCall) -> Reply:
    engines = sorted(set(call.settings.engine_names.values()))
    names, now = ", ".join(engines), engine_of(call, session_of(call))
    said, *more = call.args.lower().split() or [""]
    if not said:
        return _list(call, engines, now)
    if refused := refusal(call, "command.engine.set"):
        return refused
    engine = call.settings.engine_names.get(said)
    if engine is None:
        return NotDone(f"There is no engine {said!r}. There are: {names}.")
    if more not in ([], [ALONG], [FRESH]):
        return NotDone(f"{USAGE.format(engine=engine)} {UNCHANGED.format(now=now)}")
    if call.prepared.unusable:
        return NotDone(_unusable(call, engine, now))
    return _move(call, engine, now, more[0] if more else "")


def _list(call: CommandCall, engines: Sequence[EngineId], now: EngineId) -> Reply:
    """List the engines with their state, one on each line, and a button for each that works."""
    told = {one.id: one for one in call.prepared.engines}
    lines = [f"{'→' if id == now else '·'} {_line(id, told.get(id))}" for id in engines]
    others = tuple(
        CommandButton(id, f"/engine {id}")
        for id in engines
        if id != now and (id not in told or told[id].status.available)
    )
    text = "\n".join([f"The engine is {now}.", *lines, "/engine NAME changes it."])
    return Reply(text, buttons=others)


def _line(id: EngineId, one: EngineReport | None) -> str:
    if one is None:
        return id
    version = one.status.version if one.status.version != id else ""
    return f"{' '.join(filter(None, (id, version)))}: {state_line(one)}"


def retry_with(call: CommandCall, turn: Turn, name: str) -> Reply:
    """Run a turn that could not begin with another engine, and move the conversation there."""
    if refused := refusal(call, "command.engine.set"):
        return refused
    engine, current = call.settings.engine_names[name], call.tx.sessions.get(turn.session_id)
    if current is None or not is_movable(turn):
        return NotDone("That turn has already begun, so only its own engine can go on with it.")
    if engine == turn.engine:
        return NotDone(f"{engine} is the engine that failed. /retry tries it again.")
    if call.prepared.unusable:
        return NotDone(_unusable(call, engine, turn.engine))
    earlier = find_earlier(call.tx, current, engine)
    session = (
        move_back(call.tx, call.conversation, current, earlier)
        if earlier
        else move_on(call.tx, call.ids, call.conversation, current, engine, call.at, along=True)
    )
    run_elsewhere(call.tx, call.ids, turn, session, call.at)
    return Reply(f"Trying again with {engine}. /engine {turn.engine} goes back.")


def _unusable(call: CommandCall, engine: EngineId, now: EngineId) -> str:
    return f"{engine} does not work here: {call.prepared.unusable} {UNCHANGED.format(now=now)}"


def _move(call: CommandCall, engine: EngineId, now: EngineId, how: str) -> Reply:
    current = session_of(call)
    if engine == now and how != FRESH:
        save(call, engine=engine)
        return Reply(f"The engine is {engine} already. /new starts a new session.")
    if current is None or engine == now or not _has_history(call, current):
        save(call, engine=engine, model=None, session_id=None)
        return Reply(f"From your next message on: {engine}, in a new session.")
    if how != FRESH and (earlier := find_earlier(call.tx, current, engine)) is not None:
        move_back(call.tx, call.conversation, current, earlier)
        fresh = CommandButton("Start fresh instead", f"/engine {engine} {FRESH}")
        return Reply(
            f"From your next message on: {engine} again, in the session that it had, with a recap of what was said since. "
            f"/engine {engine} {FRESH} starts a new one.",
            buttons=(fresh,),
        )
    if not how:
        return _offer(engine, now)
    move_on(call.tx, call.ids, call.conversation, current, engine, call.at, along=how == ALONG)
    recap = ", with a recap of this conversation" if how == ALONG else ""
    return Reply(f"From your next message on: {engine}, in a new session{recap}. /engine {now} goes back.")


def _offer(engine: EngineId, now: EngineId) -> Reply:
    buttons = (
        CommandButton("Take the context along", f"/engine {engine} {ALONG}"),
        CommandButton("Start fresh", f"/engine {engine} {FRESH}"),
    )
    text = f"{OFFER.format(engine=engine)}\n{USAGE.format(engine=engine)} Until then, {now} goes on."
    return Reply(text, buttons=buttons)


def _has_history(call: CommandCall, session: Session) -> bool:
    """Tell whether the session has said or done anything that another one could be told, or continues one that has."""
    if handover_of(call.tx, session.id).before or call.tx.turns.live(session.id) is not None:
        return True
    turns = call.tx.turns.of(call.conversation.id)
    return any(turn.session_id == session.id and (turn.answer or turn.began) for turn in turns)
