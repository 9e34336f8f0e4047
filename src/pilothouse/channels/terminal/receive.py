"""Turns typed keys and lines into messages and decisions: who types, message ids, and the keys of an ask."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import count
from typing import Literal

from msgspec import Struct

from pilothouse.channels.terminal.config import TERMINAL
from pilothouse.core.ask import Ask, Decision, Remember, input_of
from pilothouse.core.ask_view import describe_offer, rule_offered
from pilothouse.core.ids import UserId
from pilothouse.core.message import Address, Author, InboundMessage

NOBODY_HERE = "nobody can answer here"
SAID_NO = "The person said no."
ENTER_KEEPS = "Type on to write a message instead."
WHY = "Why not? Type the reason, then Enter; an empty line goes back."
REMEMBER: tuple[tuple[str, str, Remember], ...] = (
    ("s", "allow {rule} for this session", "session"),
    ("a", "always allow {rule} here", "always"),
)
_ID = re.compile(r"\d+-(\d+)-\d+")
YES, NO = ("yes", "allow", "ok"), ("no", "deny")
"""Words that answer an ask when they are typed, besides its keys and labels."""


class Line(Struct, frozen=True):
    text: str
    warned: str = ""
    """The rule that the screen showed when Enter was pressed."""
    ask: Ask | None = None
    """The question that the screen showed then."""


class Key(Struct, frozen=True):
    char: str
    ask: Ask | None = None


class Interrupt(Struct, frozen=True):
    """Ctrl-C."""


class Escape(Struct, frozen=True):
    """Escape, with nothing in the line that is for an ask."""


class PasteImage(Struct, frozen=True):
    """Ctrl-V: the image on the clipboard."""


class Leave(Struct, frozen=True):
    """Ctrl-D, or the end of the input."""


Typed = Line | Key | Interrupt | Escape | PasteImage | Leave


class Identity(Struct, frozen=True):
    """The conversation, the person at the keyboard, and a maker of message ids."""

    address: Address
    author: Author
    next_id: Callable[[], str]
    pid: int

    def made(self, id: str) -> bool:
        """Returns false for the id of a message from another terminal."""
        found = _ID.fullmatch(id)
        return found is None or found[1] == str(self.pid)

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


def make_identity(place: str, user: str, now: Callable[[], float], pid: int) -> Identity:
    """Makes ids as `<epoch ms>-<pid>-<n>`, unique across processes and time."""
    counted = count(1)
    return Identity(
        Address(TERMINAL, place),
        Author(UserId(f"{TERMINAL}:{user}"), user),
        lambda: f"{int(now() * 1000)}-{pid}-{next(counted)}",
        pid,
    )


Action = Literal["answer", "reason", "change", "whole", "help"]


class Choice(Struct, frozen=True):
    """A key, its label, and what it does. A `reason` or a `change` needs more words."""

    key: str
    label: str
    action: Action = "answer"
    decision: Decision | None = None
    rule: str = ""
    """The exact rule that it would keep."""
    words: tuple[str, ...] = ()
    """Other words that name it when they are typed."""

    @property
    def at_once(self) -> bool:
        """True for a plain yes or no, which need no Enter if the key comes alone."""
        return self.action == "answer" and not self.rule


def choices(ask: Ask) -> tuple[Choice, ...]:
    """Returns the keys of an ask in the order shown, without the options of a question."""
    if ask.kind == "approval":
        return tuple(_approvals(ask))
    if ask.kind == "plan" and not ask.options:
        return (
            Choice("y", "go ahead", decision=Decision("allow"), words=YES),
            Choice("n", "no", decision=Decision("deny", text=SAID_NO), words=NO),
            Choice("r", "no, and say why", "reason"),
        )
    return ()


def _approvals(ask: Ask) -> Iterator[Choice]:
    """Yields the narrow choices first, then the lasting ones, then everything that is no answer yet."""
    once = "allow" if ask.of_house else "allow once"
    yield Choice("y", once, decision=Decision("allow"), words=YES)
    yield Choice("n", "deny", decision=Decision("deny"), words=NO)
    for key, label, remember in REMEMBER:
        if rule := rule_offered(ask, remember):
            told = label.format(rule=describe_offer(rule))
            yield Choice(key, told, decision=Decision("allow", remember=remember), rule=rule)
    if input_of(ask) is not None:
        yield Choice("m", "edit", "change")
    if not ask.of_house:
        yield Choice("r", "deny with a reason", "reason")
        yield Choice("d", "full details", "whole")
    yield Choice("?", "help", "help")


def keys_of(ask: Ask) -> str:
    """Returns the keys that answer without Enter; no numbers if a second digit or option may follow."""
    numbers = "" if ask.many or len(ask.options) > 9 else "".join(map(str, range(1, len(ask.options) + 1)))
    return "".join(choice.key for choice in choices(ask) if choice.at_once) + numbers


def chosen(ask: Ask, typed: str) -> Choice | None:
    """Returns the choice that `typed` names by key, label or word."""
    word = typed.strip().lower()
    plain = word.rstrip(".!")
    found = (c for c in choices(ask) if word in (c.key, c.label.lower()) or plain in c.words)
    return next(found, None)


def decide(ask: Ask, typed: str) -> Decision | None:
    """Returns what `typed` decides: by a key, by options' numbers or names, or, if the ask takes text, by the text."""
    word = typed.strip()
    if choice := chosen(ask, word):
        return choice.decision
    if options := _options(ask, word):
        return Decision("answer", options)
    if word and (ask.free_text or not (choices(ask) or ask.options)):
        return Decision("answer", text=word)
    return None


def _options(ask: Ask, word: str) -> tuple[str, ...]:
    """Parses `2`, `Blue`, or, if several may be chosen, `1,3`; empty if any of them is not an option."""
    named = {str(n): option.key for n, option in enumerate(ask.options, 1)}
    for option in ask.options:
        named |= {option.label.partition(": ")[0].lower(): option.key, option.label.lower(): option.key}
    if word.lower() in named:
        return (named[word.lower()],)
    words = [part.strip().lower() for part in word.replace(";", ",").split(",")] if ask.many else []
    if len(words) == 1:
        words = word.lower().split()
    found = [named.get(part) for part in words if part]
    return tuple(dict.fromkeys(key for key in found if key is not None)) if None not in found else ()


def explain_key(ask: Ask, choice: Choice) -> str:
    """Says what a key does."""
    return (ABOUT_PLANS if ask.kind == "plan" else ABOUT).get(choice.key, choice.label)


ABOUT = {
    "y": "allow it, this once",
    "s": "allow it, and all that the rule allows, until this session ends",
    "a": "allow it, and all that the rule allows, in this workspace from now on",
    "m": "change what would be done, then allow that",
    "n": "deny it, and stop the turn",
    "r": "deny it and say why; the engine reads the reason and goes on",
    "d": "the whole change, and exactly what would run",
    "?": "this",
}
ABOUT_PLANS = {"y": "let it go ahead", "n": "send the plan back", "r": "send it back and say why"}
