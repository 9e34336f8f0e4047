"""Claims what the inbox holds and starts turns: one lane per conversation, a bounded number at once."""

from __future__ import annotations

from functools import partial

import anyio
from anyio.abc import TaskGroup

from pilothouse.core.errors import Fenced, SessionBusy, StoreError
from pilothouse.core.ids import ConversationId
from pilothouse.core.store import Tx
from pilothouse.core.turn import Turn
from pilothouse.runtime.ending import cancel
from pilothouse.runtime.ports import Ports
from pilothouse.runtime.run_turn import TurnRun
from pilothouse.runtime.signals import INBOX, OUTBOX, Signals
from pilothouse.runtime.starting import Started, set_aside, start_again, start_from_inbox


class Dispatch:
    """`run` starts turns until `stop`; then it waits for those that run, and cuts what outlasts the grace."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._running: dict[ConversationId, TurnRun] = {}
        self._stopping = anyio.Event()

    @property
    def running(self) -> int:
        return len(self._running)

    def stop(self) -> None:
        self._stopping.set()
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
            while self._running:
                ticket = self._ports.signals.ticket(INBOX)
                await Signals.wait(ticket, 0.2)
        for run in list(self._running.values()):
            run.cut()

    async def _start_what_is_ready(self, tasks: TaskGroup) -> float:
        """Starts all there is room for; returns how long it may sleep if nobody pokes."""
        poll_s = self._ports.settings().poll_s
        try:
            await self._release_parked()
            await self._start_queued(tasks)
            await self._start_waiting(tasks)
            next_at = await self._ports.store.read(self._next_at)
        except Fenced:
            raise
        except StoreError as error:
            self._ports.log("dispatch.postponed", error=str(error))
            return poll_s
        if next_at is None:
            return poll_s
        return min(poll_s, max(0.01, next_at - self._ports.clock.now()))

    def _next_at(self, tx: Tx) -> float | None:
        times = [tx.inbox.next_ready_at(self._ports.clock.now()), tx.turns.next_parked_at()]
        return min((at for at in times if at is not None), default=None)

    def _room(self) -> int:
        return self._ports.settings().max_turns_at_once - len(self._running)

    async def _release_parked(self) -> None:
        """Parked turns whose time has come, or that somebody stopped."""
        now = self._ports.clock.now()

        def look(tx: Tx) -> bool:
            parked = tx.turns.of(statuses=("parked",))
            return bool(tx.turns.parked_due(now)) or any(turn.stop_requested for turn in parked)

        if not await self._ports.store.read(look):
            return

        def unit(tx: Tx) -> None:
            for turn in tx.turns.of(statuses=("parked",)):
                if turn.stop_requested:
                    cancel(tx, turn, now)
            for turn in tx.turns.parked_due(now):
                tx.turns.move(turn.id, "queued")

        await self._ports.store.write(unit)
        self._ports.signals.poke(OUTBOX)

    async def _start_queued(self, tasks: TaskGroup) -> None:
        if self._room() <= 0:
            return
        limit = self._room() + len(self._running)
        for turn in await self._ports.store.read(lambda tx: tx.turns.startable(limit=limit)):
            if turn.conversation_id in self._running or self._room() <= 0:
                continue
            started = await self._begin(partial(self._again, turn))
            if started is not None:
                self._spawn(tasks, started)

    def _again(self, turn: Turn, tx: Tx) -> Started | None:
        now, current = self._ports.clock.now(), tx.turns.get(turn.id)
        if current is None or current.status != "queued":
            return None
        if current.stop_requested:
            cancel(tx, current, now)
            return None
        return start_again(tx, current, now)

    async def _start_waiting(self, tasks: TaskGroup) -> None:
        room = self._room()
        if room <= 0:
            return
        now, limit = self._ports.clock.now(), room + len(self._running)
        ready = await self._ports.store.read(lambda tx: tx.inbox.startable(now, engines=None, limit=limit))
        for conversation_id in ready:
            if conversation_id in self._running or self._room() <= 0:
                continue
            try:
                started = await self._begin(partial(self._from_inbox, conversation_id))
            except StoreError:
                raise
            except Exception as error:  # noqa: BLE001 - one message that nobody can read must not stop the others
                await self._set_aside(conversation_id, error)
                continue
            if started is not None:
                self._spawn(tasks, started)

    def _from_inbox(self, conversation_id: ConversationId, tx: Tx) -> Started | None:
        ports = self._ports
        return start_from_inbox(tx, ports.ids, ports.settings(), conversation_id, ports.clock.now())

    async def _set_aside(self, conversation_id: ConversationId, error: Exception) -> None:
        ports = self._ports
        why = f"{type(error).__name__}: {error}"
        ports.log("message.unreadable", conversation=conversation_id, error=why)
        await ports.store.write(lambda tx: set_aside(tx, ports.ids, conversation_id, why, ports.clock.now()))
        ports.signals.poke(OUTBOX)

    async def _begin(self, unit: partial[Started | None]) -> Started | None:
        try:
            return await self._ports.store.write(unit)
        except SessionBusy:
            return None
        finally:
            self._ports.signals.poke(OUTBOX)

    def _spawn(self, tasks: TaskGroup, started: Started) -> None:
        run = TurnRun(self._ports, started)
        self._running[started.conversation.id] = run
        tasks.start_soon(self._run_one, run, started.conversation.id)

    async def _run_one(self, run: TurnRun, conversation_id: ConversationId) -> None:
        try:
            await run.run()
        finally:
            del self._running[conversation_id]
            self._ports.signals.poke(INBOX)
