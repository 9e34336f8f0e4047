"""The recorder: writes a turn's events into the log, in order, soon, in few transactions and within limits.

Events pass the limits and the grammar and wait in a buffer for at most `flush_s`. Consecutive deltas of one block are
merged before they fold into the view, because folding copies the whole text. An ask, a tool with side effects and the
end of the turn commit the buffer at once.

Output over a limit is cut, with a note; no limit fails a turn. Without limits, endless tool output, an endless answer or
a thousand pictures would fill the store, the memory and the conversation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import anyio
import msgspec
from msgspec import Struct

from pilothouse.core.channel import FILE_BYTES
from pilothouse.core.event import (
    EngineEvent,
    Grammar,
    MediaProduced,
    Notice,
    PlanChanged,
    PromptAdded,
    ResumeToken,
    SessionChanged,
    SessionStarted,
    TextDelta,
    TextSet,
    ThinkingDelta,
    ToolCall,
    ToolFinished,
    ToolStarted,
    ToolUpdated,
    TurnEnded,
    has_side_effects,
    merge_deltas,
)
from pilothouse.core.ids import CallId
from pilothouse.core.outcome import Failure
from pilothouse.core.store import Tx
from pilothouse.core.text import file_size
from pilothouse.core.view import TurnView, fold
from pilothouse.runtime.audit import write_notes
from pilothouse.runtime.ports import TRANSCRIPTS, Ports, events_of
from pilothouse.runtime.turns.last_message import DoneSteps
from pilothouse.runtime.turns.start import Started

T = TypeVar("T")

COMPACTION = frozenset({"compaction", "compacted"})
"""Kinds of notices that an engine forgets, or has forgotten, the beginning of its session."""
FIRST_FLUSH_S = 0.03
FLUSHES_A_SECOND = 400
"""The limit for all turns together: with many turns, each flushes less often and leaves the store to starts and ends."""


class Recorder:
    def __init__(self, ports: Ports, started: Started) -> None:
        self._ports = ports
        self._started = started
        self._bounds = Bounds()
        self._grammar = Grammar()
        self._pending: list[EngineEvent] = []
        self._dirty = anyio.Event()
        self._committing = anyio.Lock(fast_acquire=True)
        self._saved_resume = started.session.resume
        self._saved_began = started.turn.began
        self._view = TurnView()
        self._folded = 0
        """Number of pending events that are in the view already, and can no longer be merged."""
        self._tool_began = False
        self.began = started.turn.began
        self.resume = started.session.resume
        self.end: TurnEnded | None = None
        self.steps = DoneSteps()

    def take(self, event: EngineEvent) -> None:
        for bounded in self._bounds.cut(event):
            self._keep(self._grammar.feed(bounded))

    def close(self, failure: Failure | None = None) -> None:
        self._keep(self._grammar.end(failure))

    @property
    def urgent(self) -> bool:
        """True if a tool with side effects began that is not stored yet."""
        return self._tool_began and not self._saved_began

    @property
    def view(self) -> TurnView:
        """The view of all events so far."""
        self._fold()
        return self._view

    async def flush_for_ever(self, running: Callable[[], int]) -> None:
        """All `running` turns flush at the same moments: many of them are then one commit of the store."""
        wanted_s = FIRST_FLUSH_S
        while True:
            await self._dirty.wait()
            every_s = max(wanted_s, running() / FLUSHES_A_SECOND)
            await self._ports.clock.sleep(every_s - self._ports.clock.monotonic() % every_s)
            wanted_s = self._ports.settings().flush_s
            await self.commit()

    async def commit(self, also: Callable[[Tx], T] | None = None) -> T | None:
        """Write all pending events, then `also`, in one transaction."""
        async with self._committing:
            return await self._commit(also)

    async def settle(self) -> None:
        """Wait until no commit is under way; the flusher may then be cancelled without losing events."""
        async with self._committing:
            pass

    async def _commit(self, also: Callable[[Tx], T] | None) -> T | None:
        events = self.drain()
        if not events and also is None:
            return None
        turn, now = self._started.turn, self._ports.clock.now()
        resume, began, notes = self.resume, self.began, self._ports.trail.take()
        compacts = any(isinstance(event, Notice) and event.kind in COMPACTION for event in events)

        def unit(tx: Tx) -> T | None:
            if events:
                tx.events.append(turn.conversation_id, turn.id, events, now)
            if compacts:
                tx.transcripts.request(turn.id)
            if began and not self._saved_began:
                tx.turns.note(turn.id, began=True)
            if resume != self._saved_resume:
                self._save_resume(tx, resume)
            write_notes(tx, notes)
            return also(tx) if also is not None else None

        try:
            result = await self._ports.persist(unit)
        except BaseException:  # nothing was written: the next commit writes these first
            self._pending[:0] = events
            self._folded += len(events)
            self._dirty.set()
            self._ports.trail.put_back(notes)
            raise
        self._saved_began, self._saved_resume = began, resume
        self._ports.signals.poke(events_of(turn.conversation_id), *([TRANSCRIPTS] if compacts else []))
        return result

    @property
    def pending(self) -> tuple[EngineEvent, ...]:
        """Events not written yet, without the end, which belongs to the last transaction."""
        return tuple(self._pending)

    def drain(self) -> tuple[EngineEvent, ...]:
        """Take the pending events; the caller writes them."""
        self._fold()
        events = self.pending
        self._pending.clear()
        self._folded = 0
        if self._dirty.is_set():
            self._dirty = anyio.Event()
        return events

    def _fold(self) -> None:
        now = self._ports.clock.now()
        for event in self._pending[self._folded :]:
            self._view = fold(self._view, event, now)
        self._folded = len(self._pending)

    def _keep(self, events: list[EngineEvent]) -> None:
        for event in events:
            self._note(event)
            if isinstance(event, TurnEnded):
                self.end = event
                continue
            self._append(event)
            if isinstance(event, SessionStarted):
                prompt = self._started.turn.prompt
                self._append(PromptAdded(prompt.text, prompt.by))

    def _note(self, event: EngineEvent) -> None:
        self.steps.note(event)
        match event:
            case SessionStarted(resume=ResumeToken() as resume) | SessionChanged(resume=resume):
                self.resume = resume
            case ToolStarted(call=call) if has_side_effects(call.kind):
                self.began = self._tool_began = True
            case TextDelta(parent_id=None) | TextSet(parent_id=None):
                self.began = True

    def _append(self, event: EngineEvent) -> None:
        if len(self._pending) > self._folded:
            both = merge_deltas(self._pending[-1], event)
            if both is not None:
                self._pending[-1] = both
                return
        self._pending.append(event)
        self._dirty.set()

    def _save_resume(self, tx: Tx, resume: ResumeToken | None) -> None:
        session = tx.sessions.get(self._started.session.id)
        if session is not None:
            tx.sessions.save(msgspec.structs.replace(session, resume=resume))


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
            case ToolFinished(call_id=call_id, output=output, denied=why):
                self._printed.pop(call_id, None)
                kept, why = cut_middle(output, self._limits.tool_output), cut_middle(why, self._limits.line)
                return _changed(event, "The output of a tool", output=kept, denied=why)
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
            text, fix = cut_middle(failure.text, limits.line), cut_middle(failure.fix, limits.line)
            detail = cut_middle(failure.detail, limits.tool_output)
            failure = msgspec.structs.replace(failure, text=text, detail=detail, fix=fix)
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
