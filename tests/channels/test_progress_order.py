"""No draft, edit or typing indicator reaches Telegram or Discord after the last message of its turn, whatever takes how long.

The delivery, the views and the channels are the real ones, and time is a fake clock's. Below them is a platform that
acts on every request that it has received, also when its client no longer waits.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, cast

import anyio
import msgspec
import pytest
from anyio.abc import TaskGroup
from discord.http import HTTPClient, Route
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from tests.channels.channel_rig import open_behind
from tests.channels.plays import pass_until, works_until
from tests.runtime.puppet import Play, Strings
from tests.runtime.rig import Rig
from typing_extensions import override

from pilothouse.channels.discord.addresses import DISCORD
from pilothouse.channels.discord.channel import DiscordChannel
from pilothouse.channels.discord.config import DiscordConfig
from pilothouse.channels.discord.pace import Pace
from pilothouse.channels.discord.rest import Attempt, Calls
from pilothouse.channels.skeleton import LANDS_S, ProgressCalls
from pilothouse.channels.telegram.api import Api
from pilothouse.channels.telegram.channel import TelegramChannel
from pilothouse.channels.telegram.client import BotClient
from pilothouse.channels.telegram.config import TelegramConfig
from pilothouse.channels.telegram.content import TELEGRAM
from pilothouse.channels.telegram.sender import Sender
from pilothouse.core.channel import ChannelHost, Desk
from pilothouse.core.ids import UserId
from pilothouse.core.message import Address, Author, InboundMessage, conversation_id
from pilothouse.core.people import Role
from pilothouse.core.secret import Secret
from pilothouse.testing.clock import FakeClock

pytestmark = pytest.mark.anyio

ANSWER = "All is built."
Where = Literal["telegram private", "telegram group", "discord"]
PLACES: dict[Where, Address] = {
    "telegram private": Address(TELEGRAM, "77"),
    "telegram group": Address(TELEGRAM, "-100177"),
    "discord": Address(DISCORD, "300"),
}
PROGRESS = {"view", "typing"}
TURNS = 4
STEP_S = 0.05


class Platform:
    """Each request takes the next two times: until the platform acts on it, and from then on until it answers."""

    def __init__(self, clock: FakeClock, tasks: TaskGroup, waits_s: Sequence[tuple[float, float]]) -> None:
        self._clock = clock
        self._tasks = tasks
        self._waits_s = cycle(waits_s)
        self._numbers = iter(range(1000, 10_000))
        self.received: list[str] = []
        self.done: list[str] = []
        self.late: list[str] = []
        """Progress that took effect after the answer that it was sent before."""
        self.holds_progress = False
        self.released = anyio.Event()

    @property
    def answers(self) -> int:
        return self.done.count("final")

    async def take(self, what: str) -> int:
        answered = anyio.Event()
        before_s, after_s = next(self._waits_s)
        self.received.append(what)
        answers = self.answers

        async def act() -> None:
            if self.holds_progress and what in PROGRESS:
                await self.released.wait()
            await self._clock.sleep(before_s)
            self.done.append(what)
            if what in PROGRESS and self.answers > answers:
                self.late.append(what)
            await self._clock.sleep(after_s)
            answered.set()

        self._tasks.start_soon(act)
        await answered.wait()
        return next(self._numbers)


class TelegramMethods:
    """Stands for `Api`: every call reaches the platform."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform

    async def call(
        self, method: str, params: dict[str, Any], _uploads: object, _wait_s: float
    ) -> msgspec.Raw:
        what = {"sendChatAction": "typing", "deleteMessage": "removal"}.get(method)
        if what is None:
            what = "final" if ANSWER in str(params) and "Draft" not in method else "view"
        number = await self._platform.take(what)
        posted = {"message_id": number, "date": 1, "chat": {"id": params["chat_id"], "type": "private"}}
        return msgspec.Raw(
            msgspec.json.encode(posted if what in ("view", "final") and "Draft" not in method else True)
        )


class ClockedTelegram(TelegramChannel):
    def __init__(self, platform: Platform, host: ChannelHost) -> None:
        super().__init__(TelegramConfig(token=Secret("1:a")), host)
        self._platform = platform

    @override
    async def run(self, desk: Desk) -> None:
        async with anyio.create_task_group() as tasks:
            client = BotClient(cast("Api", TelegramMethods(self._platform)))
            progress = ProgressCalls(tasks, self._host.clock)
            self._connected.open(Sender(client, self._host.blobs, self._gate, self._server, progress))
            await anyio.sleep_forever()


