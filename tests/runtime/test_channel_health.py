"""A channel that is deaf never looks healthy: it is noted, told to the owners elsewhere, and so is its end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from tests.new_store import put_new_store
from tests.runtime.rig import MAIN, open_rig, settings_for

from pilothouse.channels.memory import MEMORY, PERSON, MemoryChannel
from pilothouse.core.channel import ChannelHealth, Desk
from pilothouse.core.errors import ConfigError
from pilothouse.core.ids import ChannelId, ConversationId
from pilothouse.core.store import NodeInfo, Store, Tx
from pilothouse.core.text import moment
from pilothouse.runtime.channel_health import CHECK_EVERY_S, NEWS_EVERY_S, PAUSE_S, SETTLED_S, ChannelMonitor
from pilothouse.runtime.channel_status import SILENT_AFTER_S, HealthNote, health_now, health_of, note_health
from pilothouse.runtime.conversations.places import ensure_place
from pilothouse.runtime.gateway import TOPICS
from pilothouse.runtime.outbox import LATE_S, content_at, content_of
from pilothouse.runtime.ports import Ports, new_id
from pilothouse.runtime.roles import note_author
from pilothouse.stores.sqlite import STORE
from pilothouse.testing.clock import FakeClock

pytestmark = pytest.mark.anyio

OTHER = ChannelId("other")
PORT_TAKEN = OSError(98, "Address already in use")
OVER = "The channel other works again."


class Ill(MemoryChannel):
    """Says how it is; heard just now, unless it says otherwise."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(id=OTHER)
        self.clock = clock
        self.hears = True
        self.trouble = ""
        self._heard_at: float | None = None

    def health(self) -> ChannelHealth:
        if self.hears:
            self._heard_at = self.clock.now()
        return ChannelHealth(self._heard_at, self.trouble)


class House:
    """Somebody who looks after a channel, and an owner who was heard in private on another one."""

    def __init__(self, store: Store, clock: FakeClock, other: MemoryChannel, folder: Path) -> None:
        self.store = store
        self._told: list[str] = []
        self.clock = clock
        self.logged: list[str] = []
        settings = settings_for(folder)
        ports = Ports(
            topics=TOPICS,
            store=store,
            clock=clock,
            ids=new_id,
            settings=lambda: settings,
            engines={},
            channels={MEMORY: MemoryChannel(), OTHER: other},
            log=lambda event, **_fields: self.logged.append(event),
        )
        self.monitor = ChannelMonitor(ports)
        self.monitor.started(MEMORY)
        self.monitor.started(OTHER)

    async def pass_time(self, seconds: float) -> None:
        end = self.clock.monotonic() + seconds
        while (left_s := end - self.clock.monotonic()) > 0:
            await self.clock.advance(min(CHECK_EVERY_S, left_s))
            await self.monitor.check()

    async def told(self) -> list[str]:
        """What the owner was told in this house, oldest first; until we look here, it waits to be shown."""

        def unit(tx: Tx) -> list[str]:
            rows = tx.outbox.claim([row.id for row in tx.outbox.waiting(MAIN)])
            for row in rows:
                tx.outbox.done(row.id, self.clock.now())
            return [content_of(row).text for row in rows]

        self._told += await self.store.write(unit)
        return [*self._told]

    async def noted(self) -> HealthNote | None:
        return await self.store.read(lambda tx: health_of(tx, OTHER))


@asynccontextmanager
async def open_house(folder: Path, other: MemoryChannel, clock: FakeClock) -> AsyncIterator[House]:
    async with STORE.open(STORE.config(path=str(put_new_store(folder / "pilothouse.db")))) as store:

        def settle_in(tx: Tx) -> None:
            tx.nodes.join(NodeInfo("test", "here", 1, ""), ("channels",), clock.now() + 30)
            place = ensure_place(tx, MemoryChannel().address(), clock.now(), private=True)
            note_author(tx, PERSON, place, clock.now())

        await store.write(settle_in)
        house = House(store, clock, other, folder)
        await house.monitor.check()
        yield house


