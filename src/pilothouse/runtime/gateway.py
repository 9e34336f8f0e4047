"""The gateway: one task group, a start order and a stop order.

Start: join as a node, take the engines role, recover the previous holder's turns, end its processes, open the
engines, then run everything at once.
Stop: start no more turns, give the running ones a bounded grace period, mark the rest as lost and say so, deliver what
is ready, stop the channels, close the engines, leave. Messages are accepted until the channels stop: they are durable
and run at the next start. No process is left running (law 8).
"""

from __future__ import annotations

from collections.abc import Callable

import anyio

from pilothouse.core.channel import Channel, ChannelHealth
from pilothouse.core.clock import until_next
from pilothouse.core.errors import Fenced, RoleHeld, StoreError, find_fenced, main_error
from pilothouse.core.ids import ChannelId, ConversationId
from pilothouse.core.store import NodeInfo, Role
from pilothouse.runtime.admission import JOIN, settle_join
from pilothouse.runtime.agent_calls.agents import AGENT_MESSAGE, settle_agent_message
from pilothouse.runtime.agent_calls.groups import AGENT_GROUP_ASK, settle_group
from pilothouse.runtime.agent_calls.hosts import HOST_ASK, settle_host
from pilothouse.runtime.agent_calls.questions import AGENT_QUESTION, settle_question
from pilothouse.runtime.asks.deadlines import Expiry, Reminders
from pilothouse.runtime.asks.settle import REASON, settle_reason
from pilothouse.runtime.budget.hold import BUDGET, settle_budget
from pilothouse.runtime.channel_health import ChannelMonitor
from pilothouse.runtime.commands.folders import BIND, settle_bind
from pilothouse.runtime.commands.mode import MODE, settle_mode
from pilothouse.runtime.delivery.deliver import Delivery
from pilothouse.runtime.delivery.live import LiveViews
from pilothouse.runtime.delivery.typing_indicator import ViewCalls
from pilothouse.runtime.desk import GatewayDesk
from pilothouse.runtime.engines import EngineHost
from pilothouse.runtime.maintenance import AuditWriter, prune_forever
from pilothouse.runtime.node import Membership
from pilothouse.runtime.ports import Ports, Topics
from pilothouse.runtime.roles import note_attendance
from pilothouse.runtime.schedules.runs import PAUSE, settle_pause
from pilothouse.runtime.schedules.scheduler import Scheduler
from pilothouse.runtime.schedules.script import SCRIPT, settle_script
from pilothouse.runtime.transcripts.archive import Archive
from pilothouse.runtime.turns.dispatch import Dispatch

STANDBY_EVERY_S = 1.0
LOOK_AGAIN_S = 30.0
"""Time after which every task looks at the store again, in case it missed a signal."""
REACT_EVERY_S = 0.02
"""Bounds how often commits of other processes wake the tasks of this one."""
TOPICS: Topics = {
    REASON: settle_reason,
    JOIN: settle_join,
    BUDGET: settle_budget,
    MODE: settle_mode,
    BIND: settle_bind,
    PAUSE: settle_pause,
    SCRIPT: settle_script,
    AGENT_QUESTION: settle_question,
    AGENT_MESSAGE: settle_agent_message,
    AGENT_GROUP_ASK: settle_group,
    HOST_ASK: settle_host,
}
"""Functions that carry out the answers to our own asks. Each runs in the transaction that settles the ask. An ask that expired is a "deny"."""


