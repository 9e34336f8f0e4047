"""The recorder: writes a turn's events into the log, in order, soon, and in few transactions.

Events pass the limits and the grammar and wait in a buffer for at most `flush_s`. Consecutive deltas of one block are
merged before they fold into the view, because folding copies the whole text. An ask, a tool with side effects and the
end of the turn commit the buffer at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import anyio
import msgspec

from pilothouse.core.event import (
    EngineEvent,
    PromptAdded,
    ResumeToken,
    SessionChanged,
    SessionStarted,
    TextDelta,
    TextSet,
    ToolStarted,
    TurnEnded,
    has_side_effects,
    merge_deltas,
)
from pilothouse.core.grammar import Grammar
from pilothouse.core.outcome import Failure
from pilothouse.core.store import Tx
from pilothouse.core.view import TurnView, fold
from pilothouse.runtime.audit import write_notes
from pilothouse.runtime.ports import Ports
from pilothouse.runtime.signals import events_of
from pilothouse.runtime.turns.limits import Bounds
from pilothouse.runtime.turns.start import Started

T = TypeVar("T")

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

        def unit(tx: Tx) -> T | None:
            if events:
                tx.events.append(turn.conversation_id, turn.id, events, now)
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
        self._ports.signals.poke(events_of(turn.conversation_id))
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
