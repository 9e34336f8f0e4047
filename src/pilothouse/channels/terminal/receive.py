"""From keys to words: who types here, under which ids, and what a key says to an ask."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Literal

from msgspec import Struct

from pilothouse.channels.terminal.config import TERMINAL
from pilothouse.core.ask import Ask, Decision, Remember
from pilothouse.core.ask_view import input_of, rule_offered
from pilothouse.core.ids import UserId
from pilothouse.core.message import Address, Author, InboundMessage

NOBODY_HERE = "nobody can answer here"
SAID_NO = "The person said no."
ENTER_KEEPS = "Enter keeps this rule; any other key goes on typing."
WHY = "Why not? Type the reason, then Enter; an empty line goes back."
REMEMBER: tuple[tuple[str, str, Remember], ...] = (
    ("s", "allow for this session", "session"),
    ("a", "allow always here", "always"),
)


class Line(Struct, frozen=True):
    text: str
    warned: str = ""
    """What the screen said, when Enter was pressed, that the line would keep."""


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

    def message(self, text: str, at: float, *, alone: bool = False) -> InboundMessage:
        return InboundMessage(
            self.address,
            self.author,
            self.next_id(),
            text,
            private=True,
            source="terminal",
            sent_at=at,
            alone=alone,
        )


def take_seat(place: str, user: str, now: Callable[[], float], pid: int) -> Seat:
    """Ids are `<epoch ms>-<pid>-<n>`: no other process, and no later one, makes the same."""
    counted = count(1)
    return Seat(
        Address(TERMINAL, place),
        Author(UserId(f"{TERMINAL}:{user}"), user),
        lambda: f"{int(now() * 1000)}-{pid}-{next(counted)}",
    )


Deed = Literal["answer", "reason", "change", "whole", "help"]


class Choice(Struct, frozen=True):
    """A key, what it is called, and what it does. A `reason` or a `change` is complete only with more words."""

    key: str
    label: str
    deed: Deed = "answer"
    decision: Decision | None = None
    rule: str = ""
    """What it would save besides, exactly."""

    @property
    def at_once(self) -> bool:
        """A plain yes or no. All else is read with Enter: more words follow it, or a sentence begins with its letter."""
        return self.deed == "answer" and not self.rule


def choices(ask: Ask) -> tuple[Choice, ...]:
    """The keys that an ask has, in the order in which they are shown; the options of a question are apart."""
    if ask.kind == "approval":
        return tuple(_approvals(ask))
    if ask.kind == "plan" and not ask.options:
        return (
            Choice("y", "go ahead", decision=Decision("allow")),
            Choice("n", "not so", decision=Decision("deny", text=SAID_NO)),
            Choice("r", "not so, and say why", "reason"),
        )
    return ()


def _approvals(ask: Ask) -> Iterator[Choice]:
    yield Choice("y", "allow", decision=Decision("allow"))
    for key, label, remember in REMEMBER:
        if rule := rule_offered(ask, remember):
            yield Choice(key, label, decision=Decision("allow", remember=remember), rule=rule)
    if input_of(ask) is not None:
        yield Choice("m", "change", "change")
    yield Choice("n", "deny", decision=Decision("deny"))
    if not ask.of_house:
        yield Choice("r", "deny, and say why", "reason")
    yield Choice("d", "all", "whole")
    yield Choice("?", "help", "help")


def keys_of(ask: Ask) -> str:
    """Those that answer at once, without Enter; of the numbers none where more may follow the first."""
    numbers = "" if ask.many or len(ask.options) > 9 else "".join(map(str, range(1, len(ask.options) + 1)))
    return "".join(choice.key for choice in choices(ask) if choice.at_once) + numbers


def chosen(ask: Ask, typed: str) -> Choice | None:
    """The choice that `typed` names, by its key or its label."""
    word = typed.strip().lower()
    return next((choice for choice in choices(ask) if word in (choice.key, choice.label.lower())), None)


def decide(ask: Ask, typed: str) -> Decision | None:
    """What `typed` says to the ask: one of its keys, options by number or name, or, where it takes words, the words."""
    word = typed.strip()
    if choice := chosen(ask, word):
        return choice.decision
    if options := _options(ask, word):
        return Decision("answer", options)
    if word and (ask.free_text or not (choices(ask) or ask.options)):
        return Decision("answer", text=word)
    return None


def _options(ask: Ask, word: str) -> tuple[str, ...]:
    """`2`, `Blue`, or, where several may be chosen, `1,3`; nothing if any of them is no option."""
    named = {str(n): option.key for n, option in enumerate(ask.options, 1)}
    named |= {option.label.lower(): option.key for option in ask.options}
    if word.lower() in named:
        return (named[word.lower()],)
    words = [part.strip().lower() for part in word.replace(";", ",").split(",")] if ask.many else []
    if len(words) == 1:
        words = word.lower().split()
    found = [named.get(part) for part in words if part]
    return tuple(dict.fromkeys(key for key in found if key is not None)) if None not in found else ()


def explain_key(ask: Ask, choice: Choice) -> str:
    """What a key does, in a sentence."""
    about = (ABOUT_PLANS if ask.kind == "plan" else ABOUT).get(choice.key, choice.label)
    return about if choice.at_once else f"then Enter: {about}"


ABOUT = {
    "y": "allow it, this once",
    "s": "allow it, and whatever the rule allows, until this session ends",
    "a": "allow it, and whatever the rule allows, in this workspace from now on",
    "m": "change what would be done, then allow that",
    "n": "deny it, and stop the turn",
    "r": "deny it and say why; the engine hears the reason and goes on",
    "d": "the whole change, and exactly what is asked",
    "?": "this",
}
ABOUT_PLANS = {"y": "let it go ahead", "n": "send the plan back", "r": "send it back and say why"}
