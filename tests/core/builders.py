"""A view from events in one line, and events in a few words."""

from collections.abc import Iterable

from pilothouse.core.event import (
    EngineEvent,
    TextDelta,
    ToolCall,
    ToolFinished,
    ToolStarted,
)
from pilothouse.core.ids import CallId
from pilothouse.core.view import (
    TurnView,
    fold,
)

T0 = 1_800_000_000.0


def viewed(events: Iterable[EngineEvent], view: TurnView | None = None, at: float = T0) -> TurnView:
    view = view or TurnView()
    for event in events:
        view = fold(view, event, at)
    return view


def opened(name: str) -> ToolStarted:
    return ToolStarted(ToolCall(CallId(name), "command", f"run {name}"))


def closed(name: str, *, ok: bool = True) -> ToolFinished:
    return ToolFinished(CallId(name), ok)


def say(text: str, block: str = "b1") -> TextDelta:
    return TextDelta(block, text)
