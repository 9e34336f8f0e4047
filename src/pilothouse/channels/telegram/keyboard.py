"""The inline keyboard of an ask. Each button carries a key of at most 64 bytes.

Keys hold the options chosen so far, so a restart loses nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from pilothouse.channels import button_keys
from pilothouse.channels.button_keys import Act, AskPress, Press, StopPress
from pilothouse.channels.choices import choices, is_many, offered
from pilothouse.channels.telegram.payload import CALLBACK_BYTES, Button, Keyboard
from pilothouse.core.ask import Ask
from pilothouse.core.ids import TurnId

__all__ = ["AskPress", "Press", "StopPress", "ask_key", "parse_press", "stop_key"]

LABEL_CHARS = 32


def ask_key(ask: Ask, act: Act, index: int = 0, chosen: int = 0) -> str:
    return button_keys.bounded(button_keys.ask_key(ask, act, index, chosen), CALLBACK_BYTES)


def stop_key(turn_id: TurnId | None) -> str:
    return button_keys.bounded(button_keys.stop_key(turn_id), CALLBACK_BYTES)


def parse_press(data: str) -> Press | None:
    """Parse a button's data. Return None for data that we did not write."""
    if len(data.encode(errors="replace")) > CALLBACK_BYTES:
        return None
    return button_keys.parse_key(data)


def is_numbered(ask: Ask) -> bool:
    """Tell whether options are too long for buttons. Then the text lists them, and buttons have their numbers."""
    return any(len(option.label) > LABEL_CHARS for option in ask.options)


def keyboard(ask: Ask, chosen: int = 0) -> Keyboard | None:
    """Return the buttons, with chosen options marked. None for a question that only takes text."""
    rows = [
        tuple(row) for row in (_multi_choice(ask, chosen) if is_many(ask) else _single_choice(ask)) if row
    ]
    return Keyboard(tuple(rows)) if rows else None


def toggled(ask: Ask, press: AskPress, before: int | None = None) -> int:
    """Return the choice after the press, which flips the state that its button showed when it was pressed."""
    bit = 1 << (press.index or 0)
    others = (press.chosen if before is None else before) & ~bit
    known = (1 << len(offered(ask))) - 1
    return (others | (~press.chosen & bit)) & known


def _single_choice(ask: Ask) -> Iterator[list[Button]]:
    found = choices(ask)
    buttons = [
        Button(_label(ask, number, choice.label), ask_key(ask, "choose", number))
        for number, choice in enumerate(found)
    ]
    if ask.kind == "approval" and not ask.of_house:
        once, *offers, deny, why = buttons
        yield from ([once, deny], offers, [why])
    else:
        yield from _rows(buttons)


def _multi_choice(ask: Ask, chosen: int) -> Iterator[list[Button]]:
    buttons = [
        Button(f"{'☑' if chosen >> number & 1 else '☐'} {_label(ask, number, option.label)}",
               ask_key(ask, "toggle", number, chosen))
        for number, option in enumerate(offered(ask))
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
    """Lay out buttons: three to a row if they are very short, two if short, else one."""
    longest = max((len(button.text) for button in buttons), default=0)
    size = 3 if longest <= 8 else 2 if longest <= 16 else 1
    for at in range(0, len(buttons), size):
        yield buttons[at : at + size]