class Gateway:
    """Runs one gateway. When the `primary` channel ends, such as a terminal chat, the gateway stops.

    `terminal` is the conversation of a terminal of this process, which people can only read here, and `is_attended` tells
    whether somebody sits at it: asks of a terminal that nobody sits at go to its owners' private chats.
    """

    def __init__(
        self,
        ports: Ports,
        info: NodeInfo,
        *,
        primary: ChannelId | None = None,
        standby: bool = False,
        terminal: ConversationId | None = None,
        is_attended: bool = True,
        on_ready: Callable[[], None] = lambda: None,
        on_stopping: Callable[[int], None] = lambda _running: None,
    ) -> None:
        self._ports = ports
        self._primary = primary
        self._standby = standby
        self._terminal = terminal
        self._is_attended = is_attended
        self._on_ready = on_ready
        self._on_stopping = on_stopping
        self._membership = Membership(ports, info)
        self._dispatch = Dispatch(ports)
        self._view_calls = ViewCalls()
        self._delivery = Delivery(ports, self._view_calls)
        self._monitor = ChannelMonitor(ports)
        self._stopping = anyio.Event()
        self.desk = GatewayDesk(ports)

    def stop(self) -> None:
        self._stopping.set()

    def health(self, channel: ChannelId) -> ChannelHealth:
        return self._monitor.health(channel)

    def stop_now(self) -> None:
        """Cut the grace period of running turns short."""
        self._dispatch.stop_now()

    async def run(self) -> None:
        """Run until `stop` is called or the primary channel ends. Raises `RoleHeld` or `Fenced`."""
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
        # A standby node, such as a terminal chat, serves only its own channel, never the configured ones.
        served: tuple[Role, ...] = () if self._standby else ("channels",)
        roles: tuple[Role, ...] = (*served, "scheduler", "engines")
        try:
            await self._membership.join(roles)
        except RoleHeld:
            if not self._standby:
                await self._membership.leave()
                raise
        if (place := self._terminal) is not None:
            epoch = self._membership.epoch if self._is_attended else None
            at = self._ports.clock.now()
            await self._ports.store.write(lambda tx: note_attendance(tx, place, epoch, at))

    async def _serve(self) -> None:
        ports = self._ports
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._membership.beat_forever)
            tasks.start_soon(self._watch_other_processes)
            tasks.start_soon(self._look_again_forever)
            tasks.start_soon(self._delivery.run)
            tasks.start_soon((live := LiveViews(ports, self._view_calls)).run)
            tasks.start_soon((audit := AuditWriter(ports)).run)
            tasks.start_soon(self._monitor.run)
            turns_done = anyio.Event()
            begun = [turns_begun := anyio.Event()]
            tasks.start_soon(self._run_turns, turns_begun, turns_done)
            for channel in ports.channels.values():
                begun.append(channel_begun := anyio.Event())
                tasks.start_soon(self._serve_channel, channel, channel_begun)
            tasks.start_soon(self._report_ready, begun)
            await self._stopping.wait()
            ports.log("gateway.stopping", running=self._dispatch.running)
            self._on_stopping(self._dispatch.running)
            self._dispatch.stop()
            await turns_done.wait()
            await self._delivery.drain(ports.settings().drain_s)
            await live.clear(ports.settings().drain_s)
            await audit.close()
            tasks.cancel_scope.cancel()
        ports.log("gateway.stopped")

    async def _report_ready(self, begun: list[anyio.Event]) -> None:
        """Report readiness once every channel listens and every engine was tried, or belongs to another node."""
        for event in begun:
            await event.wait()
        self._ports.log("gateway.ready", engines=self._membership.has_engines)
        self._on_ready()

    async def _run_turns(self, begun: anyio.Event, done: anyio.Event) -> None:
        """Do the work of the engines role. A standby node first waits until it can take the role."""
        try:
            if not self._membership.has_engines:
                begun.set()
            if await self._get_engines():
                await self._sweep()
                async with EngineHost(self._ports).open_all(self._stopping):
                    begun.set()
                    await self._run_turns_with_engines()
        finally:
            done.set()

    async def _run_turns_with_engines(self) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(Scheduler(self._ports).run)
            tasks.start_soon(Expiry(self._ports).run)
            tasks.start_soon(Reminders(self._ports).run)
            tasks.start_soon(prune_forever, self._ports)
            tasks.start_soon((archive := Archive(self._ports)).run)
            tasks.start_soon(self._ports.tools.run, self._ports)
            await self._dispatch.run()
            tasks.cancel_scope.cancel()
        with anyio.move_on_after(self._ports.settings().drain_s):
            await archive.catch_up()

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
        """End the processes that the previous holder left running, before our engines start (law 8)."""
        try:
            await self._ports.sweep()
        except (OSError, StoreError) as error:
            self._ports.log("processes.sweep_failed", level="warning", error=str(error))

    async def _serve_channel(self, channel: Channel, begun: anyio.Event) -> None:
        """Run a channel and restart it with growing pauses when it fails or ends. The primary channel stops the gateway."""
        while True:
            begun.set()
            self._monitor.started(channel.id)
            error: Exception | None = None
            try:
                await channel.run(self.desk)
                self._ports.log("channel.ended", channel=channel.id)
            except Exception as failure:
                if find_fenced(failure):
                    raise
                self._ports.log("channel.broke", channel=channel.id, level="error", error=main_error(failure))
                if channel.id == self._primary:
                    raise
                error = failure
            if channel.id == self._primary:
                self.stop()
                return
            await self._ports.clock.sleep(self._monitor.failed(channel.id, error))

    async def _watch_other_processes(self) -> None:
        """Wake every task when another process commits. Commits of this process wake only the tasks they concern."""
        async for _ in self._ports.store.changes(of_others=True):
            self._ports.signals.poke_all()
            await anyio.sleep(REACT_EVERY_S)

    async def _look_again_forever(self) -> None:
        """Wake every task now and then: signals are hints, and one may be lost."""
        clock = self._ports.clock
        while True:
            await clock.sleep(until_next(LOOK_AGAIN_S, clock.monotonic()))
            self._ports.signals.poke_all()
