"""This process as a node: its lease, its roles, and the work it takes over from dead nodes.

A node is alive as long as its heartbeat count grows. Other nodes judge that by their own monotonic clock, so a jump of
the wall clock fences nobody. On the same host a dead process is detected at once.
"""

from __future__ import annotations

import anyio

from pilothouse.core.clock import until_next
from pilothouse.core.errors import Fenced, RoleHeld, StoreError
from pilothouse.core.ids import Epoch
from pilothouse.core.store import Node, NodeInfo, Role, Tx
from pilothouse.runtime.ports import Ports
from pilothouse.runtime.turns.recover import recover

BEATS_PER_LEASE = 3
HELD = "{who} already runs the engines of this store. Use it, or stop it first."
HELD_BY_CHAT = "{who} already runs the engines of this store, but not its channels. Close it, then start pilothouse up again."


class Membership:
    def __init__(self, ports: Ports, info: NodeInfo) -> None:
        self._ports = ports
        self._info = info
        self._seen: dict[Epoch, tuple[int, float]] = {}
        self.has_engines = False
        self.epoch: Epoch | None = None

    async def join(self, roles: tuple[Role, ...]) -> None:
        """Join the store. Raises `RoleHeld` if `engines` is wanted and a live node holds it."""
        wanted = [role for role in roles if role != "engines"]
        lease_until = self._lease_until()
        self.epoch = await self._ports.store.write(lambda tx: tx.nodes.join(self._info, wanted, lease_until))
        await self._fence_dead(await self._ports.store.read(lambda tx: tx.nodes.list()))
        if "engines" in roles:
            await self.take_engines()

    async def take_engines(self) -> None:
        """Take the engines role and recover the previous holder's work. Raises `RoleHeld`."""
        holder = await self._holder()
        if holder is not None and not await self._is_dead(holder):
            raise _held(holder)
        now = self._ports.clock.now()

        def unit(tx: Tx) -> int:
            if holder is not None:
                tx.nodes.fence(holder.epoch)
            tx.nodes.add_role("engines")
            again = self._ports.settings().resume_lost
            fenced = tx.nodes.claimants()
            return sum(
                recover(
                    tx,
                    self._ports.ids,
                    self._ports.settings(),
                    epoch,
                    now,
                    run_again=again,
                    topics=self._ports.topics,
                )
                for epoch in fenced
            )

        lost = await self._ports.store.write(unit)
        self.has_engines = True
        self._ports.log("engines.taken", lost_turns=lost)
        self._ports.signals.poke_all()

    async def beat_forever(self) -> None:
        """Beat until cancelled. Raises `Fenced` when another node took over: then everything here must stop."""
        while True:
            try:
                await self._fence_dead(await self._beat())
            except Fenced:
                raise
            except StoreError as error:
                self._ports.log("node.beat_failed", level="warning", error=str(error))
            every_s = self._ports.settings().lease_s / BEATS_PER_LEASE
            await self._ports.clock.sleep(until_next(every_s, self._ports.clock.monotonic()))

    async def leave(self) -> None:
        try:
            await self._ports.store.write(lambda tx: tx.nodes.leave())
        except StoreError as error:
            self._ports.log("node.leave_failed", level="warning", error=str(error))

    async def _beat(self) -> list[Node]:
        """Renew the lease; return the nodes that are not fenced."""
        jumped_s = self._ports.jumped_s()
        lease_until = self._lease_until()
        now = self._ports.clock.now()

        def unit(tx: Tx) -> list[Node]:
            tx.nodes.beat(lease_until)
            if jumped_s and self.has_engines:
                _shift_due_times(tx, jumped_s, now)
            return tx.nodes.list()

        nodes = await self._ports.store.write(unit)
        if jumped_s:
            self._ports.accept_jump(jumped_s)
            self._ports.log("clock.jumped", seconds=jumped_s)
            self._ports.signals.poke_all()
        return nodes

    async def _fence_dead(self, nodes: list[Node]) -> None:
        """Fence dead nodes and free their claims.

        A dead holder of the engines role is left to `take_engines`, which also recovers its turns.
        """
        dead = [
            node
            for node in nodes
            if node.epoch != self.epoch and self._has_stopped(node) and "engines" not in node.roles
        ]
        if dead:
            await self._ports.store.write(lambda tx: self._fence(tx, dead))
            self._ports.signals.poke_all()

    def _fence(self, tx: Tx, dead: list[Node]) -> None:
        for node in dead:
            tx.nodes.fence(node.epoch)
            tx.outbox.reap(node.epoch)

    def _has_stopped(self, node: Node) -> bool:
        if self._ports.alive(node.info) is False:
            return True
        now = self._ports.clock.monotonic()
        beats, since = self._seen.get(node.epoch, (-1, now))
        if beats != node.beats:
            self._seen[node.epoch] = (node.beats, now)
            return False
        return now - since > self._ports.settings().lease_s

    async def _holder(self) -> Node | None:
        nodes = await self._ports.store.read(lambda tx: tx.nodes.list())
        return next((n for n in nodes if "engines" in n.roles and n.epoch != self.epoch), None)

    async def _is_dead(self, holder: Node) -> bool:
        """Check the process, then the heartbeats. An expired lease alone proves nothing: the wall clock may have jumped."""
        if self._ports.alive(holder.info) is False:
            return True
        if holder.lease_until > self._ports.clock.now():
            return self._has_stopped(holder)
        await anyio.sleep(self._ports.settings().lease_s / 2)
        again = await self._holder()
        return again is None or (again.epoch == holder.epoch and again.beats == holder.beats)

    def _lease_until(self) -> float:
        return self._ports.clock.now() + self._ports.settings().lease_s


def _shift_due_times(tx: Tx, seconds: float, now: float) -> None:
    """Shift stored due times by a clock jump, so that waits keep their length.

    A reset time that a vendor named is a time of day, not a wait: it stays.
    """
    tx.inbox.shift(seconds, now)
    tx.outbox.shift(seconds, now)
    tx.asks.shift(seconds, now)
    for turn in tx.turns.of(statuses=("parked",), limit=10_000):
        named = turn.failure is not None and turn.failure.retry_at is not None
        if turn.retry_at is not None and not named:
            tx.turns.note(turn.id, retry_at=turn.retry_at + seconds)


def _held(holder: Node) -> RoleHeld:
    who = f"{holder.info.name} (pid {holder.info.pid} on {holder.info.host})"
    text = HELD if "channels" in holder.roles else HELD_BY_CHAT
    return RoleHeld(text.format(who=who), role="engines", holder=who)
