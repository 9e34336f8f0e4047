"""How an ask can be answered: its buttons in a fixed order, and what each press decides.

The order is part of what a button carries, so it depends on nothing but the ask.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from pilothouse.channels.telegram.callback import AskPress, ask_key
from pilothouse.channels.telegram.payload import Button, Keyboard
from pilothouse.core.ask import Ask, Decision, Option, Remember

SAID_NO = "The person said no."
LABEL_CHARS = 32
MAX_OPTIONS = 60
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
        return tuple(Choice(option.label, Decision("answer", (option.key,))) for option in _options(ask))
    if ask.kind == "plan":
        return (
            Choice("Go ahead", Decision("allow")),
            Choice("Not so", Decision("deny", text=SAID_NO)),
            Choice("Say what to change", Decision("deny", reason_wanted=True)),
        )
    return ()


def is_numbered(ask: Ask) -> bool:
    """Whether the options are too long for buttons: then the text lists them, and the buttons have their numbers."""
    return any(len(option.label) > LABEL_CHARS for option in ask.options)


def keyboard(ask: Ask, chosen: int = 0) -> Keyboard | None:
    """Its buttons, with what was chosen so far marked; None for a question that wants words alone."""
    rows = [tuple(row) for row in (_many(ask, chosen) if _is_many(ask) else _one(ask)) if row]
    return Keyboard(tuple(rows)) if rows else None


def decide(ask: Ask, press: AskPress) -> Decision | None:
    """What the press decides; None where it only changes the buttons, or names something that is not there."""
    if press.act == "done":
        keys = tuple(option.key for bit, option in enumerate(_options(ask)) if press.chosen >> bit & 1)
        return Decision("answer", keys) if keys and _is_many(ask) else None
    found = choices(ask)
    if press.act == "choose" and press.index < len(found):
        return found[press.index].decision
    return None


def toggled(ask: Ask, press: AskPress) -> int:
    """What is chosen after the press."""
    known = (1 << len(_options(ask))) - 1
    return (press.chosen ^ (1 << press.index)) & known


def _approvals(ask: Ask) -> Iterator[Choice]:
    yield Choice(ALLOW["once"], Decision("allow"))
    for remember in ("session", "always"):
        if any(offer.remember == remember for offer in ask.offers):
            yield Choice(ALLOW[remember], Decision("allow", remember=remember))
    yield Choice("Deny", Decision("deny"))
    yield Choice("Deny and say why", Decision("deny", reason_wanted=True))


def _options(ask: Ask) -> tuple[Option, ...]:
    return ask.options[:MAX_OPTIONS]


def _is_many(ask: Ask) -> bool:
    return ask.many and bool(ask.options) and ask.kind != "approval"


def _one(ask: Ask) -> Iterator[list[Button]]:
    found = choices(ask)
    buttons = [
        Button(_label(ask, number, choice.label), ask_key(ask, "choose", number))
        for number, choice in enumerate(found)
    ]
    if ask.kind == "approval":
        once, *offers, deny, why = buttons
        yield from ([once, deny], offers, [why])
    else:
        yield from _rows(buttons)


def _many(ask: Ask, chosen: int) -> Iterator[list[Button]]:
    buttons = [
        Button(f"{'☑' if chosen >> number & 1 else '☐'} {_label(ask, number, option.label)}",
               ask_key(ask, "toggle", number, chosen))
        for number, option in enumerate(_options(ask))
    ]  # fmt: skip
    yield from _rows(buttons)
    count = (chosen & ((1 << len(buttons)) - 1)).bit_count()
    yield [Button(f"Done ({count} chosen)" if count else "Done", ask_key(ask, "done", chosen=chosen))]


def _label(ask: Ask, number: int, label: str) -> str:
    label = " ".join(label.split()) or "…"
    if not is_numbered(ask):
        return label
    short = label if len(label) <= LABEL_CHARS else f"{label[: LABEL_CHARS - 1].rstrip()}…"
    return f"{number + 1}. {short}"


def _rows(buttons: list[Button]) -> Iterator[list[Button]]:
    """Short ones side by side: three of a few letters, two of a word or two, else one to a row."""
    longest = max((len(button.text) for button in buttons), default=0)
    size = 3 if longest <= 8 else 2 if longest <= 16 else 1
    for at in range(0, len(buttons), size):
        yield buttons[at : at + size]
