"""Money: a turn reserves before it starts and settles when it ends, inside the transactions that start and end it.

A turn is told its share, and so much is taken from what others may reserve. Without a cap nothing is reserved; where money went is written down all the same. What a turn costs is what its engine
tells. One that does not tell is counted as such, and where there is a cap, its reservation stays taken for the day.

Pure: where money went, in words and sums. What an engine did not tell is counted, never guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal

import msgspec
from msgspec import Struct

from pilothouse.core.budget import Reservation, Spent, Standing, alert_due, day_of, estimate, share_of
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
from pilothouse.runtime.audit import HOUSE, record
from pilothouse.runtime.outbox import say
from pilothouse.runtime.roles import homes_of
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
    """What a turn has taken. If some scope is `short` of it, nothing was."""

    amount_usd: float
    share_usd: float
    """What its engine may spend: its reservation, and more where others leave room."""
    short: Standing | None = None


def reserve(tx: Tx, settings: Settings, turn: Turn, session: Session, at: float) -> Reserved | None:
    """None where no cap covers the turn."""
    standings = list(_standings(tx, settings, session.workspace, turn, day_of(at, settings.zone)))
    if not standings:
        return None
    amount = _expected(tx, settings, session, at)
    most = settings.max_turns_at_once
    shares = [share_of(standing, amount, standing.scope.at_once(most)) for standing in standings]
    share = max(amount, min(shares))
    short = next((standing for standing in standings if not standing.fits(amount)), None)
    if turn.cause == "wake":
        short = None  # the engine has begun by itself: whatever it costs, others must not spend it too
    if short is None:
        day, place = standings[0].day, turn.conversation_id
        tx.spending.reserve(Reservation(turn.id, day, session.workspace, place, amount, share_usd=share))
    return Reserved(amount, share, short)


def extend(tx: Tx, settings: Settings, turn: Turn, cost_usd: float) -> Failure | None:
    """A running turn has cost this much. If that is past its share, others must know; if it is past a cap, it
    has to stop, and this is why."""
    taken = tx.spending.get(turn.id)
    if taken is None or cost_usd <= taken.taken_usd:
        return None
    tx.spending.reserve(msgspec.structs.replace(taken, amount_usd=cost_usd))
    over = next(
        (s for s in _standings(tx, settings, taken.workspace, turn, taken.day) if not s.fits(0.0)), None
    )
    if over is None:
        return None
    text = (
        f"This turn has cost {dollars(cost_usd)}, and that is all that is left today "
        f"for {over.scope.words} ({dollars(over.limit_usd)}). It was stopped."
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
    """What an attempt cost. `ran` is whether a model can have been called: what cannot have cost anything is told."""
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
    """With what its engine had told before its worker was gone. One that had not begun to speak has cost nothing."""
    events = _logged(tx, turn)
    told = [event.usage.cost_usd for event in events if isinstance(event, UsageChanged)]
    ran = turn.began or any(isinstance(event, SessionStarted) for event in events)
    settle(tx, ids, settings, turn, told[-1] if told else None, at, ran=ran, ended=ended)


def _logged(tx: Tx, turn: Turn) -> list[EngineEvent]:
    """Of this attempt. A log that cannot be read must not keep anybody from starting."""
    try:
        return [row.event for row in tx.events.of_turn(turn.id) if row.at >= (turn.started_at or 0.0)]
    except PilothouseError:
        return []


def _standings(tx: Tx, settings: Settings, workspace: str, turn: Turn, day: str) -> Iterator[Standing]:
    for scope, cap_usd in settings.caps.of(workspace, turn.conversation_id):
        yield tx.spending.standing(scope, day, cap_usd)


def _expected(tx: Tx, settings: Settings, session: Session, at: float) -> float:
    if session.turns and session.cost_usd:
        return estimate(settings.caps, session.cost_usd / session.turns, None)
    since = day_of(at - RECENT_DAYS_S, settings.zone)
    return estimate(settings.caps, None, tx.spending.average(session.engine, since))


def _alert(tx: Tx, ids: IdMaker, settings: Settings, turn: Turn, spent: Spent, at: float) -> None:
    """Said once per level, scope and day."""
    for standing in _standings(tx, settings, spent.workspace, turn, spent.day):
        known = tx.spending.cap_day(standing.scope, spent.day)
        level = alert_due(standing, known.alerted)
        if level is None:
            continue
        tx.spending.save_cap_day(msgspec.structs.replace(known, alerted=level))
        scope = standing.scope.key
        record(tx, at, HOUSE, "budget.alerted", scope=scope, day=spent.day, percent=level)
        text = f"{level} % of today's budget for {standing.scope.words} is used: {_used(standing)}."
        for place in _alert_places(tx, settings, turn, standing):
            key = f"budget:{spent.day}:{scope}:{level}:{place}"
            say(tx, ids, place, Content(text, "notice", dated=True), key=key, at=at)


def _alert_places(tx: Tx, settings: Settings, turn: Turn, standing: Standing) -> Iterable[ConversationId]:
    """Where the level was reached; and what concerns more than one conversation, its owners too."""
    if standing.scope.kind == "conversation":
        return (turn.conversation_id,)
    return dict.fromkeys((turn.conversation_id, *homes_of(tx, settings.people, Authority(OWNERS))))


def _used(standing: Standing) -> str:
    assumed = standing.assumed_usd
    tail = f", of which {dollars(assumed)} are reservations of turns that did not tell" if assumed else ""
    return f"{dollars(standing.used_usd)} of {dollars(standing.limit_usd)}{tail}"


class CostLine(Struct, frozen=True):
    name: str
    turns: int
    cost_usd: float
    untold: int
    """Turns whose engine did not say what they cost: they are not in `cost_usd`."""
    assumed_usd: float
    """What was held against the budget for those."""


def sum_up(rows: Iterable[Spent], by: By) -> list[CostLine]:
    """The dearest first; days in their order."""
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


def line_words(line: CostLine) -> str:
    told = f"{dollars(line.cost_usd)} in {line.turns} turn{'' if line.turns == 1 else 's'}"
    return f"{told}, {line.untold} not told" if line.untold else told


def standing_words(standing: Standing) -> str:
    told = f"{dollars(standing.used_usd)} of {dollars(standing.limit_usd)}"
    notes = [
        f"{dollars(standing.reserved_usd)} reserved" if standing.reserved_usd else "",
        f"{dollars(standing.assumed_usd)} assumed" if standing.assumed_usd else "",
        f"{dollars(standing.raised_usd)} of it allowed today" if standing.raised_usd else "",
    ]
    said = ", ".join(filter(None, notes))
    return f"{told} ({said})" if said else told
