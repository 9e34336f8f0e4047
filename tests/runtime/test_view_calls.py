"""No draft, progress or typing call reaches a platform after the last message of its turn, whatever takes how long."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.runtime.puppet import PuppetEngine, Strings
from tests.runtime.rig import open_rig

from pilothouse.channels.memory import MemoryChannel
from pilothouse.core.ids import TurnId
from pilothouse.core.message import Address, MessageRef, Part
from pilothouse.runtime.delivery.typing_indicator import ViewCalls
from pilothouse.testing.clock import FakeClock

TURN = TurnId("turn-1")


class SlowChannel(MemoryChannel):
    """Its calls wait before they reach the platform, and again for the answer. `arrived` is what the platform got."""

    type_every_s: float = 0.7

    def __init__(self, clock: FakeClock, waits_s: list[float]) -> None:
        super().__init__()
        self._clock = clock
        self._waits_s = waits_s
        self.arrived: list[str] = []

    async def _reach(self, what: str) -> None:
        before_s, after_s = self._waits_s[0], self._waits_s[1]
        self._waits_s = [*self._waits_s[2:], before_s, after_s]
        await self._clock.sleep(before_s)
        self.arrived.append(what)
        await self._clock.sleep(after_s)

    # pyrefly: ignore [missing-override-decorator]
    async def send(self, address: Address, part: Part) -> MessageRef:
        await self._reach("view" if part.data.get("kind") == "view" else "final")
        return await super().send(address, part)

    # pyrefly: ignore [missing-override-decorator]
    async def edit(self, ref: MessageRef, part: Part) -> None:
        await self._reach("view")
        await super().edit(ref, part)

    async def type(self, address: Address) -> None:
        await self._reach("typing")


async def play(folder: Path, waits_s: list[float], turn_s: float) -> list[str]:
    clock = FakeClock()
    channel = SlowChannel(clock, waits_s)

    async def work(strings: Strings) -> None:
        await strings.start()
        await strings.tool(kind="tool", title="make all")
        await clock.sleep(turn_s)
        await strings.tool_done()
        await strings.end("Built.")

    changes = {"first_view_s": 0.3, "edit_every_s": 0.2}
    async with open_rig(folder, PuppetEngine(work), channel, clock=clock, **changes) as rig:
        await rig.channel.say("build")
        with anyio.fail_after(60):
            while "final" not in channel.arrived:
                await clock.advance(0.05)
                await anyio.sleep(0.001)
        for _ in range(60):
            await clock.advance(0.1)
        await rig.until_idle()
    return channel.arrived


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.sampled_from([0.0, 0.1, 0.3, 0.9]), min_size=2, max_size=8).filter(
        lambda one: len(one) % 2 == 0
    ),
    st.floats(0.2, 2.5),
)
def test_nothing_that_shows_progress_arrives_after_the_last_message(
    waits_s: list[float], turn_s: float
) -> None:
    with TemporaryDirectory() as folder:
        arrived = anyio.run(play, Path(folder), waits_s, turn_s)
    assert arrived[-1] == "final", arrived
    assert arrived.count("final") == 1


async def test_a_waiting_edit_is_cancelled_and_none_begins_afterwards() -> None:
    calls = ViewCalls()
    began: list[str] = []

    async def edit() -> str:
        began.append("edit")
        await anyio.sleep_forever()
        return "shown"

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(calls.show, TURN, edit))
        await anyio.wait_all_tasks_blocked()
        await calls.end(TURN)
    assert await calls.show(TURN, edit) is None
    assert began == ["edit"]


async def test_the_end_waits_for_a_message_that_is_being_created() -> None:
    """Cancelled, the message would stay for ever: nobody would know its number."""
    calls, created = ViewCalls(), anyio.Event()
    order: list[str] = []

    async def create() -> None:
        await created.wait()
        order.append("created")

    async def end() -> None:
        await calls.end(TURN)
        order.append("ended")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(calls.show, TURN, create, may_cancel=False))
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(end)
        await anyio.wait_all_tasks_blocked()
        created.set()
    assert order == ["created", "ended"]
