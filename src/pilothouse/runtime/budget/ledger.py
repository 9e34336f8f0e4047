"""The ledger: a turn reserves money before it starts and settles when it ends, in the transactions that start and end it.

The cost of a turn is what its engine reports. A turn without a report is counted as such, never guessed; under a cap,
its reservation stays taken for the day. Without a cap nothing is reserved, but spending is recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal

import msgspec
from msgspec import Struct

from pilothouse.core.budget import CapStatus, Reservation, Spent, alert_due, day_of, estimate, share_of
from pilothouse.core.conversation import Session
from pilothouse.core.errors import PilothouseError
from pilothouse.core.event import EngineEvent, SessionStarted, UsageChanged
from pilothouse.core.ids import ConversationId, IdMaker
from pilothouse.core.message import Content
from pilothouse.core.outcome import Failure
from pilothouse.core.people import OWNERS, Authority
from pilothouse.core.store import Tx
from pilothouse.core.text import dollars
from pilothouse.core.turn import Turn
from pilothouse.runtime.audit import APP, record
from pilothouse.runtime.outbox import say
from pilothouse.runtime.roles import approver_chats
from pilothouse.runtime.settings import Settings

RECENT_DAYS_S = 7 * 86_400.0

By = Literal["cause", "conversation", "workspace", "engine", "day"]

_KEYS: Mapping[By, Callable[[Spent], str]] = {
    "cause": lambda spent: spent.cause,
    "conversation": lambda spent: spent.conversation_id,
    "workspace": lambda spent: spent.workspace,
    "engine": lambda spent: spent.engine,
    "day": lambda spent: spent.day,
}


class Reserved(Struct, frozen=True):
    """The reservation of a turn."""

    amount_usd: float
    share_usd: float
    """The most its engine may spend: the reservation, and more if there is room."""
    short: CapStatus | None = None
    """The cap that has no room for it; nothing was reserved then."""


def reserve(tx: Tx, settings: Settings, turn: Turn, session: Session, at: float) -> Reserved | None:
    """Reserve for a turn; None if no cap covers it."""
    statuses = list(_cap_statuses(tx, settings, session.workspace, turn, day_of(at, settings.zone)))
    if not statuses:
        return None
    amount = _expected(tx, settings, session, at)
    most = settings.max_turns_at_once
    shares = [share_of(cap, amount, cap.scope.max_turns(most)) for cap in statuses]
    share = max(amount, min(shares))
    short = next((cap for cap in statuses if not cap.fits(amount)), None)
    if turn.cause == "wake":
        short = None  # the engine has already begun: reserve its cost in any case
    if short is None:
        day, place = statuses[0].day, turn.conversation_id
        tx.spending.reserve(Reservation(turn.id, day, session.workspace, place, amount, share_usd=share))
    return Reserved(amount, share, short)


def extend(tx: Tx, settings: Settings, turn: Turn, cost_usd: float) -> Failure | None:
    """Raise the reservation of a running turn to its cost so far. Returns the failure to stop it with, past a cap."""
    taken = tx.spending.get(turn.id)
    if taken is None or cost_usd <= taken.taken_usd:
        return None
    tx.spending.reserve(msgspec.structs.replace(taken, amount_usd=cost_usd))
    over = next(
        (s for s in _cap_statuses(tx, settings, taken.workspace, turn, taken.day) if not s.fits(0.0)), None
    )
    if over is None:
        return None
    text = (
        f"This turn has cost {dollars(cost_usd)}, and today's budget for {over.scope.words} "
        f"({dollars(over.limit_usd)}) is used up. It was stopped."
    )
    return Failure("budget", text)


def settle(
    tx: Tx,
    ids: IdMaker,
    settings: Settings,
    turn: Turn,
    cost_usd: float | None,
    at: float,
    *,
    ran: bool,
    ended: bool = True,
) -> None:
    """Record the cost of an attempt. `ran` says whether a model can have been called; otherwise the cost is zero."""
    taken = tx.spending.release(turn.id)
    day = taken.day if taken else day_of(turn.started_at or at, settings.zone)
    untold = ran and cost_usd is None
    session = tx.sessions.get(turn.session_id)
    spent = Spent(
        day,
        turn.conversation_id,
        session.workspace if session else "",
        turn.engine,
        turn.cause,
        turns=int(ended),
        untold=int(untold),
        cost_usd=cost_usd or 0.0,
        assumed_usd=taken.amount_usd if taken and untold else 0.0,
    )
    tx.spending.add(spent)
    _alert(tx, ids, settings, turn, spent, at)


def settle_lost(tx: Tx, ids: IdMaker, settings: Settings, turn: Turn, at: float, *, ended: bool) -> None:
    """Record a lost attempt with the last cost its engine reported; zero if no session had started."""
    events = _logged(tx, turn)
    told = [event.usage.cost_usd for event in events if isinstance(event, UsageChanged)]
    ran = turn.began or any(isinstance(event, SessionStarted) for event in events)
    settle(tx, ids, settings, turn, told[-1] if told else None, at, ran=ran, ended=ended)


def _logged(tx: Tx, turn: Turn) -> list[EngineEvent]:
    """Return the events of this attempt. An unreadable log is ignored: it must not block the start."""
    try:
        return [row.event for row in tx.events.of_turn(turn.id) if row.at >= (turn.started_at or 0.0)]
    except PilothouseError:
        return []


def _cap_statuses(tx: Tx, settings: Settings, workspace: str, turn: Turn, day: str) -> Iterator[CapStatus]:
    for scope, cap_usd in settings.caps.of(workspace, turn.conversation_id):
        yield tx.spending.cap_status(scope, day, cap_usd)


def _expected(tx: Tx, settings: Settings, session: Session, at: float) -> float:
    if session.turns and session.cost_usd:
        return estimate(settings.caps, session.cost_usd / session.turns, None)
    since = day_of(at - RECENT_DAYS_S, settings.zone)
    return estimate(settings.caps, None, tx.spending.average(session.engine, since))


def _alert(tx: Tx, ids: IdMaker, settings: Settings, turn: Turn, spent: Spent, at: float) -> None:
    """Send each alert once per level, scope and day."""
    for cap in _cap_statuses(tx, settings, spent.workspace, turn, spent.day):
        known = tx.spending.cap_day(cap.scope, spent.day)
        level = alert_due(cap, known.alerted)
        if level is None:
            continue
        tx.spending.save_cap_day(msgspec.structs.replace(known, alerted=level))
        scope = cap.scope.key
        record(tx, at, APP, "budget.alerted", scope=scope, day=spent.day, percent=level)
        text = f"{level} % of today's budget for {cap.scope.words} is used: {_used(cap)}."
        for place in _alert_places(tx, settings, turn, cap):
            key = f"budget:{spent.day}:{scope}:{level}:{place}"
            say(tx, ids, place, Content(text, "notice", dated=True), key=key, at=at)


def _alert_places(tx: Tx, settings: Settings, turn: Turn, cap: CapStatus) -> Iterable[ConversationId]:
    """Return the turn's conversation and, for a cap over more than one conversation, the owners' chats."""
    if cap.scope.kind == "conversation":
        return (turn.conversation_id,)
    return dict.fromkeys((turn.conversation_id, *approver_chats(tx, settings.people, Authority(OWNERS))))


def _used(cap: CapStatus) -> str:
    assumed = cap.assumed_usd
    tail = f", including {dollars(assumed)} reserved by turns that reported no cost" if assumed else ""
    return f"{dollars(cap.used_usd)} of {dollars(cap.limit_usd)}{tail}"


class CostLine(Struct, frozen=True):
    name: str
    turns: int
    cost_usd: float
    untold: int
    """Turns whose engine reported no cost; not part of `cost_usd`."""
    assumed_usd: float
    """The reservations counted for those turns."""


def sum_up(rows: Iterable[Spent], by: By) -> list[CostLine]:
    """Sum by one field, most expensive first; days in order."""
    sums: dict[str, CostLine] = {}
    for row in rows:
        name = _KEYS[by](row)
        sums[name] = _plus(sums.get(name, CostLine(name, 0, 0.0, 0, 0.0)), row)
    if by == "day":
        return sorted(sums.values(), key=lambda line: line.name)
    return sorted(sums.values(), key=lambda line: (-line.cost_usd, line.name))


def total(rows: Iterable[Spent]) -> CostLine:
    line = CostLine("total", 0, 0.0, 0, 0.0)
    for row in rows:
        line = _plus(line, row)
    return line


def _plus(line: CostLine, row: Spent) -> CostLine:
    return CostLine(
        line.name,
        line.turns + row.turns,
        line.cost_usd + row.cost_usd,
        line.untold + row.untold,
        line.assumed_usd + row.assumed_usd,
    )


def describe_line(line: CostLine) -> str:
    told = f"{dollars(line.cost_usd)} in {line.turns} turn{'' if line.turns == 1 else 's'}"
    return f"{told}, {line.untold} without a price" if line.untold else told


def describe_cap(cap: CapStatus) -> str:
    told = f"{dollars(cap.used_usd)} of {dollars(cap.limit_usd)}"
    notes = [
        f"{dollars(cap.reserved_usd)} reserved" if cap.reserved_usd else "",
        f"{dollars(cap.assumed_usd)} assumed" if cap.assumed_usd else "",
        f"{dollars(cap.raised_usd)} of it allowed today" if cap.raised_usd else "",
    ]
    said = ", ".join(filter(None, notes))
    return f"{told} ({said})" if said else told
