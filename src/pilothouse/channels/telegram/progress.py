"""Renders a running turn in a few lines for a phone: state, elapsed time, last steps, a stop button.

The same blocks become a message that is edited and, where the server supports it, a rich draft.
"""

from __future__ import annotations

from collections.abc import Iterator

from pilothouse.channels.presses import stop_key
from pilothouse.channels.progress import calm, last_steps, one_line, plan_line, running_line, status_line
from pilothouse.channels.telegram.markdown import parse_markdown
from pilothouse.channels.telegram.payload import TEXT, Button, Keyboard, Look, Progress
from pilothouse.channels.telegram.rich import write_rich
from pilothouse.channels.telegram.styled import Block, Paragraph, Span, Spans, head, style_blocks, text_spans
from pilothouse.channels.text import split
from pilothouse.core.message import clean_text
from pilothouse.core.view import TurnView, shown

STEP = "\N{EM SPACE}"
DRAFT_UNITS = 2800
"""Length of the end of the text in progress that is shown."""
NOTICE_CHARS = 160


def render_view(view: TurnView, now: float, look: Look) -> Progress:
    blocks = list(_blocks(view, calm(view, now)))
    message = head(style_blocks(blocks), TEXT - 16)
    rich = write_rich(blocks) if look.rich else None
    stop = Button("Stop", stop_key(view.turn_id))
    return Progress(
        text=message.text,
        entities=message.entities,
        html=rich.html if rich else "",
        reply_markup=Keyboard(((stop,),)) if view.phase != "ended" else None,
        silent=True,
    )


def _blocks(view: TurnView, now: float) -> Iterator[Block]:
    yield Paragraph(
        text_spans(running_line(view, now) if view.phase != "ended" else status_line(view, now), "bold")
    )
    if lines := list(_lines(view, now)):
        yield Paragraph(_by_line(lines))
    # The answer of a turn that has ended is a message of its own.
    text = clean_text(shown(view, now).text) if view.phase != "ended" else ""
    if pages := split(text, DRAFT_UNITS):
        yield from parse_markdown(pages[-1])


def _lines(view: TurnView, now: float) -> Iterator[Spans]:
    if plan := plan_line(view):
        yield text_spans(plan)
    for step in last_steps(view, now):
        label = text_spans(step.label, "code") if step.is_code else text_spans(step.label)
        tail = text_spans(f" {step.tail}") if step.tail else ()
        yield Span(f"{STEP * step.depth}{step.mark} "), *label, *tail
    for ask in view.asks:
        yield text_spans(f"? {one_line(ask.title)}")
    serious = [notice for notice in view.notices if notice.level != "info"]
    if serious and view.phase != "ended":
        yield text_spans(one_line(serious[-1].text, NOTICE_CHARS), "italic")


def _by_line(lines: list[Spans]) -> Spans:
    spans: list[Span] = []
    for line in lines:
        spans += [*([Span("\n")] if spans else []), *line]
    return tuple(spans)
