"""follow(): whoever watches misses nothing and sees nothing twice, wherever they join and however often."""

from __future__ import annotations

from contextlib import aclosing
from pathlib import Path
from typing import Any, cast

import anyio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.runtime.puppet import PuppetEngine, Strings
from tests.runtime.rig import MAIN, MEMBER, Rig, open_rig

from pilothouse.channels.memory import MEMORY, PERSON
from pilothouse.core.channel import LoggedEvent
from pilothouse.core.conversation import Conversation
from pilothouse.core.event import TextDelta, ThinkingDelta, TurnEnded
from pilothouse.core.ids import ConversationId, TurnId
from pilothouse.core.message import Address
from pilothouse.core.store import Tx


async def read_until(
    rig: Rig, last: int, after: int, conversation: ConversationId = MAIN
) -> list[LoggedEvent]:
    """What a follower from `after` is given, up to and with number `last`."""
    found: list[LoggedEvent] = []
    follower = cast("Any", rig.gateway.desk.follow(conversation, after, PERSON))
    with anyio.fail_after(60):
        async with aclosing(follower):
            while not found or found[-1].seq < last:
                found.append(await anext(follower))
    return found


async def test_a_follower_sees_a_turn_as_it_happens_from_its_start_to_its_end(tmp_path: Path) -> None:
    go = anyio.Event()

    async def play(strings: Strings) -> None:
        await strings.start()
        await strings.say("first ")
        await go.wait()
        await strings.say("second")
        await strings.end()

    async with open_rig(tmp_path, PuppetEngine(play)) as rig:
        seen: list[LoggedEvent] = []

        async def watch() -> None:
            async for logged in rig.gateway.desk.follow(MAIN, 0, PERSON):
                seen.append(logged)
                if isinstance(logged.event, TextDelta) and logged.event.text == "first ":
                    go.set()
                if isinstance(logged.event, TurnEnded):
                    return

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            await rig.channel.say("go")
        assert [logged.seq for logged in seen] == list(range(1, len(seen) + 1))
        text = "".join(logged.event.text for logged in seen if isinstance(logged.event, TextDelta))
        assert text == "first second"


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    batches=st.lists(st.lists(st.integers(1, 40), min_size=1, max_size=5), min_size=1, max_size=4),
    cuts=st.lists(st.integers(0, 200), max_size=4),
)
def test_nothing_is_missed_and_nothing_is_seen_twice_whatever_is_appended_and_wherever_one_reconnects(
    tmp_path_factory: Any, batches: list[list[int]], cuts: list[int]
) -> None:
    """Several writers append at once; a follower reconnects at any number it has seen."""
    total = sum(map(sum, batches))

    async def main() -> None:
        folder = tmp_path_factory.mktemp("follow")
        async with open_rig(folder) as rig:
            await rig.store.write(ensure)

            async def append(turn: int, sizes: list[int]) -> None:
                for size in sizes:
                    events = [ThinkingDelta(f"{turn}") for _ in range(size)]
                    await rig.store.write(
                        lambda tx, events=events: tx.events.append(MAIN, TurnId(f"t{turn}"), events, 1.0)
                    )
                    rig.ports.signals.poke(f"events:{MAIN}")

            async def watch() -> None:
                seen: list[int] = []
                for cut in [*sorted(min(cut, total) for cut in cuts), total]:
                    if cut > len(seen):
                        seen += [e.seq for e in await read_until(rig, cut, len(seen))][: cut - len(seen)]
                assert seen == list(range(1, total + 1))

            async with anyio.create_task_group() as tasks:
                for turn, sizes in enumerate(batches):
                    tasks.start_soon(append, turn, sizes)
                tasks.start_soon(watch)
                tasks.start_soon(watch)
            for after in {0, total // 2, total - 1}:
                assert [e.seq for e in await read_until(rig, total, after)] == list(
                    range(after + 1, total + 1)
                )

    anyio.run(main)


def ensure(tx: Tx) -> None:
    tx.conversations.ensure(Conversation(MAIN, Address(MEMORY, "main"), 1.0))


async def test_a_log_longer_than_a_page_is_followed_to_its_end(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        await rig.store.write(ensure)
        events = [ThinkingDelta(str(number)) for number in range(1201)]
        await rig.store.write(lambda tx: tx.events.append(MAIN, TurnId("t"), events, 1.0))
        found = await read_until(rig, 1201, 0)
        assert [cast("ThinkingDelta", logged.event).text for logged in found] == [str(n) for n in range(1201)]


async def test_a_conversation_is_followed_for_itself(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        await rig.channel.say("one")
        await rig.channel.say("two", "other", author=MEMBER)
        await rig.until_ended()
        await rig.until_ended(1, ConversationId("memory:other"))
        for place in (MAIN, ConversationId("memory:other")):
            last = await rig.store.read(lambda tx, place=place: tx.events.last_seq(place))
            found = await read_until(rig, last, 0, place)
            assert len({logged.turn_id for logged in found}) == 1
            assert isinstance(found[-1].event, TurnEnded)
