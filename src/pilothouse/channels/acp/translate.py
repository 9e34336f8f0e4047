"""Log rows of one turn -> updates of a session. Pure: the same rows give the same updates, live and replayed.

Text is sent as it grows. A block that is replaced by other text cannot be taken back; only its continuation is sent. An
answer that was never streamed is sent at the end. A tool call is named by its turn and its own id, because engines may use
an id again in a later turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from pilothouse.channels.acp.diffs import absolute, diffs_in, path_in, tool_text
from pilothouse.channels.acp.updates import (
    AgentChunk,
    Cost,
    Location,
    NoticeUpdate,
    PlanEntry,
    PlanUpdate,
    ThoughtChunk,
    ToolStart,
    ToolUpdate,
    Update,
    UsageUpdate,
    UserChunk,
)
from pilothouse.channels.acp.wire import TextBlock, ToolContent, ToolKind
from pilothouse.core import event as log
from pilothouse.core.ask import Ask, input_of
from pilothouse.core.channel import LoggedEvent
from pilothouse.core.ids import CallId, TurnId
from pilothouse.core.outcome import Usage

KINDS: Mapping[log.ToolKind, ToolKind] = {
    "command": "execute",
    "file_change": "edit",
    "read": "read",
    "search": "search",
    "web": "fetch",
    "note": "think",
}
PLAN: Mapping[str, Literal["pending", "in_progress", "completed"]] = {
    "pending": "pending",
    "active": "in_progress",
    "done": "completed",
}


class TurnUpdates:
    """One turn. `spent` is what the session cost before it; `end` is set when it has ended."""

    def __init__(self, cwd: str, *, has_notices: bool) -> None:
        self.end: log.TurnEnded | None = None
        self.cost_usd = 0.0
        self.spent_before = 0.0
        self.cwd = cwd
        self._has_notices = has_notices
        self._sent: dict[str, str] = {}
        self._speaks = ""
        self._prompted = False
        self._open: dict[CallId, log.ToolCall] = {}

    def feed(self, row: LoggedEvent) -> list[Update]:
        found = list(self._translate(row.event, row.turn_id))
        if not isinstance(row.event, log.TextDelta | log.TextSet) and found:
            self._speaks = ""
        return found

    def _translate(self, event: log.EngineEvent, turn: TurnId) -> Iterator[Update]:
        match event:
            case log.TextDelta(block_id=id, text=text, parent_id=None):
                yield from self._say(id, text)
            case log.TextSet(block_id=id, text=text, parent_id=None):
                sent = self._sent.get(id, "")
                yield from self._say(id, text[len(sent) :] if text.startswith(sent) else "")
            case log.ThinkingDelta(text=text) if text:
                yield ThoughtChunk(TextBlock(text))
            case log.PromptAdded(text=text):
                if self._prompted and text:
                    yield UserChunk(TextBlock(text))
                self._prompted = True
            case log.ToolStarted(call=call):
                self._open[call.id] = call
                yield self._start(call, turn)
            case log.ToolUpdated(call_id=id, title=title) if title and id in self._open:
                yield ToolUpdate(call_name(turn, id), title=title)
            case log.ToolFinished():
                yield from self._finish(event, turn)
            case _:
                yield from self._translate_rest(event)

    def _translate_rest(self, event: log.EngineEvent) -> Iterator[Update]:
        match event:
            case log.PlanChanged(items=items):
                yield PlanUpdate(tuple(PlanEntry(one.text, "medium", PLAN[one.status]) for one in items))
            case log.UsageChanged(usage=usage):
                yield from self._spend(usage)
            case log.Notice(level=level, text=text) if text and self._has_notices:
                yield NoticeUpdate(level, text)
            case log.Notice(level="warning" | "error", text=text) if text:
                yield ThoughtChunk(TextBlock(f"⚠ {text}\n"))
            case log.TurnEnded(usage=usage, answer=answer):
                self.end = event
                if answer and not any(self._sent.values()):
                    yield from self._say("", answer)
                if usage is not None:
                    yield from self._spend(usage)
            case _:
                pass

    def _say(self, block: str, text: str) -> Iterator[Update]:
        if not text:
            return
        gap = "\n\n" if self._speaks not in ("", f"b{block}") else ""
        self._speaks = f"b{block}"
        self._sent[block] = self._sent.get(block, "") + text
        yield AgentChunk(TextBlock(gap + text))

    def _start(self, call: log.ToolCall, turn: TurnId) -> ToolStart:
        given = input_in(call)
        path = absolute(path_in(given), self.cwd)
        return ToolStart(
            call_name(turn, call.id),
            call.title,
            KINDS.get(call.kind, "other"),
            "in_progress",
            diffs_in(given, self.cwd) if call.kind == "file_change" else (),
            (Location(path),) if path else (),
            given or None,
        )

    def _finish(self, event: log.ToolFinished, turn: TurnId) -> Iterator[Update]:
        call = self._open.pop(event.call_id, None)
        if call is None:
            return
        output = f"Denied: {event.denied}" if event.denied else event.output
        diffs = diffs_in(input_in(call), self.cwd) if call.kind == "file_change" else ()
        content: tuple[ToolContent, ...] = (*diffs, *((tool_text(output),) if output else ()))
        status = "completed" if event.ok else "failed"
        yield ToolUpdate(
            call_name(turn, event.call_id), status, content=content or None, raw_output=output or None
        )

    def _spend(self, usage: Usage) -> Iterator[Update]:
        self.cost_usd = usage.cost_usd or self.cost_usd
        if usage.context_window is not None and usage.context_tokens is not None:
            total = round(self.spent_before + self.cost_usd, 9)
            cost = Cost(total, "USD") if usage.cost_usd is not None else None
            yield UsageUpdate(usage.context_tokens, usage.context_window, cost)

    def call_of(self, ask: Ask) -> log.ToolCall | None:
        """Return the open call that an ask is about, the newest first."""
        given = input_of(ask) or {}
        for call in reversed(self._open.values()):
            detail = input_in(call)
            if given and all(detail.get(key) == value for key, value in given.items()):
                return call
            if ask.call is not None and ask.call.command and detail.get("command") == ask.call.command:
                return call
        return None


def call_name(turn: TurnId, call: CallId | str) -> str:
    return f"{turn}.{call}"


def input_in(call: log.ToolCall) -> dict[str, Any]:
    return {key: value for key, value in call.detail.items() if key != "tool"}
