"""The choices of an ask, and what each press decides. Shared by every channel.

A button's key has the number of a choice, so their order depends on the ask only.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from pilothouse.channels.button_keys import MAX_OPTIONS, AskPress
from pilothouse.core.ask import Ask, Decision, Option, Remember, parse_reply

SAID_NO = "The person said no."
ALLOW: dict[Remember, str] = {
    "once": "Allow once",
    "session": "Allow for this session",
    "always": "Always allow",
}


class Choice(Struct, frozen=True):
    label: str
    decision: Decision


def choices(ask: Ask) -> tuple[Choice, ...]:
    if ask.kind == "approval":
        return tuple(_approvals(ask))
    if ask.options:
        return tuple(Choice(option.label, Decision("answer", (option.key,))) for option in offered(ask))
    if ask.kind == "plan":
        return (
            Choice("Go ahead", Decision("allow")),
            Choice("Not so", Decision("deny", text=SAID_NO)),
            Choice("Say what to change", Decision("deny", reason_wanted=True)),
        )
    return ()


def decide(ask: Ask, press: AskPress) -> Decision | None:
    """Returns what the press decides; None if it decides nothing yet, or names an unknown choice."""
    found = choices(ask)
    match press:
        case AskPress(act="done", chosen=chosen):
            return _chosen(ask, chosen) if is_many(ask) else None
        case AskPress(act="pick", chosen=chosen):
            one = chosen.bit_count() == 1
            return _chosen(ask, chosen) if one or is_many(ask) else None
        case AskPress(act="choose", index=int(index)) if index < len(found):
            return found[index].decision
        case _:
            return None


def decide_words(ask: Ask, press: AskPress, text: str) -> Decision | None:
    """Returns what typed words decide: an answer, or a denial with its reason. None if no words were asked for."""
    if press.act != "words" or not text.strip():
        return None
    found = choices(ask)
    if press.index is None:
        return parse_reply(ask, text) if takes_words(ask) else None
    if press.index < len(found) and found[press.index].decision.reason_wanted:
        return Decision("deny", text=text)
    return None


def offered(ask: Ask) -> tuple[Option, ...]:
    return ask.options[:MAX_OPTIONS]


def takes_words(ask: Ask) -> bool:
    """Returns true if words can answer it: a question, or a plan with options, by their number or name."""
    return ask.kind == "question" or (ask.kind == "plan" and bool(ask.options))


def is_many(ask: Ask) -> bool:
    return ask.many and bool(ask.options) and ask.kind != "approval"


def _chosen(ask: Ask, chosen: int) -> Decision | None:
    if ask.kind == "approval":
        return None
    keys = tuple(option.key for bit, option in enumerate(offered(ask)) if chosen >> bit & 1)
    return Decision("answer", keys) if keys else None


def _approvals(ask: Ask) -> Iterator[Choice]:
    if ask.of_house:  # a yes is permanent, and no engine would read a reason
        yield Choice("Allow", Decision("allow"))
        yield Choice("Deny", Decision("deny"))
        return
    yield Choice(ALLOW["once"], Decision("allow"))
    for remember in ("session", "always"):
        if any(offer.remember == remember for offer in ask.offers):
            yield Choice(ALLOW[remember], Decision("allow", remember=remember))
    yield Choice("Deny", Decision("deny"))
    yield Choice("Deny and say why", Decision("deny", reason_wanted=True))
