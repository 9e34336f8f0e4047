"""The last line of a chat that was left with an open ask: where it can be answered, and for how long."""

from __future__ import annotations

from pilothouse.core.ask import AskKind, AskRow
from pilothouse.core.ids import ChannelId, ConversationId
from pilothouse.core.people import People
from pilothouse.core.store import Tx
from pilothouse.core.text import long_span
from pilothouse.runtime.asks.show import route_ask
from pilothouse.runtime.roles import approvers_with_chat, name_of

GOES = "{what} still open. {goes} to {names} in a private chat on {channels}{span}."
STAYS = "{what} still open{span}. `pilothouse chat` in this folder shows {it} again."
KINDS: dict[AskKind, str] = {"approval": "An approval is", "question": "A question is", "plan": "A plan is"}


def describe_open_asks(
    tx: Tx, people: People, here: ConversationId, served: frozenset[ChannelId], now: float
) -> str:
    """Describes the open asks of a terminal that nobody attends; empty if there are none.

    `served` are the channels of a running gateway: an ask goes to no other.
    """
    rows = tx.asks.open_in(here)
    if not rows:
        return ""
    row = rows[0]
    what = KINDS[row.ask.kind] if len(rows) == 1 else f"{len(rows)} asks are"
    span = f", for up to {long_span(row.ask.expires_at - now)}" if row.ask.expires_at else ""
    places = _places(tx, people, row, served, now)
    if not places:
        return STAYS.format(what=what, span=span, it="it" if len(rows) == 1 else "them")
    homes = approvers_with_chat(tx, people, row.authority)
    names = ", ".join(name_of(tx, user) for user, home in homes.items() if home in places)
    channels = ", ".join(dict.fromkeys(place.partition(":")[0] for place in places))
    goes = "It goes" if len(rows) == 1 else "They go"
    return GOES.format(what=what, goes=goes, names=names, channels=channels, span=span)


def _places(
    tx: Tx, people: People, row: AskRow, served: frozenset[ChannelId], now: float
) -> tuple[ConversationId, ...]:
    if row.shown_in or row.authority.approvers.route != "auto":
        return row.shown_in
    return route_ask(tx, people, row.authority, row.conversation_id, served, now)[0]