async def test_a_channel_that_breaks_is_in_trouble_until_it_has_run_for_a_while(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_house(tmp_path, MemoryChannel(id=OTHER), clock) as house:
        pauses: list[float] = []
        for _ in range(8):
            pauses.append(house.monitor.failed(OTHER, PORT_TAKEN))
            await house.pass_time(pauses[-1])
            house.monitor.started(OTHER)
            await house.pass_time(SETTLED_S / 2)
        assert pauses == [*PAUSE_S, *[PAUSE_S[-1]] * 3]
        (told,) = await house.told()
        assert told.startswith("The channel other is in trouble. It failed (OSError: ")
        assert "Address already in use" in told
        noted = await house.noted()
        assert noted is not None and noted.trouble in told
        assert house.monitor.health(OTHER).trouble == noted.trouble
        await house.pass_time(SETTLED_S)
        assert await house.told() == [told, OVER]
        assert house.monitor.health(OTHER).trouble == ""
        assert await house.noted() is None, "one without a health has nothing else to be noted"
        assert house.logged == ["channel.in_trouble", "channel.well_again"]
        assert house.monitor.failed(OTHER, PORT_TAKEN) == PAUSE_S[0], "one that ran well begins anew"


async def test_an_alert_tells_of_a_moment_and_says_so_if_it_is_shown_late(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_house(tmp_path, MemoryChannel(id=OTHER), clock) as house:
        house.monitor.failed(OTHER, PORT_TAKEN)
        await house.pass_time(CHECK_EVERY_S)
        (row,) = await house.store.read(lambda tx: tx.outbox.waiting(MAIN))
        early, late = (content_at(row, row.created_at + late_s).text for late_s in (LATE_S - 1, LATE_S))
        assert early.startswith("The channel other is in trouble.")
        when = moment(row.created_at, row.created_at + LATE_S)
        assert late == f"A{when[1:]}: {early}"


async def test_a_channel_that_broke_and_runs_but_hears_nothing_is_still_in_trouble(tmp_path: Path) -> None:
    clock = FakeClock()
    other = Ill(clock)
    async with open_house(tmp_path, other, clock) as house:
        other.hears = False
        house.monitor.failed(OTHER, ExceptionGroup("in a task", [ConfigError("There is no port.")]))
        await house.pass_time(PAUSE_S[0])
        house.monitor.started(OTHER)
        await house.pass_time(2 * SETTLED_S)
        (told,) = await house.told()
        assert "It failed (There is no port.)" in told
        other.hears = True
        await house.pass_time(CHECK_EVERY_S)
        assert await house.told() == [told, OVER]


async def test_what_a_channel_that_runs_says_itself_is_told_before_why_it_broke(tmp_path: Path) -> None:
    clock = FakeClock()
    other = Ill(clock)
    async with open_house(tmp_path, other, clock) as house:
        other.trouble = "The token is refused."
        house.monitor.failed(OTHER, None)
        assert "it stopped by itself" in house.monitor.health(OTHER).trouble
        house.monitor.started(OTHER)
        assert house.monitor.health(OTHER).trouble == "The token is refused."


async def test_a_channel_of_which_nothing_is_heard_is_in_trouble_although_it_says_nothing(
    tmp_path: Path,
) -> None:
    clock = FakeClock()
    other = Ill(clock)
    async with open_house(tmp_path, other, clock) as house:
        await house.pass_time(30)
        other.hears = False
        await house.pass_time(SILENT_AFTER_S)
        assert await house.told() == []
        await house.pass_time(CHECK_EVERY_S)
        (told,) = await house.told()
        assert "Nothing was heard from it for more than 5 minutes." in told
        other.hears = True
        await house.pass_time(CHECK_EVERY_S)
        assert await house.told() == [told, OVER]


async def test_a_channel_that_was_never_heard_is_in_trouble(tmp_path: Path) -> None:
    clock = FakeClock()
    other = Ill(clock)
    other.hears = False
    async with open_house(tmp_path, other, clock) as house:
        await house.pass_time(SILENT_AFTER_S)
        assert await house.told() == []
        await house.pass_time(CHECK_EVERY_S)
        assert len(await house.told()) == 1


async def test_a_clock_that_is_set_is_no_trouble(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_house(tmp_path, Ill(clock), clock) as house:
        await house.pass_time(30)
        for seconds in (86_400.0, -2 * 86_400.0):
            clock.jump(seconds)
            await house.pass_time(30)
        assert await house.told() == []


async def test_a_trouble_that_becomes_another_is_told_now_and_then_and_not_each_time(tmp_path: Path) -> None:
    clock = FakeClock()
    other = Ill(clock)
    async with open_house(tmp_path, other, clock) as house:
        for n in range(10):
            other.trouble = f"trouble {n}"
            await house.pass_time(CHECK_EVERY_S)
        first = "The channel other is in trouble. trouble 0"
        assert await house.told() == [first]
        noted = await house.noted()
        assert noted is not None and noted.trouble == "trouble 9"
        await house.pass_time(NEWS_EVERY_S)
        assert await house.told() == [first, "The channel other is in trouble. trouble 9"]


async def test_of_news_that_nobody_was_shown_only_the_last_is_kept(tmp_path: Path) -> None:
    clock = FakeClock()
    other = Ill(clock)
    async with open_house(tmp_path, other, clock) as house:
        for _ in range(3):
            other.trouble = "It has a cold."
            await house.pass_time(CHECK_EVERY_S)
            other.trouble = ""
            await house.pass_time(CHECK_EVERY_S)
        assert await house.told() == [OVER]
        other.trouble = "It has a cough."
        await house.pass_time(CHECK_EVERY_S)
        assert await house.told() == [OVER, "The channel other is in trouble. It has a cough."]


async def test_what_is_over_after_a_restart_is_told_as_over(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_house(tmp_path, MemoryChannel(id=OTHER), clock) as house:
        house.monitor.failed(OTHER, PORT_TAKEN)
        await house.pass_time(CHECK_EVERY_S)
        assert len(await house.told()) == 1
    async with open_house(tmp_path, MemoryChannel(id=OTHER), clock) as house:
        await house.pass_time(SETTLED_S - CHECK_EVERY_S)
        assert await house.told() == [], "it may break again at any moment"
        await house.pass_time(CHECK_EVERY_S)
        assert await house.told() == [OVER]
        assert house.logged == ["channel.well_again"]
        assert await house.noted() is None


async def test_a_restart_does_not_end_a_trouble_until_the_channel_was_heard(tmp_path: Path) -> None:
    clock = FakeClock()
    other = Ill(clock)
    async with open_house(tmp_path, other, clock) as house:
        other.trouble = "Telegram could not be reached."
        await house.pass_time(CHECK_EVERY_S)
        assert len(await house.told()) == 1
    for _ in range(2):
        other = Ill(clock)
        other.hears = False
        async with open_house(tmp_path, other, clock) as house:
            await house.pass_time(SETTLED_S)
            noted = await house.noted()
            assert noted is not None and noted.trouble == "Telegram could not be reached."
            other.trouble = "Telegram could not be reached."
            await house.pass_time(SETTLED_S)
            assert await house.told() == []
            assert house.logged == []
    other = Ill(clock)
    async with open_house(tmp_path, other, clock) as house:
        await house.pass_time(SETTLED_S)
        assert await house.told() == [OVER]
        assert house.logged == ["channel.well_again"]
        noted = await house.noted()
        assert noted is not None and (noted.trouble, noted.told) == ("", "")


async def test_a_trouble_of_before_the_start_ends_with_the_first_answer_after_it(tmp_path: Path) -> None:
    clock = FakeClock()
    other = Ill(clock)
    async with open_house(tmp_path, other, clock) as house:
        other.trouble = "Telegram refuses the bot token (Unauthorized)."
        await house.pass_time(CHECK_EVERY_S)
    other = Ill(clock)
    other.hears = False
    async with open_house(tmp_path, other, clock) as house:
        await house.pass_time(CHECK_EVERY_S)
        assert house.monitor.health(OTHER).trouble == "Telegram refuses the bot token (Unauthorized)."
        other.hears = True
        await house.pass_time(CHECK_EVERY_S)
        noted = await house.noted()
        assert noted is not None and (noted.trouble, house.monitor.health(OTHER).trouble) == ("", "")
        assert OVER in await house.told()
        house.monitor.failed(OTHER, PORT_TAKEN)
        house.monitor.started(OTHER)
        await house.pass_time(CHECK_EVERY_S)
        assert "Address already in use" in house.monitor.health(OTHER).trouble, (
            "one of this run lasts a while"
        )


async def test_where_nobody_says_how_it_is_a_trouble_of_before_the_start_is_looked_after_too(
    tmp_path: Path,
) -> None:
    clock = FakeClock()
    async with open_house(tmp_path, MemoryChannel(id=OTHER), clock) as house:
        house.monitor.failed(OTHER, PORT_TAKEN)
        await house.monitor.check()
    async with (
        open_house(tmp_path, MemoryChannel(id=OTHER), clock) as house,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(house.monitor.run)
        with anyio.fail_after(60):
            while OVER not in await house.told():
                await clock.advance(CHECK_EVERY_S)
        tasks.cancel_scope.cancel()


async def test_a_note_that_nobody_renews_beside_a_gateway_that_lives_is_no_good_news(tmp_path: Path) -> None:
    clock = FakeClock()
    at, absent = clock.now(), ChannelId("absent")
    async with open_house(tmp_path, MemoryChannel(id=OTHER), clock) as house:

        async def trouble(now: float) -> str:
            noted = await house.store.read(lambda tx: health_now(tx, absent, now))
            assert noted is not None
            return noted.trouble

        await house.store.write(lambda tx: note_health(tx, absent, HealthNote(at, at)))
        await house.store.write(lambda tx: tx.nodes.beat(at + 400))
        assert await trouble(at + SILENT_AFTER_S) == ""
        assert "has not checked this channel for 6m" in await trouble(at + SILENT_AFTER_S + 60)
        assert await trouble(at + 500) == "", "no gateway lives any more: that is no channel's trouble"


async def test_an_owner_who_is_heard_only_later_is_told_then(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_house(tmp_path, MemoryChannel(id=OTHER), clock) as house:
        await house.store.write(lambda tx: tx.set_fact(f"home:{PERSON.id}", ""))
        house.monitor.failed(OTHER, PORT_TAKEN)
        await house.pass_time(60)
        assert await house.told() == []
        await house.store.write(lambda tx: tx.set_fact(f"home:{PERSON.id}", MAIN))
        await house.pass_time(60)
        assert len(await house.told()) == 1


class Falling(MemoryChannel):
    """Breaks at each of its first starts; with None it ends by itself."""

    def __init__(self, *errors: Exception | None) -> None:
        super().__init__(id=OTHER)
        self.errors = list(errors)

    # pyrefly: ignore [missing-override-decorator]
    async def run(self, desk: Desk) -> None:
        if not self.errors:
            await super().run(desk)
        elif error := self.errors.pop(0):
            raise error


async def test_the_gateway_tells_of_a_channel_that_breaks_or_ends_and_starts_it_again(tmp_path: Path) -> None:
    clock, well, other = FakeClock(), MemoryChannel(), Falling(PORT_TAKEN, None)
    channels = {MEMORY: well, OTHER: other}
    async with open_rig(
        tmp_path, None, well, clock=clock, channels=channels, known_channels=(MEMORY, OTHER)
    ) as rig:
        await well.say("hello")
        await rig.until_said("you said: hello")
        await rig.until_true(lambda: len(other.errors) == 1)
        assert "Address already in use" in rig.gateway.health(OTHER).trouble
        await clock.advance(PAUSE_S[0])
        await rig.until_true(lambda: not other.errors)
        assert "it stopped by itself" in rig.gateway.health(OTHER).trouble
        with anyio.fail_after(60):
            while not any("The channel other is in trouble." in text for text in rig.said()):
                await clock.advance(CHECK_EVERY_S)
                await anyio.sleep(0.01)
        await clock.advance(PAUSE_S[1])
        await other.say("and I?", private=False)
        await rig.until(lambda tx: tx.conversations.get(ConversationId("other:main")))
