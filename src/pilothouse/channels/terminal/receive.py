"""From keys to words: who types here, under which ids, and what a key says to an ask."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from msgspec import Struct

from pilothouse.channels.terminal.config import TERMINAL
from pilothouse.core.ask import Ask, Decision
from pilothouse.core.ids import UserId
from pilothouse.core.message import Address, Author, InboundMessage

NOBODY_HERE = "nobody can answer here"
SAID_NO = "The person said no."
WHY = "Why not? Type the reason, then Enter; an empty line goes back."


class Line(Struct, frozen=True):
    text: str


class Key(Struct, frozen=True):
    char: str


class Interrupt(Struct, frozen=True):
    """Ctrl-C."""


class Leave(Struct, frozen=True):
    """Ctrl-D, or the end of the input."""


Typed = Line | Key | Interrupt | Leave


class Seat(Struct, frozen=True):
    """Where somebody sits: the place, the person, and the next id for what they say."""

    address: Address
    author: Author
    next_id: Callable[[], str]

    def message(self, text: str, at: float) -> InboundMessage:
        return InboundMessage(
            self.address, self.author, self.next_id(), text, private=True, source="terminal", sent_at=at
        )


def take_seat(place: str, user: str, now: Callable[[], float], pid: int) -> Seat:
    """Ids are `<epoch ms>-<pid>-<n>`: no other process, and no later one, makes the same."""
    counted = count(1)
    return Seat(
        Address(TERMINAL, place),
        Author(UserId(f"{TERMINAL}:{user}"), user),
        lambda: f"{int(now() * 1000)}-{pid}-{next(counted)}",
    )


class Choice(Struct, frozen=True):
    key: str
    label: str
    decision: Decision
    wants_reason: bool = False
    """The decision is complete only with words: the next line is its text."""


def choices(ask: Ask) -> tuple[Choice, ...]:
    """The keys that answer an ask, in the order in which they are shown."""
    if ask.kind == "approval":
        return (
            Choice("y", "allow", Decision("allow")),
            Choice("n", "deny", Decision("deny")),
            Choice("r", "deny, and say why", Decision("deny"), wants_reason=True),
        )
    if ask.options:
        return tuple(
            Choice(str(n), option.label, Decision("answer", (option.key,)))
            for n, option in enumerate(ask.options[:9], 1)
        )
    if ask.kind == "plan":
        return Choice("y", "go ahead", Decision("allow")), Choice(
            "n", "not so", Decision("deny", text=SAID_NO)
        )
    return ()


def chosen(ask: Ask, typed: str) -> Choice | None:
    """The choice that `typed` names, by its key or its label."""
    word = typed.strip().lower()
    return next((choice for choice in choices(ask) if word in (choice.key, choice.label.lower())), None)


def wants_reason(ask: Ask, typed: str) -> bool:
    choice = chosen(ask, typed)
    return choice is not None and choice.wants_reason


def decide(ask: Ask, typed: str) -> Decision | None:
    """What `typed` says to the ask: one of its keys, or, where it takes words, the words."""
    word = typed.strip()
    if choice := chosen(ask, word):
        return None if choice.wants_reason else choice.decision
    if word and (ask.free_text or not choices(ask)):
        return Decision("answer", text=word)
    return None
