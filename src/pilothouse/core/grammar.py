"""Repairs any stream of events, so that readers may trust the grammar in `event.py`.

`Grammar.feed` returns the events to pass on; `Grammar.end` closes everything open when the engine stops.
A well-formed stream passes unchanged, event by event.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from pilothouse.core.ask import ASK_MOVES, AskState
from pilothouse.core.event import (
    AskChanged,
    Asked,
    EngineEvent,
    Notice,
    ResumeToken,
    SessionChanged,
    SessionStarted,
    ToolCall,
    ToolFinished,
    ToolStarted,
    ToolUpdated,
    TurnEnded,
)
from pilothouse.core.ids import AskId, CallId
from pilothouse.core.outcome import Failure

NO_END = Failure("crash", "The engine stopped without finishing its turn.")
NO_REASON = Failure("crash", "The engine failed and did not say why.")


class Grammar:
    """The repair of one turn. Feed events in order, then call `end` once."""

    def __init__(self) -> None:
        self._started = False
        self._ended = False
        self._resume: ResumeToken | None = None
        self._open: dict[CallId, None] = {}
        self._closed: set[CallId] = set()
        self._asks: dict[AskId, AskState] = {}

    @property
    def ended(self) -> bool:
        return self._ended

    def feed(self, event: EngineEvent) -> list[EngineEvent]:
        if self._ended:
            return []
        match event:
            case SessionStarted():
                return self._start(event)
            case TurnEnded():
                return self._end(event)
            case Notice() if not self._started:
                return [event]
            case _:
                return [*self._ensure_started(), *self._step(event)]

    def end(self, failure: Failure | None = None) -> list[EngineEvent]:
        """Close the stream: nothing after a `TurnEnded`, else a failed one."""
        if self._ended:
            return []
        return self._end(TurnEnded("failed", failure=failure or NO_END, resume=self._resume))

    def _start(self, event: SessionStarted) -> list[EngineEvent]:
        if not self._started:
            self._started = True
            self._resume = event.resume
            return [event]
        if event.resume is None or event.resume == self._resume:
            return []
        self._resume = event.resume
        return [SessionChanged(event.resume)]

    def _ensure_started(self) -> list[EngineEvent]:
        if self._started:
            return []
        self._started = True
        return [SessionStarted()]

    def _step(self, event: EngineEvent) -> list[EngineEvent]:
        match event:
            case ToolStarted(call=call):
                return self._open_tool(event, call)
            case ToolUpdated(call_id=call_id):
                return [event] if call_id in self._open else []
            case ToolFinished(call_id=call_id):
                return self._close_tool(event, call_id)
            case Asked(ask=ask):
                if ask.id in self._asks:
                    return []
                self._asks[ask.id] = "open"
            case AskChanged(ask_id=ask_id, state=state):
                before = self._asks.get(ask_id)
                if before is None or state not in ASK_MOVES[before]:
                    return []
                self._asks[ask_id] = state
            case SessionChanged(resume=resume):
                self._resume = resume
        return [event]

    def _open_tool(self, event: ToolStarted, call: ToolCall) -> list[EngineEvent]:
        if call.id in self._closed:
            return []
        if call.id in self._open:
            return [ToolUpdated(call.id, title=call.title)]
        self._open[call.id] = None
        return [event]

    def _close_tool(self, event: ToolFinished, call_id: CallId) -> list[EngineEvent]:
        if call_id in self._closed:
            return []
        self._closed.add(call_id)
        if call_id in self._open:
            del self._open[call_id]
            return [event]
        return [ToolStarted(ToolCall(call_id, "tool", "tool")), event]

    def _end(self, event: TurnEnded) -> list[EngineEvent]:
        if event.outcome == "failed" and event.failure is None:
            event = msgspec.structs.replace(event, failure=NO_REASON)
        if event.outcome == "completed" and event.failure is not None:
            event = msgspec.structs.replace(event, failure=None)
        before = self._ensure_started() if event.outcome == "completed" else []
        dangling = [ToolFinished(call_id, ok=False) for call_id in self._open]
        self._open.clear()
        self._ended = True
        return [*before, *dangling, event]


def well_formed(events: Iterable[EngineEvent]) -> Iterator[EngineEvent]:
    """Repair a whole stream."""
    grammar = Grammar()
    for event in events:
        yield from grammar.feed(event)
    yield from grammar.end()
