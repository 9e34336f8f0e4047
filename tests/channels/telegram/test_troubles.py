"""What goes wrong around the channel: it says so, waits, and goes on; it neither breaks nor loses anything."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.channels.telegram.gateway_house import config_for, open_gateway
from tests.channels.telegram.receiving_house import KeptBlobs
from tests.channels.telegram.server.running import Server
from tests.runtime.puppet import Strings
from tests.runtime.rig import open_rig

from pilothouse.channels.memory import MEMORY, MemoryChannel
from pilothouse.channels.telegram import CHANNEL
from pilothouse.channels.telegram.channel import TelegramChannel
from pilothouse.channels.telegram.config import TelegramConfig, WebhookConfig
from pilothouse.channels.telegram.content import TELEGRAM
from pilothouse.channels.telegram.payload import AS_FILE
from pilothouse.core.channel import ChannelHealth, ChannelHost, MenuCommand
from pilothouse.core.errors import Rejected, TryLater, Unconfirmed, WantsPlainer
from pilothouse.core.message import AGAIN_MARK, Address, Content
from pilothouse.core.secret import Secret
from pilothouse.core.trigger import Trigger
from pilothouse.runtime.channel_status import health_of
from pilothouse.testing.clock import FakeClock
from pilothouse.testing.desk import ScriptedDesk

pytestmark = pytest.mark.anyio


class Alone:
    """A channel with a scripted desk, and time that the test moves."""

    def __init__(
        self, server: Server, config: TelegramConfig, folder: Path, menu: Sequence[MenuCommand] = ()
    ) -> None:
        self.clock = FakeClock(1_800_000_000.0)
        server.world.now = lambda: 1_800_000_000.0
        server.polls.clock = self.clock
        self.desk = ScriptedDesk()
        self.logged: list[tuple[str, dict[str, object]]] = []
        host = ChannelHost(KeptBlobs(), str(folder), self._log, self.clock, tuple(menu))
        self.channel = TelegramChannel(config, host)

    def _log(self, event: str, **fields: object) -> None:
        self.logged.append((event, fields))

    async def until(self, seen: Any, step_s: float = 0.0) -> None:
        with anyio.fail_after(60):
            while not seen():
                if step_s:
                    await self.clock.advance(step_s)
                await anyio.sleep(0.005)


@asynccontextmanager
async def alone(
    server: Server,
    folder: Path,
    config: TelegramConfig | None = None,
    *,
    menu: Sequence[MenuCommand] = (),
) -> AsyncIterator[Alone]:
    house = Alone(server, config or config_for(server), folder, menu)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(house.channel.run, house.desk)
        yield house
        tasks.cancel_scope.cancel()


async def test_a_wrong_token_is_said_and_not_hammered(server: Server, tmp_path: Path) -> None:
    config = TelegramConfig(token=Secret("1:wrong"), api_base=server.url)
    async with alone(server, tmp_path, config) as house:
        await house.until(lambda: house.channel.health().trouble)
        assert "@BotFather" in house.channel.health().trouble
        assert "TELEGRAM_TOKEN" in house.channel.health().trouble
        assert house.channel.health().heard_at is None
        assert len(server.called("getMe")) == 1
        with pytest.raises(TryLater):
            await house.channel.send(Address(TELEGRAM, "5"), house.channel.render(Content("hello"))[0])


async def test_a_network_that_is_down_at_the_start_is_waited_for(server: Server, tmp_path: Path) -> None:
    ada = server.person("Ada")
    server.faults.drop("getMe", times=4)
    async with alone(server, tmp_path) as house:
        ada.say("hello")
        await house.until(lambda: house.desk.accepted, step_s=0.5)
        assert house.desk.accepted[0].text == "hello"
        assert house.channel.health().trouble == ""


async def test_a_network_that_stays_down_is_told_and_so_is_its_end(server: Server, tmp_path: Path) -> None:
    server.faults.storm("getMe", times=12)
    async with alone(server, tmp_path) as house:
        await house.until(lambda: house.channel.health().trouble, step_s=5.0)
        assert "could not be reached" in house.channel.health().trouble
        await house.until(lambda: house.channel.health().heard_at, step_s=10.0)
        assert house.channel.health().trouble == ""


async def test_an_update_from_the_future_is_passed_over(server: Server, tmp_path: Path) -> None:
    ada = server.person("Ada")
    async with alone(server, tmp_path) as house:
        await house.until(lambda: server.called("getUpdates"))
        server.world.pending.append(
            {"update_id": 730_999_999, "telepathy": {"from": ada.user, "thought": "?"}}
        )
        ada.say("hello")
        await house.until(lambda: house.desk.accepted)
        await house.until(lambda: any(event == "telegram.update_passed_over" for event, _ in house.logged))
    server.complaints.clear()  # aiogram does not know that kind either


async def test_a_poller_that_hangs_is_started_anew(server: Server, tmp_path: Path) -> None:
    ada = server.person("Ada")
    async with alone(server, tmp_path) as house:
        await house.until(lambda: server.called("getUpdates"))
        stuck = server.faults.hold("getUpdates")
        ada.say("wakes the first poll")
        await house.until(lambda: len(server.called("getUpdates")) >= 2)
        ada.say("hello")
        await house.until(lambda: any(e == "telegram.poller_stuck" for e, _ in house.logged), step_s=20.0)
        await house.until(lambda: len(house.desk.accepted) >= 2, step_s=0.5)
        stuck.release()


async def test_what_may_stand_there_is_not_repeated_without_a_word(server: Server, tmp_path: Path) -> None:
    ada = server.person("Ada")
    async with alone(server, tmp_path) as house:
        address, channel = Address(TELEGRAM, str(ada.id)), house.channel
        (part,) = channel.render(Content("alpha"))
        server.faults.lose_answer("sendMessage")
        with pytest.raises(Unconfirmed):
            await channel.send(address, part)
        server.faults.too_many("sendMessage", after_s=7)
        with pytest.raises(TryLater) as caught:
            await _soon(house, channel.send, address, part)
        assert caught.value.after_s == 7
        await house.clock.advance(7.0)
        ada.block()
        with pytest.raises(Rejected):
            await _soon(house, channel.send, address, part)


async def _soon(house: Alone, act: Any, *arguments: Any) -> Any:
    """While time passes, so that the gate lets it through."""
    raised: list[Exception] = []

    async def run() -> None:
        try:
            await act(*arguments)
        except Exception as error:  # noqa: BLE001 - raised below
            raised.append(error)
        done.set()

    done = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        await house.until(done.is_set, step_s=1.0)
    if raised:
        raise raised[0]


async def test_a_lost_answer_is_sent_again_with_its_mark(server: Server, tmp_path: Path) -> None:
    ada = server.person("Ada")
    async with open_gateway(server, tmp_path, {ada: "owner"}) as house:
        server.faults.lose_answer("sendMessage")
        ada.say("hello")
        await house.until_shown(ada.id, AGAIN_MARK)
        assert len(server.world.texts(ada.id)) == 2


async def test_what_a_proxy_finds_too_large_is_told_and_holds_up_nothing(
    server: Server, tmp_path: Path
) -> None:
    ada = server.person("Ada")
    server.faults.storm("sendDocument", status=413, times=1000)

    async def answer_at_length(strings: Strings) -> None:
        await strings.start()
        await strings.end("word " * 60_000)

    async def answer(strings: Strings) -> None:
        await strings.start()
        await strings.end("A short answer.")

    async with open_gateway(server, tmp_path, {ada: "owner"}, answer_at_length, answer) as house:
        ada.say("a long one")
        told = await house.until_shown(ada.id, "could not be delivered")
        assert "accepts nothing as large as this" in told.text
        ada.say("and a short one")
        await house.until_shown(ada.id, "A short answer.")


@pytest.mark.parametrize("barred", [("sendMessage",), ("sendMessage", "sendDocument")])
async def test_what_a_firewall_minds_goes_in_another_form_or_is_told(
    server: Server, tmp_path: Path, barred: tuple[str, ...]
) -> None:
    ada = server.person("Ada")
    async with open_gateway(server, tmp_path, {ada: "owner"}, first_view_s=600.0) as house:
        for method in barred:
            server.faults.storm(method, status=403)
        ada.say("DROP TABLE users")
        told = "could not be delivered (a proxy or firewall on the way" if barred[1:] else AS_FILE
        await house.until_shown(ada.id, told)
        ada.say("and now?")
        await house.until_shown(ada.id, "and now?")


async def test_a_page_in_the_place_of_telegram_is_waited_for(server: Server, tmp_path: Path) -> None:
    ada = server.person("Ada")
    async with alone(server, tmp_path) as house:
        await house.until(lambda: house.channel.health().heard_at)
        server.faults.storm(status=403, times=1000)
        with pytest.raises(TryLater):
            await _soon(
                house,
                house.channel.send,
                Address(TELEGRAM, str(ada.id)),
                house.channel.render(Content("x"))[0],
            )


async def test_a_server_without_rich_messages_gets_plain_ones(server: Server, tmp_path: Path) -> None:
    server.rich = False
    ada = server.person("Ada")
    async with alone(server, tmp_path) as house:
        content = Content("# Title\n\n| a | b |\n|---|---|\n| 1 | 2 |", "answer")
        with pytest.raises(WantsPlainer):
            await _soon(
                house, house.channel.send, Address(TELEGRAM, str(ada.id)), house.channel.render(content)[0]
            )
        (plain,) = house.channel.render_plainly(content)
        assert house.channel.render(content) == (plain,), "it is known now"
        await _soon(house, house.channel.send, Address(TELEGRAM, str(ada.id)), plain)
        assert "Title" in server.world.texts(ada.id)[0]


async def test_a_long_answer_is_several_messages_where_progress_showed_that_a_server_is_old(
    server: Server, tmp_path: Path
) -> None:
    server.rich = False
    ada, go_on = server.person("Ada"), anyio.Event()

    async def play(strings: Strings) -> None:
        await strings.start()
        await strings.tool()
        await go_on.wait()
        await strings.end("A word. " * 700 + "The end.")

    async with open_gateway(server, tmp_path, {ada: "owner"}, play) as house:
        ada.say("tell me")
        await house.until(lambda: any("Stop" in post.buttons for post in server.world.shown(ada.id)))
        go_on.set()
        await house.until_shown(ada.id, "The end.")
        await house.until(lambda: len(server.world.texts(ada.id)) == 2)
        assert server.called("sendDocument") == []


async def test_a_group_that_threw_us_out_does_not_hold_up_others(server: Server, tmp_path: Path) -> None:
    ada = server.person("Ada")
    group = ada.make_group("Work")
    async with open_gateway(server, tmp_path, {ada: "owner"}) as house:
        await house.until(lambda: any(event == "telegram.membership" for event, _ in house.rig.logged))
        ada.say("@pilot_test_bot hello", chat=group)
        ada.remove_bot(group)
        ada.say("and here?")
        await house.until_shown(ada.id, "you said: and here?")


async def test_a_group_that_moved_is_answered_under_its_new_number(server: Server, tmp_path: Path) -> None:
    ada = server.person("Ada")
    group = ada.make_group("Work", kind="group")
    config = config_for(server, chats={str(group.id): Trigger("all")})
    async with open_gateway(server, tmp_path, {ada: "owner"}, config=config) as house:
        ada.say("hello", chat=group)
        await house.until_shown(group.id, "hello")
        moved = ada.migrate(group)
        await house.until(lambda: any(event == "telegram.group_moved" for event, _ in house.rig.logged))
        ada.say("still there?", chat=moved)
        await house.until_shown(moved.id, "still there?")


class Ill(MemoryChannel):
    trouble = "It has a cold."

    def health(self) -> ChannelHealth:
        return ChannelHealth(5.0, self.trouble)


async def test_an_owner_hears_elsewhere_of_a_channel_in_trouble(tmp_path: Path) -> None:
    well, ill = MemoryChannel(), Ill(id=TELEGRAM)
    ill.trouble = ""
    channels = {MEMORY: well, TELEGRAM: ill}
    async with open_rig(tmp_path, channel=well, channels=channels, known_channels=(MEMORY, TELEGRAM)) as rig:
        await well.say("hello")
        await rig.until_said("you said: hello")
        ill.trouble = "It has a cold."
        await rig.until_said("The channel telegram is in trouble. It has a cold.")
        noted = await rig.store.read(lambda tx: health_of(tx, TELEGRAM))
        assert noted is not None and (noted.heard_at, noted.trouble) == (5.0, "It has a cold.")
        ill.trouble = ""
        await rig.until_said("The channel telegram works again.")
        assert ill.sent == []


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (TelegramConfig(), "TELEGRAM_TOKEN"),
        (TelegramConfig(token=Secret("my-token")), "@BotFather"),
        (TelegramConfig(token=Secret("1:a"), api_base="example.org"), "api_base"),
        (TelegramConfig(token=Secret("1:a"), trigger=Trigger("pattern", "(")), "not a regular expression"),
        (
            TelegramConfig(token=Secret("1:a"), chats={"-1": Trigger("pattern")}),
            "chats.-1: the pattern is missing",
        ),
        (TelegramConfig(token=Secret("1:a"), chats={"work": Trigger()}), "by its number"),
        (TelegramConfig(token=Secret("1:a"), mode="webhook"), "https://"),
        (
            TelegramConfig(
                token=Secret("1:a"), mode="webhook", webhook=WebhookConfig("https://a.b/c", Secret("x"))
            ),
            "webhook.secret",
        ),
    ],
)
def test_a_configuration_that_cannot_work_is_refused_with_the_fix(config: TelegramConfig, words: str) -> None:
    assert words in CHANNEL.problem(config)
    assert "1:a" not in CHANNEL.problem(config)


def test_a_configuration_that_can_work_is_taken() -> None:
    assert (
        CHANNEL.problem(TelegramConfig(token=Secret("123:abc"), trigger=Trigger("pattern", "pilot|bot")))
        == ""
    )
