"""Joins the turns of a process that answer one prompt into one stream. No I/O.

Claude Code folds a message that is pushed into a running turn into it, or, if it comes too late, answers it in a turn of
its own right after (2.1.325). Both are one turn to us: it ends when every message that we sent is answered. A turn that
answers none of them was begun by the program itself, and is not part of the stream. The translator has already brought
each turn into the grammar of core/event.py; here only what the joining adds is put right.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pilothouse.core.engine import MediaFound, Step
from pilothouse.core.event import (
    EngineEvent,
    ResumeToken,
    SessionChanged,
    SessionStarted,
    TextDelta,
    TextSet,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    has_side_effects,
)
from pilothouse.core.ids import CallId
from pilothouse.core.outcome import Failure, Usage
from pilothouse.core.view import join_blocks


class TurnStream:
    """Without a `uuid` it is a turn that the program began by itself."""

    def __init__(self, uuid: str = "") -> None:
        self.ended = False
        self.began = False
        """True once something with side effects has begun: the prompt may not be given again."""
        self.interrupted = False
        self._sent = {uuid} if uuid else set[str]()
        self._waiting = set(self._sent)
        self._ours = True
        self._woken = False
        """True while the program is in a turn of its own, whose end does not answer what was sent."""
        self._started = False
        self._resume: ResumeToken | None = None
        self._open_calls: dict[CallId, None] = {}
        self._blocks: dict[str, None] = {}
        self._ends: list[TurnEnded] = []

    @property
    def working(self) -> bool:
        """True while a tool runs: silence is no hang then."""
        return bool(self._open_calls)

    def push(self, uuid: str) -> None:
        self._sent.add(uuid)
        self._waiting.add(uuid)

    def take(self, steps: Iterable[Step], answers: Sequence[str], *, woken: bool = False) -> list[Step]:
        """Return the steps that belong to this stream. `answers` are the messages that their turn answers: none where
        the program does not tell, and where it began by itself (`woken`)."""
        self._woken = self._woken or woken
        return [kept for step in steps for kept in self._take(step, answers)]

    def emit(self, events: Iterable[EngineEvent]) -> list[Step]:
        return [event for event in events if not self.ended]

    def cancel(self, uuids: Iterable[str]) -> list[Step]:
        """Note that these were taken out of the program's queue before they began."""
        self._waiting -= set(uuids)
        if self._waiting or self.ended or self._open_calls:
            return []
        return self._finish(TurnEnded("cancelled"))

    def fail(self, failure: Failure) -> list[Step]:
        return self._finish(TurnEnded("failed", failure=failure))

    def withdraw(self) -> list[Step]:
        """Take back the text that was shown, before the prompt is given again."""
        shown = list(self._blocks)
        self._blocks.clear()
        return self.emit(TextSet(block_id, "") for block_id in shown)

    def begin_again(self, uuid: str) -> None:
        """Go on in a new process, which knows nothing of what was sent to the old one."""
        self._sent, self._waiting = {uuid}, {uuid}
        self._open_calls.clear()
        self._ours = True

    def _take(self, step: Step, answers: Sequence[str]) -> Sequence[Step]:
        if isinstance(step, SessionStarted):
            self._ours = not answers or not self._sent.isdisjoint(answers)
        if self.ended or not self._ours:
            return ()
        match step:
            case MediaFound():
                return [step]
            case TurnEnded():
                return self._end(step, answers)
            case SessionStarted():
                return self._start(step)
            case _:
                self._note(step)
                return [step]

    def _start(self, event: SessionStarted) -> Sequence[Step]:
        """Only the first turn starts the session; a later one may have changed its id."""
        started, before = self._started, self._resume
        self._started, self._resume = True, event.resume or before
        if not started:
            return [event]
        return [SessionChanged(event.resume)] if event.resume and event.resume != before else []

    def _note(self, event: EngineEvent) -> None:
        match event:
            case TextDelta(block_id=block_id, parent_id=None) | TextSet(block_id=block_id, parent_id=None):
                self._blocks[block_id] = None
            case ToolStarted(call=call):
                self._open_calls[call.id] = None
                self.began = self.began or has_side_effects(call.kind)
            case ToolFinished(call_id=call_id):
                self._open_calls.pop(call_id, None)
            case SessionChanged(resume=resume):
                self._resume = resume
            case _:
                pass

    def _end(self, end: TurnEnded, answers: Sequence[str]) -> Sequence[Step]:
        woken, self._woken = self._woken, False
        if woken and self._waiting and self._sent.isdisjoint(answers) and not self.interrupted:
            self._ends.append(end)
            return ()
        self._waiting = self._waiting - set(answers) if answers else set()
        if self._waiting and end.outcome == "completed" and not self.interrupted:
            self._ends.append(end)
            return ()
        return self._finish(end)

    def _finish(self, end: TurnEnded) -> list[Step]:
        """End the stream, with the calls that a process left open when it was killed."""
        dangling = [ToolFinished(call_id, ok=False) for call_id in self._open_calls]
        self._open_calls.clear()
        last = self.emit([*dangling, merge_ends([*self._ends, end])])
        self.ended = True
        return last


def merge_ends(ends: Sequence[TurnEnded]) -> TurnEnded:
    """Return the last end, with the answers and the usage of all."""
    last = ends[-1]
    answer = join_blocks(end.answer for end in ends) if len(ends) > 1 else last.answer
    usages = [end.usage for end in ends if end.usage is not None]
    usage = add_usage(usages) if len(usages) > 1 else next(iter(usages), None)
    return TurnEnded(last.outcome, answer, last.failure, usage, last.resume)


def add_usage(usages: Sequence[Usage]) -> Usage:
    def total(name: str) -> Any:
        told = [value for usage in usages if (value := getattr(usage, name)) is not None]
        return sum(told) if told else None

    return Usage(**{name: total(name) for name in Usage.__struct_fields__})
