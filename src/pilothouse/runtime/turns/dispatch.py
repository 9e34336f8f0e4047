"""Dispatch: starts turns from the inbox, one per conversation and a bounded number at once."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import inf

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct

from pilothouse.core.errors import Fenced, SessionBusy, StoreError, find_fenced
from pilothouse.core.ids import ConversationId, TurnId
from pilothouse.core.store import Tx
from pilothouse.core.turn import Turn
from pilothouse.runtime.budget.hold import release_hold
from pilothouse.runtime.ports import INBOX, OUTBOX, SCHEDULES, TURNS, Ports, Signals, control_of, events_of
from pilothouse.runtime.turns.finish import cancel
from pilothouse.runtime.turns.recover import is_settled, lose, resume_released
from pilothouse.runtime.turns.run import TurnRun
from pilothouse.runtime.turns.start import Started, lost_access, set_aside, start_again, start_from_inbox

Begin = partial[Started | None]


class _Seen(Struct, frozen=True):
    parked: bool
    queued: list[Turn]
    ready: list[ConversationId]
    next_at: float | None


class Dispatch:
    """`run` starts turns until `stop`; then it waits for running turns, and abandons them after the grace period."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._running: dict[ConversationId, TurnRun] = {}
        self._released: set[TurnId] = set()
        """Turns of this process that wait for an answer without an engine."""
        self._stopping = anyio.Event()
        self._hurried = False

    @property
    def running(self) -> int:
        return len(self._running)

    def stop(self) -> None:
        self._stopping.set()
        self._ports.signals.poke(INBOX)

    def stop_now(self) -> None:
        """Abandon running turns without waiting for the grace period."""
        self._hurried = True
        self._ports.signals.poke(INBOX)

    async def run(self) -> None:
        async with anyio.create_task_group() as tasks:
            while not self._stopping.is_set():
                ticket = self._ports.signals.ticket(INBOX)
                pause_s = await self._start_what_is_ready(tasks)
                if not self._stopping.is_set():
                    await Signals.wait(ticket, pause_s)
            await self._let_finish()

    async def _let_finish(self) -> None:
        with anyio.move_on_after(self._ports.settings().grace_s):
            while self._running and not self._hurried:
                ticket = self._ports.signals.ticket(INBOX)
                await Signals.wait(ticket, 0.2)
        for run in list(self._running.values()):
            run.abandon()
        for turn_id in self._released:
            await self._lose_released(turn_id)

    async def _lose_released(self, turn_id: TurnId) -> None:
        """Leave a turn that waits without an engine to the next start, as a turn that waits with one is left."""
        ports = self._ports

        def unit(tx: Tx) -> None:
            turn = tx.turns.get(turn_id)
            if turn is not None and turn.status == "waiting":
                now, rows = ports.clock.now(), tx.inbox.of_turn(turn_id)
                lose(tx, ports.ids, ports.settings(), turn, rows, now, on_purpose=True)

        with anyio.move_on_after(ports.settings().drain_s):
            await ports.persist(unit)

    async def _start_what_is_ready(self, tasks: TaskGroup) -> float:
        """Start all that there is room for; return how long to wait for a signal."""
        poll_s = self._ports.settings().poll_s
        try:
            await self._resume_released()
            seen = await self._ports.store.read(self._look())
            if seen.parked:
                await self._release_parked()
                return 0.0
            await self._start(tasks, seen)
        except Fenced:
            raise
        except StoreError as error:
            self._ports.log("dispatch.postponed", level="warning", error=str(error))
            return poll_s
        is_idle = not (self._running or seen.queued or seen.ready)
        most_s = inf if is_idle else poll_s
        return (
            most_s if seen.next_at is None else min(most_s, max(0.01, seen.next_at - self._ports.clock.now()))
        )

    def _look(self) -> Callable[[Tx], _Seen]:
        """Read everything a round needs, in one transaction."""
        now, room = self._ports.clock.now(), self._room()
        limit = room + len(self._running)

        def unit(tx: Tx) -> _Seen:
            times = [tx.inbox.next_ready_at(now), tx.turns.next_parked_at()]
            return _Seen(
                parked=bool(tx.turns.parked_due(now)),
                queued=tx.turns.startable(limit=limit) if room > 0 else [],
                ready=tx.inbox.startable(now, engines=None, limit=limit) if room > 0 else [],
                next_at=min((at for at in times if at is not None), default=None),
            )

        return unit

    def _room(self) -> int:
        """Return how many turns may start. Those that wait for an answer need no place."""
        busy = sum(not run.is_waiting for run in self._running.values())
        return self._ports.settings().max_turns_at_once - busy

    async def _resume_released(self) -> None:
        """Queue the released turns whose asks are settled by now, and end those that were stopped."""
        ports, now = self._ports, self._ports.clock.now()
        waiting = frozenset(self._released)
        settled = (
            await ports.store.read(lambda tx: [id for id in waiting if is_settled(tx, id)]) if waiting else []
        )
        for turn_id in settled:
            await ports.store.write(
                lambda tx, id=turn_id: resume_released(tx, ports.ids, ports.settings(), id, now)
            )
            self._released.discard(turn_id)
        if settled:
            ports.signals.poke(OUTBOX, TURNS)

    async def _release_parked(self) -> None:
        """Queue parked turns that are due; cancel those that were stopped."""
        now = self._ports.clock.now()

        def unit(tx: Tx) -> None:
            for turn in tx.turns.parked_due(now):
                if turn.stop_requested:
                    release_hold(tx, self._ports.ids, turn, now)
                    cancel(tx, self._ports.ids, turn, now)
                else:
                    tx.turns.move(turn.id, "queued")

        await self._ports.store.write(unit)
        self._ports.signals.poke_all()

    async def _start(self, tasks: TaskGroup, seen: _Seen) -> None:
        """Start turns concurrently, each in its own transaction, so that the store may commit them together."""
        units: dict[ConversationId, Begin] = {}
        for turn in seen.queued:
            units.setdefault(turn.conversation_id, partial(self._again, turn))
        for conversation_id in seen.ready:
            units.setdefault(conversation_id, partial(self._from_inbox, conversation_id))
        idle = [(id, unit) for id, unit in units.items() if id not in self._running]
        chosen = idle[: max(0, self._room())]
        if not chosen:
            return
        settings = self._ports.settings()
        if settings.default_engine == settings.demo_engine:
            await self._ports.look_for_engine()
        async with anyio.create_task_group() as beginning:
            for conversation_id, unit in chosen:
                beginning.start_soon(self._begin, tasks, conversation_id, unit)
        self._ports.signals.poke(TURNS, OUTBOX)

    async def _begin(self, tasks: TaskGroup, conversation_id: ConversationId, unit: Begin) -> None:
        hint = self._ports.signals.ticket(control_of(conversation_id))
        try:
            started = await self._ports.store.write(unit)
        except SessionBusy:
            return
        except Fenced:
            raise
        except StoreError as error:
            self._ports.log(
                "dispatch.postponed", conversation=conversation_id, level="warning", error=str(error)
            )
            return
        except Exception as error:  # noqa: BLE001 - one unreadable message must not stop the others
            await self._set_aside(conversation_id, error)
            return
        self._ports.signals.poke(events_of(conversation_id))
        if started is not None:
            self._spawn(tasks, started, hint)

    def _again(self, turn: Turn, tx: Tx) -> Started | None:
        now, current = self._ports.clock.now(), tx.turns.get(turn.id)
        if current is None or current.status != "queued":
            return None
        ids, settings = self._ports.ids, self._ports.settings()
        refused = lost_access(tx, settings, current)
        if current.stop_requested or refused is not None:
            release_hold(tx, ids, current, now)
            cancel(tx, ids, current, now, refused)
            return None
        return start_again(tx, ids, settings, current, now)

    def _from_inbox(self, conversation_id: ConversationId, tx: Tx) -> Started | None:
        ports = self._ports
        return start_from_inbox(tx, ports.ids, ports.settings(), conversation_id, ports.clock.now())

    async def _set_aside(self, conversation_id: ConversationId, error: Exception) -> None:
        ports = self._ports
        why = f"{type(error).__name__}: {error}"
        ports.log("message.unreadable", conversation=conversation_id, error=why)
        try:
            await ports.store.write(
                lambda tx: set_aside(tx, ports.ids, conversation_id, why, ports.clock.now())
            )
        except Exception as also:
            if find_fenced(also):
                raise
            ports.log("dispatch.postponed", conversation=conversation_id, error=str(also))
            return
        ports.signals.poke(OUTBOX)

    def _spawn(self, tasks: TaskGroup, started: Started, hint: anyio.Event) -> None:
        run = TurnRun(self._ports, started, hint, lambda: self.running)
        self._running[started.conversation.id] = run
        tasks.start_soon(self._run_one, run, started.conversation.id)

    async def _run_one(self, run: TurnRun, conversation_id: ConversationId) -> None:
        try:
            await run.run()
        finally:
            del self._running[conversation_id]
            if run.is_released:
                self._released.add(run.turn_id)
            self._ports.signals.poke(INBOX, SCHEDULES)
