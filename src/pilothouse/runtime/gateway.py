"""The gateway: one task group, a start order and a stop order.

Start: join as a node, take the engines, recover what the last holder left, end its processes, open engines, then
everything at once.
Stop: start no more turns, give those that run a bounded grace, mark the rest lost and say so, deliver what is
ready, stop the channels, close the engines, leave. Messages are taken in until the channels stop: they are durable
and run at the next start. Nothing is left running (law 8).
"""

from __future__ import annotations

from collections.abc import Callable

import anyio

from pilothouse.core.channel import Channel, ChannelHealth
from pilothouse.core.errors import Fenced, RoleHeld, StoreError, find_fenced, main_error
from pilothouse.core.ids import ChannelId
from pilothouse.core.store import NodeInfo, Role
from pilothouse.runtime.asks.answers import AnswerService
from pilothouse.runtime.channel_health import Tending
from pilothouse.runtime.delivery.deliver import Delivery
from pilothouse.runtime.delivery.live import LiveViews
from pilothouse.runtime.desk import GatewayDesk
from pilothouse.runtime.engines import Hosting
from pilothouse.runtime.maintenance import Anchoring
from pilothouse.runtime.node import Membership
from pilothouse.runtime.ports import Ports
from pilothouse.runtime.schedules import Scheduling
from pilothouse.runtime.turns.dispatch import Dispatch

PRUNE_EVERY_S = 3600.0
PRUNE_STEP = 500
STANDBY_EVERY_S = 1.0
HEAR_EVERY_S = 0.02
"""Another process that commits without a pause must not keep everybody here busy with looking."""


class Gateway:
    """`primary` names the channel whose end is the gateway's end: a chat that is left, not a daemon's."""

    def __init__(
        self,
        ports: Ports,
        info: NodeInfo,
        *,
        primary: ChannelId | None = None,
        standby: bool = False,
        on_ready: Callable[[], None] = lambda: None,
        on_stopping: Callable[[int], None] = lambda _running: None,
    ) -> None:
        self._ports = ports
        self._primary = primary
        self._standby = standby
        self._on_ready = on_ready
        self._on_stopping = on_stopping
        self._membership = Membership(ports, info)
        self._dispatch = Dispatch(ports)
        self._delivery = Delivery(ports)
        self._tending = Tending(ports)
        self._stopping = anyio.Event()
        self.desk = GatewayDesk(ports)

    def stop(self) -> None:
        self._stopping.set()

    def health(self, channel: ChannelId) -> ChannelHealth:
        """How it is now, also while it is down."""
        return self._tending.health(channel)

    def hurry(self) -> None:
        """Who waits for us to stop waits no longer for turns."""
        self._dispatch.stop_now()

    async def run(self) -> None:
        """Until `stop`, or until the primary channel ends. Raises `RoleHeld` or `Fenced` in plain words."""
        await self._join()
        try:
            await self._serve()
        except BaseExceptionGroup as errors:
            if fenced := find_fenced(errors):
                raise fenced from errors
            raise
        finally:
            with anyio.CancelScope(shield=True), anyio.move_on_after(self._ports.settings().drain_s):
                await self._membership.leave()

    async def _join(self) -> None:
        roles: tuple[Role, ...] = ("channels", "scheduler", "engines")
        try:
            await self._membership.join(roles)
        except RoleHeld:
            if not self._standby:
                await self._membership.leave()
                raise

    async def _serve(self) -> None:
        ports = self._ports
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._membership.beat_for_ever)
            tasks.start_soon(self._hear_others)
            tasks.start_soon(self._delivery.run)
            tasks.start_soon((live := LiveViews(ports)).run)
            tasks.start_soon((anchoring := Anchoring(ports)).run)
            tasks.start_soon(self._tending.run)
            turns_done = anyio.Event()
            begun = [turns_begun := anyio.Event()]
            tasks.start_soon(self._run_turns, turns_begun, turns_done)
            for channel in ports.channels.values():
                begun.append(channel_begun := anyio.Event())
                tasks.start_soon(self._serve_channel, channel, channel_begun)
            tasks.start_soon(self._tell_ready, begun)
            await self._stopping.wait()
            ports.log("gateway.stopping", running=self._dispatch.running)
            self._on_stopping(self._dispatch.running)
            self._dispatch.stop()
            await turns_done.wait()
            await self._delivery.drain(ports.settings().drain_s)
            await live.clear(ports.settings().drain_s)
            await anchoring.close()
            tasks.cancel_scope.cancel()
        ports.log("gateway.stopped")

    async def _tell_ready(self, begun: list[anyio.Event]) -> None:
        """Whoever waits for us may come: every engine was tried, or is another's, and every channel listens."""
        for event in begun:
            await event.wait()
        self._ports.log("gateway.ready", engines=self._membership.has_engines)
        self._on_ready()

    async def _run_turns(self, begun: anyio.Event, done: anyio.Event) -> None:
        """Everything that only the holder of the engines does. A standby waits for its chance."""
        try:
            if not self._membership.has_engines:
                begun.set()
            if await self._get_engines():
                await self._sweep()
                async with Hosting(self._ports).open_all(self._stopping):
                    begun.set()
                    await self._run_turns_with_engines()
        finally:
            done.set()

    async def _run_turns_with_engines(self) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(Scheduling(self._ports).run)
            tasks.start_soon(AnswerService(self._ports).run)
            tasks.start_soon(self._prune_for_ever)
            await self._dispatch.run()
            tasks.cancel_scope.cancel()

    async def _get_engines(self) -> bool:
        while not self._membership.has_engines:
            if self._stopping.is_set():
                return False
            try:
                await self._membership.take_engines()
            except Fenced:
                raise
            except StoreError as error:
                if not isinstance(error, RoleHeld):
                    self._ports.log("engines.postponed", level="warning", error=str(error))
                with anyio.move_on_after(STANDBY_EVERY_S):
                    await self._stopping.wait()
        return True

    async def _sweep(self) -> None:
        """What the last holder left running must not work on beside us: first it ends, then ours begin (law 8)."""
        try:
            await self._ports.sweep()
        except OSError as error:
            self._ports.log("processes.sweep_failed", level="warning", error=str(error))

    async def _serve_channel(self, channel: Channel, begun: anyio.Event) -> None:
        """A channel that breaks, or ends, is started again, ever more patiently; a primary one that ends, ends us."""
        while True:
            begun.set()
            self._tending.began(channel.id)
            error: Exception | None = None
            try:
                await channel.run(self.desk)
                self._ports.log("channel.ended", channel=channel.id)
            except Exception as broke:
                if find_fenced(broke):
                    raise
                self._ports.log("channel.broke", channel=channel.id, level="error", error=main_error(broke))
                if channel.id == self._primary:
                    raise
                error = broke
            if channel.id == self._primary:
                self.stop()
                return
            await self._ports.clock.sleep(self._tending.broke(channel.id, error))

    async def _hear_others(self) -> None:
        """Whoever changes something here pokes by himself; what others change may concern anybody."""
        async for _ in self._ports.store.changes(of_others=True):
            self._ports.signals.poke_all()
            await anyio.sleep(HEAR_EVERY_S)

    async def _prune_for_ever(self) -> None:
        while True:
            before = self._ports.clock.now() - self._ports.settings().retention_s
            try:
                while await self._ports.store.write(lambda tx: tx.prune(before, limit=PRUNE_STEP)):  # noqa: B023
                    await self._ports.clock.sleep(0.05)
            except Fenced:
                raise
            except StoreError as error:
                self._ports.log("prune.postponed", level="warning", error=str(error))
            await self._ports.clock.sleep(PRUNE_EVERY_S)
