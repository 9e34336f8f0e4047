"""Limits on the output of one turn. Longer output is cut, with a note; no limit fails a turn. Pure.

Endless tool output, an endless answer or a thousand pictures would fill the store, the memory and the conversation.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from pilothouse.core.channel import FILE_BYTES
from pilothouse.core.event import (
    EngineEvent,
    MediaProduced,
    Notice,
    PlanChanged,
    TextDelta,
    TextSet,
    ThinkingDelta,
    ToolCall,
    ToolFinished,
    ToolStarted,
    ToolUpdated,
    TurnEnded,
)
from pilothouse.core.ids import CallId
from pilothouse.core.outcome import Failure
from pilothouse.core.text import file_size

TOO_LONG = "\n\n[Cut here: only {limit:,} characters of one turn are kept.]"


class Limits(Struct, frozen=True):
    """In characters, unless the name says otherwise."""

    tool_output: int = 64 * 1024
    """Per call, for its result and again for the output while it runs."""
    text: int = 1024 * 1024
    """Per turn, for each of the answer, the text of sub-agents, and the thinking."""
    line: int = 4000
    """A title, a notice, a step of a plan."""
    plan_items: int = 200
    media: int = 10
    media_bytes: int = FILE_BYTES


class _TextBudget:
    """A common length limit for blocks of text."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._sizes: dict[tuple[str | None, str], int] = {}
        self._room = limit

    def add(self, block: tuple[str | None, str], text: str) -> str:
        """Return as much of the text as there is room for."""
        room = self._room
        kept = text if len(text) <= room else _cut_here(text[:room], self._limit) if room else ""
        self._sizes[block] = self._sizes.get(block, 0) + min(len(text), room)
        self._room -= min(len(text), room)
        return kept

    def replace(self, block: tuple[str | None, str], text: str) -> str:
        self._room += self._sizes.pop(block, 0)
        return self.add(block, text)


