"""Steps of a turn as lines of styled text."""

from __future__ import annotations

from collections.abc import Iterator

from pilothouse.channels.steps import last_steps
from pilothouse.channels.telegram.blocks import Span, Spans, words
from pilothouse.core.view import TurnView

STEP = "\N{EM SPACE}"


def action_lines(view: TurnView, now: float, *, commands: bool) -> Iterator[Spans]:
    for step in last_steps(view, now, commands=commands):
        label = words(step.label, "code") if step.is_code else words(step.label)
        tail = words(f" {step.tail}") if step.tail else ()
        yield Span(f"{STEP * step.depth}{step.mark} "), *label, *tail
