"""Held turns: a turn that does not fit into the budget keeps its place while an owner is asked for more.

There is one ask per scope and day. A yes raises the cap for that day, and all held turns continue; a no, or no answer,
ends each with a notice (law 4). On the next day they continue by themselves.
"""

from __future__ import annotations

import msgspec

from pilothouse.core.ask import Ask, AskRow, Decision
from pilothouse.core.budget import CapStatus, Reservation, Scope, more_needed, next_day_at
from pilothouse.core.conversation import Session
from pilothouse.core.event import Notice
from pilothouse.core.ids import AskId, IdMaker
from pilothouse.core.message import Content
from pilothouse.core.outcome import Failure
from pilothouse.core.people import OWNERS, Authority
from pilothouse.core.store import Tx
from pilothouse.core.text import dollars
from pilothouse.core.turn import Turn
from pilothouse.runtime.asks.settle import supersede
from pilothouse.runtime.asks.show import raise_ask
from pilothouse.runtime.audit import APP, record
from pilothouse.runtime.budget.ledger import Reserved
from pilothouse.runtime.outbox import say
from pilothouse.runtime.roles import approver_chats
from pilothouse.runtime.settings import Settings

BUDGET = "budget"
"""The topic of the ask."""
GRACE_S = 60.0
"""A held turn is retried this long after its ask expires."""


def hold(
    tx: Tx, ids: IdMaker, settings: Settings, turn: Turn, session: Session, reserved: Reserved, at: float
) -> None:
    """Park a turn that no engine has seen yet, and ask for more budget."""
    short = reserved.short
    assert short is not None, "a turn that fits is not held"
    ask = _open_ask(tx, short, at)
    if ask is None:
        ask = _ask_for_more(tx, ids, settings, turn, session, short, reserved.amount_usd, at)
    place = Reservation(
        turn.id, short.day, session.workspace, turn.conversation_id, reserved.amount_usd, ask.id
    )
    tx.spending.reserve(place)
    retry_at = min((ask.expires_at or at) + GRACE_S, next_day_at(at, settings.zone))
    tx.turns.move(
        turn.id, "parked", retry_at=retry_at, attempts=turn.attempts - 1, started_at=None, failure=None
    )
    text = _held_words(short, reserved.amount_usd, ask)
    tx.events.append(turn.conversation_id, turn.id, [Notice("warning", "held", text)], at)
    content = Content(text, "notice", turn_id=turn.id)
    say(tx, ids, turn.conversation_id, content, key=f"held:{turn.id}:{ask.id}", at=at)
    record(tx, at, APP, "budget.held", turn=turn.id, scope=short.scope.key, day=short.day, ask=ask.id)


def release_hold(tx: Tx, ids: IdMaker, turn: Turn, at: float) -> None:
    """Release a turn's hold; supersede the ask if no other turn waits for it."""
    held = tx.spending.release(turn.id)
    if held is None or held.ask_id is None or tx.spending.held(held.ask_id):
        return
    row = tx.asks.get(held.ask_id)
    if row is not None and row.state == "open":
        supersede(tx, ids, row, at, because="nothing waits for it any more")


def settle_budget(tx: Tx, ids: IdMaker, row: AskRow, decision: Decision, at: float) -> None:
    """Carry out the answer. A refused turn is only marked: another node may hold its inbox rows, and that node ends it."""
    held = tx.spending.held(row.ask.id)
    allowed = decision.verdict == "allow"
    if allowed:
        _raise_cap(tx, row.ask, decision, at)
    for place in held:
        turn = tx.turns.get(place.turn_id)
        if turn is None or turn.status != "parked":
            continue
        if allowed:
            tx.spending.release(turn.id)
            tx.turns.move(turn.id, "queued", retry_at=None)
        else:
            failure = Failure("budget", _refused_words(row.ask, decision))
            tx.turns.note(turn.id, failure=failure, stop_requested=True)


def _open_ask(tx: Tx, short: CapStatus, at: float) -> Ask | None:
    known = tx.spending.cap_day(short.scope, short.day).ask_id
    row = tx.asks.get(known) if known else None
    fresh = row is not None and row.state == "open" and (row.ask.expires_at or at + 1) > at
    return row.ask if row is not None and fresh else None


def _ask_for_more(
    tx: Tx,
    ids: IdMaker,
    settings: Settings,
    turn: Turn,
    session: Session,
    short: CapStatus,
    amount_usd: float,
    at: float,
) -> Ask:
    more = more_needed(settings.caps, short, amount_usd)
    ask = Ask(
        AskId(""),
        "approval",
        f"Allow {dollars(more)} more today for {short.scope.words}? "
        f"{dollars(short.used_usd + short.reserved_usd)} of {dollars(short.limit_usd)} are used or reserved, "
        f"and a turn that reserves {dollars(amount_usd)} waits.",
        {
            "budget": short.scope.kind,
            "name": short.scope.name,
            "day": short.day,
            "more_usd": more,
            "limit_usd": round(short.limit_usd, 6),
        },
        why="the day's budget has no room for it",
        expires_at=at + settings.ask_timeout_s,
    )
    # The owner of a folder may raise only that folder's cap.
    workspace = "" if short.scope.kind == "all" else session.workspace
    authority = Authority(OWNERS, workspace=workspace)
    places = dict.fromkeys((turn.conversation_id, *approver_chats(tx, settings.people, authority)))
    ask = raise_ask(tx, ids, ask, topic=BUDGET, authority=authority, places=[*places], at=at).ask
    known = tx.spending.cap_day(short.scope, short.day)
    tx.spending.save_cap_day(msgspec.structs.replace(known, ask_id=ask.id))
    return ask


def _raise_cap(tx: Tx, ask: Ask, decision: Decision, at: float) -> None:
    scope = Scope(ask.payload["budget"], ask.payload["name"])
    day, more = ask.payload["day"], ask.payload["more_usd"]
    known = tx.spending.cap_day(scope, day)
    tx.spending.save_cap_day(msgspec.structs.replace(known, raised_usd=known.raised_usd + more))
    record(tx, at, decision.by or APP, "budget.raised", scope=scope.key, day=day, more_usd=more, ask=ask.id)


def _held_words(short: CapStatus, amount_usd: float, ask: Ask) -> str:
    left = dollars(max(0.0, short.left_usd))
    return (
        f"Held: {left} of {dollars(short.limit_usd)} are left today for {short.scope.words}, and this turn reserves "
        f"{dollars(amount_usd)}. An owner is asked for {dollars(ask.payload['more_usd'])} more. /stop drops it."
    )


def _refused_words(ask: Ask, decision: Decision) -> str:
    scope = Scope(ask.payload["budget"], ask.payload["name"])
    why = "an owner said no to more" if decision.by else "no owner allowed more in time"
    said = f" ({decision.text})" if decision.by and decision.text else ""
    return (
        f"The budget of {ask.payload['day']} for {scope.words} is used up, and {why}{said}. "
        "This was not run. Send it again tomorrow, or ask an owner."
    )