class Bounds:
    """The limits of one turn. All engine events pass through it first."""

    def __init__(self, limits: Limits | None = None) -> None:
        self._limits = limits = limits or Limits()
        self._answer = _TextBudget(limits.text)
        self._subagents = _TextBudget(limits.text)
        self._thinking = _TextBudget(limits.text)
        self._printed: dict[CallId, int] = {}
        self._media = 0
        self._left_out: list[str] = []
        """Notes about refused files, shown below the answer."""
        self._told: set[str] = set()

    def cut(self, event: EngineEvent) -> list[EngineEvent]:
        """Return the event, cut to the limits; the first cut of each kind adds a notice."""
        kept, what = self._kept(event)
        passed = [] if kept is None else [kept]
        if not what or what in self._told:
            return passed
        self._told.add(what)
        return [
            *passed,
            Notice("warning", "cut", f"{what} was cut: it exceeded the limit for one turn."),
        ]

    def _kept(self, event: EngineEvent) -> tuple[EngineEvent | None, str]:
        match event:
            case TextDelta() | TextSet():
                return self._text(event)
            case ThinkingDelta(text=text):
                kept = self._thinking.add((None, ""), text)
                return (
                    _changed(event, "The thinking", text=kept) if kept or not text else (None, "The thinking")
                )
            case ToolStarted(call=call):
                return _changed(event, "What a tool was given", call=self._call(call))
            case ToolUpdated():
                return self._updated(event)
            case ToolFinished(call_id=call_id, output=output):
                self._printed.pop(call_id, None)
                kept = cut_middle(output, self._limits.tool_output)
                return _changed(event, "The output of a tool", output=kept)
            case MediaProduced():
                return self._file(event)
            case Notice(text=text):
                return _changed(event, "", text=cut_middle(text, self._limits.line))
            case PlanChanged(items=items):
                line = self._limits.line
                short = (msgspec.structs.replace(item, text=cut_middle(item.text, line)) for item in items)
                return _changed(event, "The plan", items=tuple(short)[: self._limits.plan_items])
            case TurnEnded():
                return self._end(event)
            case _:
                return event, ""

    def _text(self, event: TextDelta | TextSet) -> tuple[EngineEvent | None, str]:
        answer = event.parent_id is None
        budget, what = (self._answer, "The answer") if answer else (self._subagents, "What a sub-agent said")
        spend = budget.add if isinstance(event, TextDelta) else budget.replace
        kept = spend((event.parent_id, event.block_id), event.text)
        if kept == event.text:
            return event, ""
        if not kept and isinstance(event, TextDelta):
            return None, what
        return msgspec.structs.replace(event, text=kept), what

    def _updated(self, event: ToolUpdated) -> tuple[EngineEvent | None, str]:
        """Limit all output of a running tool together."""
        title = None if event.title is None else cut_middle(event.title, self._limits.line)
        if event.output is None:
            return _changed(event, "", title=title)
        room = self._limits.tool_output - self._printed.get(event.call_id, 0)
        if room <= 0:
            short = None if title is None else ToolUpdated(event.call_id, title)
            return short, "The output of a tool"
        self._printed[event.call_id] = self._printed.get(event.call_id, 0) + len(event.output)
        return _changed(event, "The output of a tool", title=title, output=cut_middle(event.output, room))

    def _call(self, call: ToolCall) -> ToolCall:
        title = cut_middle(call.title, self._limits.line)
        detail = _cut_values(call.detail, self._limits.tool_output)
        if title == call.title and detail == call.detail:
            return call
        return msgspec.structs.replace(call, title=title, detail=detail)

    def _file(self, event: MediaProduced) -> tuple[EngineEvent | None, str]:
        file, limits = event.attachment, self._limits
        if file.size > limits.media_bytes:
            most = f"it has {file_size(file.size)}, and the limit is {file_size(limits.media_bytes)}"
            self._left_out.append(f"[{file.name} was left out: {most}.]")
            return None, f"A file of more than {limits.media_bytes:,} bytes"
        self._media += 1
        if self._media > limits.media:
            return None, f"The list of files, at {limits.media},"
        return event, ""

    def _of_files(self) -> list[str]:
        named = self._left_out[: self._limits.media]
        more = len(self._left_out) - len(named) + max(0, self._media - self._limits.media)
        of_more = f"[{more} more files were left out: the limit is {self._limits.media} per turn.]"
        return [*named, of_more] if more else named

    def _end(self, event: TurnEnded) -> tuple[EngineEvent | None, str]:
        limits, failure = self._limits, event.failure
        if failure is not None:
            text, detail = (
                cut_middle(failure.text, limits.line),
                cut_middle(failure.detail, limits.tool_output),
            )
            failure = Failure(failure.kind, text, failure.retry_at, detail)
        answer = event.answer
        if len(answer) > limits.text:
            answer = _cut_here(answer[: limits.text], limits.text)
        answer = "\n\n".join(filter(None, [answer, "\n".join(self._of_files())]))
        return msgspec.structs.replace(event, answer=answer, failure=failure), ""


def cut_middle(text: str, limit: int) -> str:
    """Keep the head and the tail, and say how much is missing between them."""
    if len(text) <= limit:
        return text
    head = limit // 2
    tail = limit - head
    missing = len(text) - limit
    return f"{text[:head]}\n[… {missing:,} characters cut …]\n{text[-tail:]}"


def _cut_here(text: str, limit: int) -> str:
    return text + TOO_LONG.format(limit=limit)


def _changed(event: EngineEvent, what: str, **changes: Any) -> tuple[EngineEvent, str]:
    """Apply the changes; return `what` with the event if they made a difference."""
    changed = msgspec.structs.replace(event, **changes)
    return (event, "") if changed == event else (changed, what)


def _cut_values(value: Any, limit: int) -> Any:
    match value:
        case str():
            return cut_middle(value, limit)
        case dict():
            return {key: _cut_values(item, limit) for key, item in value.items()}
        case list() | tuple():
            return [_cut_values(item, limit) for item in value]
        case _:
            return value
