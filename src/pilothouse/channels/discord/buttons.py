"""Buttons, selects and forms below a message, and the presses that come back.

A custom id is a key that we made; any other is no press. Choices from a select come back as numbers of options. A form asks
for words, and has the custom id of the button that opened it.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from pilothouse.channels.discord.payload import (
    BUTTONS,
    FORM_TITLE,
    LABEL,
    OPTION_LABEL,
    OPTIONS,
    Button,
    Row,
    Select,
    SelectOption,
    Style,
)
from pilothouse.channels.presses import (
    COMMANDS,
    DETAILS,
    AskPress,
    ask_key,
    choices,
    has_details,
    is_many,
    offered,
    pressable,
    rows_of,
    stop_key,
    takes_words,
)
from pilothouse.channels.text import clip
from pilothouse.core.ask import Ask, Decision
from pilothouse.core.ids import TurnId
from pilothouse.core.message import CommandButton

SHORT = 40
"""Characters of an option that fits on a button."""
IN_WORDS = "Answer in words"
CHOOSE_ONE = "Choose one"
CHOOSE_MANY = "Choose one or more"


class Form(Struct, frozen=True):
    """A form with one text field; Discord calls it a modal."""

    key: str
    title: str
    label: str


def ask_rows(ask: Ask) -> tuple[Row, ...]:
    if ask.kind == "approval" or (ask.kind == "plan" and not ask.options):
        found = [_button(ask, n, c.label, c.decision) for n, c in enumerate(choices(ask))]
        narrow, *lasting = ([found[n] for n in row] for row in rows_of(ask))
        more = [Button(ask_key(ask, "details"), DETAILS, "secondary")] if has_details(ask) else []
        return tuple(Row(tuple(row)) for row in ([*narrow, *more], *lasting))
    words = Button(ask_key(ask, "words", None), IN_WORDS, "primary" if not _choosing(ask) else "secondary")
    in_words = not _choosing(ask) or (ask.kind == "question" and ask.free_text)
    return (*_choosing(ask), *((Row((words,)),) if in_words else ()))


def is_listed(ask: Ask) -> bool:
    """Must the text list the options? Some labels are too long for a button, or there are too many."""
    return len(ask.options) > OPTIONS or any(len(option.label) > OPTION_LABEL for option in ask.options)


def stop_row(turn_id: TurnId | None) -> Row:
    return Row((Button(stop_key(turn_id), "Stop", "danger"),))


def command_rows(buttons: Sequence[CommandButton]) -> tuple[Row, ...]:
    """Buttons that run commands; a list to choose from if they are many or long."""
    found = pressable(buttons)[:OPTIONS]
    if len(found) <= BUTTONS and all(len(button.label) <= SHORT for _, button in found):
        row = tuple(Button(key, clip(button.label, LABEL)) for key, button in found)
        return (Row(row),) if row else ()
    once = {button.line: button.label for _, button in found}
    listed = tuple(SelectOption(line, clip(label, OPTION_LABEL)) for line, label in once.items())
    return (Row((Select(COMMANDS, listed, placeholder=CHOOSE_ONE),)),)


def form_of(ask: Ask, press: AskPress) -> Form | None:
    """The form that a press opens; None if it asks for no words. `decide_words` reads what comes back."""
    if press.act != "words":
        return None
    key = ask_key(ask, "words", press.index)
    if press.index is None:
        return Form(key, "Your answer", "In your own words") if takes_words(ask) else None
    found = choices(ask)
    if press.index >= len(found) or not found[press.index].decision.reason_wanted:
        return None
    label = "What shall change?" if ask.kind == "plan" else "Why not?"
    return Form(key, clip(found[press.index].label, FORM_TITLE), label)


def _choosing(ask: Ask) -> tuple[Row, ...]:
    options = offered(ask)
    if not options or len(ask.options) > OPTIONS:
        return ()
    if len(options) <= BUTTONS and not is_many(ask) and all(len(o.label) <= SHORT for o in options):
        return (Row(tuple(_button(ask, n, option.label) for n, option in enumerate(options))),)
    listed = tuple(
        SelectOption(str(number), _label(ask, number, option.label, OPTION_LABEL))
        for number, option in enumerate(options)
    )
    most, said = (len(options), CHOOSE_MANY) if is_many(ask) else (1, CHOOSE_ONE)
    return (Row((Select(ask_key(ask, "pick"), listed, max=most, placeholder=said),)),)


def _button(ask: Ask, number: int, label: str, decision: Decision | None = None) -> Button:
    """A button for a choice; a denial with a reason opens a form."""
    wants_words = decision is not None and decision.reason_wanted
    key = ask_key(ask, "words" if wants_words else "choose", number)
    return Button(key, _label(ask, number, label, LABEL), _style(decision))


def _style(decision: Decision | None) -> Style:
    match decision:
        case Decision(verdict="allow", remember="once"):
            return "success"
        case Decision(verdict="deny", reason_wanted=False):
            return "danger"
        case _:
            return "secondary"


def _label(ask: Ask, number: int, label: str, limit: int) -> str:
    label = " ".join(label.split()) or "…"
    return clip(f"{number + 1}. {label}" if is_listed(ask) else label, limit)
