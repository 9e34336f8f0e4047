"""One prompt's stream out of what a process says. No I/O.

A message that is pushed into a running turn is folded into it, or, if it comes too late, answered by a turn of its own
right after (2.1.325). To us both are one turn: it ends when every message that we sent is answered. A turn that
answers none of them was begun by the CLI itself, and is not ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pilothouse.core.engine import MediaFound, Step
from pilothouse.core.event import (
    EngineEvent,
    SessionStarted,
    TextDelta,
    TextSet,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    has_side_effects,
)
from pilothouse.core.grammar import Grammar
from pilothouse.core.outcome import Failure, Usage
from pilothouse.core.view import join_blocks


class TurnStream:
    def __init__(self, uuid: str = "") -> None:
        """Without a `uuid` it is a turn that nobody asked for."""
        self.began = False
        """Something with side effects has begun: the prompt may not be given again."""
        self.interrupted = False
        self._sent = {uuid} if uuid else set[str]()
        self._waiting = set(self._sent)
        self._ours = True
        self._woken = False
        """The CLI is in a turn of its own: its end is not the answer to what was sent."""
        self._grammar = Grammar()
        self._open_calls: set[str] = set()
        self._blocks: dict[str, None] = {}
        self._ends: list[TurnEnded] = []

    @property
    def ended(self) -> bool:
        return self._grammar.ended

    @property
    def working(self) -> bool:
        """A tool runs: silence means nothing."""
        return bool(self._open_calls)

    def push(self, uuid: str) -> None:
        self._sent.add(uuid)
        self._waiting.add(uuid)

    def take(self, steps: Iterable[Step], answers: Sequence[str], *, woken: bool = False) -> list[Step]:
        """`answers` are the messages that the turn answers which these steps belong to; none, where the CLI does not
        tell, and where it began by itself (`woken`)."""
        self._woken = self._woken or woken
        return [kept for step in steps for kept in self._take(step, answers)]

    def emit(self, events: Iterable[EngineEvent]) -> list[Step]:
        return [kept for event in events for kept in self._grammar.feed(event)]

    def cancel(self, uuids: Iterable[str]) -> list[Step]:
        """These were taken out of the CLI's queue before they began."""
        self._waiting -= set(uuids)
        if self._waiting or self.ended or self._open_calls:
            return []
        return self._finish(TurnEnded("cancelled"))

    def fail(self, failure: Failure) -> list[Step]:
        return self._finish(TurnEnded("failed", failure=failure))

    def withdraw(self) -> list[Step]:
        """Takes back the text that was shown, before the prompt is given again."""
        shown = list(self._blocks)
        self._blocks.clear()
        return self.emit(TextSet(block_id, "") for block_id in shown)

    def begin_again(self, uuid: str) -> None:
        """In a new process, which knows nothing of what was sent to the old one."""
        self._sent, self._waiting = {uuid}, {uuid}
        self._open_calls.clear()
        self._ours = True

    def _take(self, step: Step, answers: Sequence[str]) -> Sequence[Step]:
        if isinstance(step, SessionStarted):
            self._ours = not answers or not self._sent.isdisjoint(answers)
        if not self._ours:
            return ()
        if isinstance(step, MediaFound):
            return [step]
        if isinstance(step, TurnEnded):
            return self._end(step, answers)
        self._note(step)
        return self._grammar.feed(step)

    def _note(self, event: EngineEvent) -> None:
        match event:
            case TextDelta(block_id=block_id, parent_id=None) | TextSet(block_id=block_id, parent_id=None):
                self._blocks[block_id] = None
            case ToolStarted(call=call):
                self._open_calls.add(call.id)
                self.began = self.began or has_side_effects(call.kind)
            case ToolFinished(call_id=call_id):
                self._open_calls.discard(call_id)
            case _:
                pass

    def _end(self, end: TurnEnded, answers: Sequence[str]) -> Sequence[Step]:
        self._open_calls.clear()
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
        return self.emit([merge_ends([*self._ends, end])])


def merge_ends(ends: Sequence[TurnEnded]) -> TurnEnded:
    """How it went is what the last one says; what was said and spent is everybody's."""
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
