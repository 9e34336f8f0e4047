"""Renders the progress of a turn as one message: state, duration, last steps, the text so far, and a Stop button. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from pilothouse.channels.discord.buttons import stop_row
from pilothouse.channels.discord.markdown import code, cut, escaped, to_discord
from pilothouse.channels.discord.payload import TARGET, Look, Progress
from pilothouse.channels.parts import pack
from pilothouse.channels.progress import (
    Step,
    calm,
    last_steps,
    one_line,
    plan_line,
    running_line,
    status_line,
)
from pilothouse.channels.text import utf16_units
from pilothouse.core.message import Part, clean_text
from pilothouse.core.view import TurnView, shown

LINES_UNITS = 900
"""UTF-16 units for the lines above the text."""
NOTICE_CHARS = 160
INDENT = "\N{EM SPACE}"


def render_view(view: TurnView, now: float, look: Look | None = None) -> Part:
    look, now = look or Look(), calm(view, now)
    above = "\n".join(_fitting(_lines(view, now)))
    draft = _draft(view, now, look, TARGET - utf16_units(above) - 2)
    text = f"{above}\n\n{draft}" if draft else above
    rows = (stop_row(view.turn_id),) if view.phase != "ended" else ()
    return pack(Progress(text=text, rows=rows, silent=True), about={"turn_id": view.turn_id or ""})


def _lines(view: TurnView, now: float) -> Iterator[str]:
    if view.phase == "ended":
        yield f"**{escaped(status_line(view, now))}**"
    else:
        yield f"**{escaped(running_line(view, now))}**"
    if plan := plan_line(view):
        yield escaped(plan)
    for step in last_steps(view, now):
        yield _step(step)
    for ask in view.asks:
        yield f"? {escaped(one_line(ask.title))}"
    serious = [notice for notice in view.notices if notice.level != "info"]
    if serious and view.phase != "ended":
        yield f"*{escaped(one_line(serious[-1].text, NOTICE_CHARS))}*"


def _step(step: Step) -> str:
    label = code(step.label) if step.is_code else escaped(step.label)
    return f"{INDENT * step.depth}{step.mark} {label} {step.tail}".rstrip()


def _fitting(lines: Iterator[str]) -> Iterator[str]:
    left = LINES_UNITS
    for line in lines:
        left -= utf16_units(line) + 1
        if left < 0:
            return
        yield line


def _draft(view: TurnView, now: float, look: Look, room: int) -> str:
    """The end of what is being written: at least a quarter of the room, from a good place on."""
    # Once a turn has ended its answer is on its way as a message of its own.
    text = clean_text(shown(view, now).text) if view.phase != "ended" else ""
    written = to_discord(text, look.table_width)
    pages = cut(written, room)
    if len(pages) < 2 or utf16_units(pages[-1]) * 4 >= room:
        return pages[-1] if pages else ""
    return "\n".join(cut(written, (room - 1) // 2)[-2:])
