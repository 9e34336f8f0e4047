"""A stranger who wants in: an owner is asked, and a yes makes a member. Few asks at once, and none after a no."""

from __future__ import annotations

import msgspec

from pilothouse.core.ask import Ask, AskRow, Decision
from pilothouse.core.ids import AskId, IdMaker, UserId
from pilothouse.core.message import Address, Content, InboundMessage
from pilothouse.core.people import OWNERS, Authority, Grant, People
from pilothouse.core.store import Tx
from pilothouse.runtime.auditing import record
from pilothouse.runtime.outgoing import say
from pilothouse.runtime.placing import ensure_place
from pilothouse.runtime.raising import raise_ask
from pilothouse.runtime.standing import homes_of
from pilothouse.runtime.wording import first_line

JOIN = "join"
OPEN_S = 86_400.0
UNWANTED_S = 30 * 86_400.0
MOST_OPEN = 5
"""A crowd of strangers must not bury an owner under questions."""
WELCOME = "You are let in. Send a message to begin; /help lists the commands."


def ask_to_join(tx: Tx, ids: IdMaker, people: People, message: InboundMessage, at: float) -> AskRow | None:
    """What the owners are asked, now or already; None if they are not."""
    user = message.author.id
    waiting = tx.asks.open_about(JOIN, limit=MOST_OPEN)
    if already := [row for row in waiting if row.ask.payload["user"] == user]:
        return already[0]
    if len(waiting) >= MOST_OPEN or tx.tallied(_unwanted(user), at, UNWANTED_S):
        return None
    name = first_line(message.author.name)  # theirs to choose: it must not write lines of its own
    asked = Ask(
        AskId(""),
        "approval",
        f"Let {name} ({user}) in as a member?",
        {"user": user, "name": name, "role": "member", "address": msgspec.to_builtins(message.address)},
        expires_at=at + OPEN_S,
    )
    authority = Authority(OWNERS)
    places = homes_of(tx, people, authority)
    return raise_ask(tx, ids, asked, topic=JOIN, authority=authority, places=places, at=at)


def settle_join(tx: Tx, ids: IdMaker, row: AskRow, decision: Decision, at: float) -> None:
    payload, by = row.ask.payload, decision.by or ""
    user = UserId(payload["user"])
    if decision.verdict != "allow":
        if by:  # nobody answering is no verdict on anybody
            tx.tally(_unwanted(user), at, UNWANTED_S)
        return
    tx.people.grant(Grant(user, "member", name=payload["name"], by=by, at=at))
    record(tx, at, by, "people.granted", user=user, role="member")
    address = msgspec.convert(payload["address"], Address)
    place = ensure_place(tx, address, at)
    say(tx, ids, place.id, Content(WELCOME, "notice"), key=f"welcome:{row.ask.id}", at=at)


def _unwanted(user: UserId) -> str:
    return f"unwanted:{user}"