class DiscordMethods:
    """Stands for discord.py's client: every request reaches the platform, and is reported as the trace does."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform

    async def request(self, route: Route, *, trace_request_ctx: Attempt, **more: Any) -> Any:
        what = "view"
        if route.path.endswith("/typing"):
            what = "typing"
        elif route.method == "DELETE":
            what = "removal"
        elif ANSWER in str(more):
            what = "final"
        trace_request_ctx.begin()
        number = await self._platform.take(what)
        trace_request_ctx.end_try(200)
        return {"id": str(number)}


class ClockedDiscord(DiscordChannel):
    def __init__(self, platform: Platform, host: ChannelHost) -> None:
        super().__init__(DiscordConfig(token=Secret("a")), host)
        self._platform = platform

    @override
    async def run(self, desk: Desk) -> None:
        async with anyio.create_task_group() as tasks:
            http = cast("HTTPClient", DiscordMethods(self._platform))
            calls = Calls(http, "1", str, tasks, self._host.clock)
            self._open(calls, Pace(self._host.clock))
            await anyio.sleep_forever()


@asynccontextmanager
async def open_place(
    where: Where, folder: Path, platform: Platform, clock: FakeClock, *plays: Play
) -> AsyncIterator[Rig]:
    def make(host: ChannelHost) -> TelegramChannel | DiscordChannel:
        channel = ClockedDiscord(platform, host) if where == "discord" else ClockedTelegram(platform, host)
        channel.type_every_s = 0.7
        return channel

    people: dict[UserId, Role] = {UserId(f"{PLACES[where].channel}:77"): "owner"}
    times = {"first_view_s": 0.3, "edit_every_s": 0.2}
    async with open_behind(make, folder, people, *plays, clock=clock, **times) as (rig, _):
        yield rig


async def say(rig: Rig, where: Where, native_id: str) -> None:
    place = PLACES[where]
    author = Author(UserId(f"{place.channel}:77"), "Ada")
    await rig.gateway.desk.accept(InboundMessage(place, author, native_id, "build", private=True))


async def play(where: Where, folder: Path, waits_s: Sequence[tuple[float, float]], turn_s: float) -> Platform:
    """Plays turns, each right after the one before, so that progress also waits for the platform's limits."""
    clock = FakeClock()

    async def work(strings: Strings) -> None:
        await strings.start()
        await strings.tool(title="make all")
        await clock.sleep(turn_s)
        await strings.tool_done()
        await strings.end(ANSWER)

    async with anyio.create_task_group() as tasks:
        platform = Platform(clock, tasks, waits_s)
        async with open_place(where, folder, platform, clock, *[work] * TURNS) as rig:
            for turn in range(1, TURNS + 1):
                await say(rig, where, str(turn))
                await pass_until(clock, lambda so_far=turn: platform.answers == so_far, STEP_S)
            for _ in range(20):
                await clock.advance(0.1)
    return platform


WAITS_S = st.tuples(st.sampled_from([0.0, 0.1, 0.3, LANDS_S - 0.05]), st.sampled_from([0.0, 0.1, 0.3]))
HYPOTHESIS = settings(
    max_examples=5,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    phases=(
        Phase.explicit,
        Phase.reuse,
        Phase.generate,
    ),  # each example takes a second: too long to shrink one
)


@pytest.mark.parametrize("where", list(PLACES))
@HYPOTHESIS
@example([(0.45, 0.1), (0.1, 0.1)], 1.2)
@example([(0.0, 0.0), (0.3, 0.1), (0.1, 0.0)], 0.8)
@given(st.lists(WAITS_S, min_size=1, max_size=5), st.floats(0.2, 2.5))
def test_no_progress_takes_effect_after_the_last_message(
    where: Where, waits_s: list[tuple[float, float]], turn_s: float
) -> None:
    with TemporaryDirectory() as folder:
        platform = anyio.run(play, where, Path(folder), waits_s, turn_s)
    assert platform.late == [], platform.done
    last = platform.received[::-1].index("final")
    assert not PROGRESS & set(platform.received[-last:] if last else []), platform.received
    assert platform.answers == TURNS


@pytest.mark.parametrize("where", list(PLACES))
async def test_the_last_message_waits_half_a_second_for_progress_that_has_no_answer(
    where: Where, tmp_path: Path
) -> None:
    clock, may_end = FakeClock(), anyio.Event()

    async with anyio.create_task_group() as tasks:
        platform = Platform(clock, tasks, [(0.0, 0.0)])
        async with open_place(where, tmp_path, platform, clock, works_until(may_end, ANSWER)) as rig:
            await say(rig, where, "1")
            await pass_until(clock, lambda: "view" in platform.done, STEP_S)
            platform.holds_progress = True
            platform.received.clear()
            await pass_until(clock, lambda: "view" in platform.received, STEP_S)
            ended_at = clock.monotonic()
            may_end.set()
            await rig.until_ended(conversation=conversation_id(PLACES[where]))
            await pass_until(clock, lambda: "final" in platform.received, STEP_S)
            assert clock.monotonic() - ended_at >= LANDS_S
            assert not PROGRESS & set(platform.received[platform.received.index("final") :])
            platform.released.set()
