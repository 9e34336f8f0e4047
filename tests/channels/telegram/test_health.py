"""A channel that is deaf says so: a webhook that nobody reaches, a port that is taken, troubles by turns, a long pause."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from tests.channels.channel_rig import MENU
from tests.channels.telegram.conftest import connect
from tests.channels.telegram.gateway_house import config_for, open_gateway
from tests.channels.telegram.rival import conflicts, rival
from tests.channels.telegram.server.running import Server
from tests.channels.telegram.test_troubles import Alone, alone

from pilothouse.channels.skeleton import LONGEST_S, LOUD_S
from pilothouse.channels.telegram.client import CALM_S, LOUD_AFTER, OTHER_HOOK, OTHER_POLLER, Backoff
from pilothouse.channels.telegram.config import TelegramConfig, WebhookConfig
from pilothouse.channels.telegram.content import TELEGRAM
from pilothouse.channels.telegram.trouble import (
    Conflict,
    NetworkDown,
    RetryAfter,
    ServerDown,
    Trouble,
    Unauthorized,
)
from pilothouse.channels.telegram.webhook import LOOK_EVERY_S
from pilothouse.core.secret import Secret
from pilothouse.runtime.channel_status import health_of
from pilothouse.testing.clock import FakeClock

pytestmark = pytest.mark.anyio

SECRET = Secret("a-secret-of-the-test")


def hooked_at(server: Server, port: int = 0) -> TelegramConfig:
    """Telegram is told to call a port where nobody is; we listen at another one, which a proxy should lead to."""
    hook = WebhookConfig("http://127.0.0.1:1/telegram", SECRET, port=port)
    return config_for(server, mode="webhook", webhook=hook)


def mend_proxy(house: Alone, server: Server) -> None:
    (port,) = (fields["port"] for event, fields in house.logged if event == "telegram.listening")
    server.polls.webhook = f"http://127.0.0.1:{port}/telegram"
    server.world.wake()


async def look(house: Alone, server: Server) -> None:
    """The next look at the webhook has been answered."""

    def answered() -> int:
        return sum(call.done for call in server.called("getWebhookInfo"))

    before = answered()
    await house.until(lambda: answered() > before, step_s=LOOK_EVERY_S / 4)


# The webhook.


async def test_a_webhook_whose_port_is_taken_is_in_trouble(server: Server, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        config = hooked_at(server, port)
        async with open_gateway(server, tmp_path, {server.person(): "owner"}, config=config) as house:
            noted = await house.rig.until(lambda tx: (one := health_of(tx, TELEGRAM)) and one.trouble and one)
            assert f"cannot listen at 127.0.0.1:{port}: " in noted.trouble
            assert "webhook.port" in noted.trouble
            assert noted.heard_at is None, "that our token is good does not mean that we hear anything"


async def test_a_webhook_that_telegram_cannot_reach_is_noticed_and_so_is_its_end(
    server: Server, tmp_path: Path
) -> None:
    ada = server.person()
    async with alone(server, tmp_path, hooked_at(server)) as house:
        await house.until(lambda: house.channel.health().heard_at)
        assert house.channel.health().trouble == ""
        ada.say("hello?")
        await house.until(lambda: server.polls.last_error)
        await house.until(lambda: house.channel.health().trouble, step_s=LOOK_EVERY_S / 4)
        assert "cannot deliver them (" in house.channel.health().trouble
        assert "webhook.url" in house.channel.health().trouble
        since = house.channel.health().heard_at
        await look(house, server)
        assert house.channel.health().heard_at == since
        await house.clock.advance(1.0)
        mend_proxy(house, server)
        await house.until(lambda: house.desk.accepted)
        await house.until(lambda: not house.channel.health().trouble)
        server.polls.webhook = ""


async def test_a_quiet_day_is_no_trouble(server: Server, tmp_path: Path) -> None:
    async with alone(server, tmp_path, hooked_at(server)) as house:
        for _ in range(8):
            await look(house, server)
        await house.until(lambda: house.clock.now() - (house.channel.health().heard_at or 0) < LOOK_EVERY_S)
        assert house.channel.health().trouble == ""
        assert len(server.called("setWebhook")) == 1
        server.polls.webhook = ""


async def test_a_webhook_that_somebody_else_took_is_set_again_and_told_if_it_happens_again(
    server: Server, tmp_path: Path
) -> None:
    config = hooked_at(server)
    async with alone(server, tmp_path, config) as house:
        await house.until(lambda: house.channel.health().heard_at)
        for n in range(2):
            assert house.channel.health().trouble == ""
            server.polls.webhook = "" if n else "http://127.0.0.1:2/theirs"
            await house.until(lambda: server.polls.webhook == config.webhook.url, step_s=LOOK_EVERY_S / 4)
        await house.until(lambda: house.channel.health().trouble)
        assert "takes this bot's webhook away" in house.channel.health().trouble
        await house.until(lambda: not house.channel.health().trouble, step_s=LOOK_EVERY_S / 4)
        assert server.polls.webhook == config.webhook.url
        server.polls.webhook = ""


async def test_telegram_that_cannot_be_asked_about_its_webhook_is_in_trouble_too(
    server: Server, tmp_path: Path
) -> None:
    async with alone(server, tmp_path, hooked_at(server)) as house:
        await house.until(lambda: house.channel.health().heard_at)
        storm = server.faults.storm("getWebhookInfo", times=50)
        await house.until(lambda: house.channel.health().trouble, step_s=5.0)
        assert "could not be reached for" in house.channel.health().trouble
        storm.times = 0
        await house.until(lambda: not house.channel.health().trouble, step_s=5.0)
        server.polls.webhook = ""


async def test_what_the_disk_does_not_take_is_brought_again_and_told(server: Server, tmp_path: Path) -> None:
    ada, folder = server.person(), tmp_path / "state"
    folder.write_text("a file where the folder should be")
    async with alone(server, folder, hooked_at(server)) as house:
        await house.until(lambda: house.channel.health().heard_at)
        mend_proxy(house, server)
        ada.album([b"a", b"b"], "both")
        await house.until(lambda: house.channel.health().trouble)
        assert "cannot be written to this disk" in house.channel.health().trouble
        assert server.world.pending, "it was not answered with a yes"
        folder.unlink()
        await house.clock.advance(0.5)
        await house.until(lambda: not server.world.pending)
        await house.until(lambda: not house.channel.health().trouble)
        await house.until(lambda: house.desk.accepted, step_s=0.25)
        assert [message.text for message in house.desk.accepted] == ["both"]
        assert len(house.desk.accepted[0].attachments) == 2
        server.polls.webhook = ""


# Polls.


class Spell:
    """Setbacks, one after the other, each waited out."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.alarms: list[str] = []
        self.backoff = Backoff(self.clock, self._log, self.alarms.append, place="here")

    def _log(self, _event: str, **_fields: object) -> None:
        pass

    async def suffer(self, *troubles: Trouble) -> list[float]:
        waits = []
        for trouble in troubles:
            waits.append(self.backoff.wait_s(trouble))
            await self.clock.advance(waits[-1])
        return waits


async def test_troubles_of_two_kinds_by_turns_are_told_once_and_waited_for_ever_longer() -> None:
    spell = Spell()
    waits = await spell.suffer(*[NetworkDown("timeout"), ServerDown("502")] * 10)
    assert waits[:7] == [1, 2, 4, 8, 16, 32, 60]
    assert len(spell.alarms) == 1
    assert "could not be reached for" in spell.alarms[0]
    spell.backoff.succeeded()
    assert (await spell.suffer(ServerDown("502"))) == [1]
    assert len(spell.alarms) == 1


async def test_each_kind_of_what_to_do_is_told_once_in_a_spell() -> None:
    spell = Spell()
    await spell.suffer(*[ServerDown("502"), Conflict("Conflict: two"), Unauthorized("401")] * 6)
    told = ("refuses the bot token", "could not be reached", "Another program receives")
    assert [sum(words in alarm for alarm in spell.alarms) for words in told] == [1, 1, 1]
    assert len(spell.alarms) == 3


@pytest.mark.parametrize(("after_s", "times", "told"), [(20.0, 2, 0), (20.0, 6, 1), (LOUD_S, 1, 1)])
async def test_a_long_pause_that_telegram_asks_for_is_told(after_s: float, times: int, told: int) -> None:
    spell = Spell()
    waits = await spell.suffer(*[RetryAfter("Too Many Requests", after_s=after_s)] * times)
    assert waits == [after_s] * times
    assert len(spell.alarms) == told
    assert all("asks us to wait" in alarm for alarm in spell.alarms)


async def test_a_retry_after_of_five_minutes_is_obeyed_by_the_poller(server: Server, tmp_path: Path) -> None:
    async with alone(server, tmp_path) as house:
        await house.until(lambda: server.polls.waiting)
        server.faults.too_many("getUpdates", after_s=300)
        server.person().say("wakes the poll")
        await house.until(lambda: any(event == "telegram.poll_failed" for event, _ in house.logged))
        assert "asks us to wait for 5m" in house.channel.health().trouble
        polls, at = len(server.called("getUpdates")), house.clock.monotonic()
        await house.until(lambda: len(server.called("getUpdates")) > polls, step_s=5.0)
        assert house.clock.monotonic() - at >= 300
        assert "telegram.poller_stuck" not in [event for event, _ in house.logged]
        await house.until(lambda: not house.channel.health().trouble)


async def test_conflicts_are_over_only_when_nobody_has_disturbed_us_for_longer_than_anybody_waits() -> None:
    spell = Spell()
    for pause_s in (1, 2, 4, 8, 16, 32, 60, 60):
        assert await spell.suffer(Conflict("Conflict: two")) == [pause_s]
        spell.backoff.succeeded()
        assert not spell.backoff.is_failing, "updates are waited for again"
        await spell.clock.advance(LONGEST_S)
        spell.backoff.succeeded()
    assert spell.alarms == [OTHER_POLLER]
    assert spell.backoff.rival == OTHER_POLLER
    await spell.clock.advance(CALM_S - LONGEST_S)
    spell.backoff.succeeded()
    assert spell.backoff.rival == ""
    assert await spell.suffer(Conflict("Conflict: two")) == [1]


async def test_a_network_that_fails_now_and_then_makes_no_poller_of_single_conflicts() -> None:
    spell = Spell()
    for _ in range(10):
        await spell.suffer(Conflict("Conflict: two"))
        for _ in range(4):
            spell.backoff.succeeded()
            await spell.clock.advance(30)
            await spell.suffer(NetworkDown("cut off"))
        spell.backoff.succeeded()
    assert spell.alarms == []


async def test_another_poller_is_in_trouble_until_it_is_gone(server: Server, tmp_path: Path) -> None:
    async with alone(server, tmp_path) as house:
        await house.until(lambda: server.polls.waiting)
        async with rival(server) as other:
            for n, pause_s in enumerate((1, 2, 4, 8), start=1):
                await house.until(lambda n=n: len(conflicts(house.logged)) == n)
                assert house.channel.health().trouble == ("" if n < LOUD_AFTER else OTHER_POLLER)
                await house.clock.advance(pause_s)
            await house.until(lambda: len(conflicts(house.logged)) == LOUD_AFTER + 1)
            assert house.channel.health().trouble == OTHER_POLLER
            other.leave()
            await house.clock.advance(16)
            await house.until(lambda: other.left)
        await house.until(lambda: server.polls.waiting)
        assert house.channel.health().heard_at == house.clock.now()
        assert house.channel.health().trouble == OTHER_POLLER, "one poll that went well proves nothing"
        await house.clock.advance(CALM_S)
        server.person().say("wakes the poll")
        await house.until(lambda: not house.channel.health().trouble)


async def test_whoever_sets_a_webhook_again_and_again_is_in_trouble_until_it_stops(
    server: Server, tmp_path: Path
) -> None:
    async with alone(server, tmp_path) as house, connect(server) as other:
        for n, pause_s in enumerate((1, 2, 4, 8, 16), start=1):
            await house.until(lambda: server.polls.waiting)
            await other.set_webhook("https://127.0.0.1:1/theirs", SECRET.reveal())
            await house.until(lambda n=n: conflicts(house.logged) == list(range(1, n + 1)))
            assert server.polls.webhook == "", "it is deleted before the pause"
            assert house.channel.health().trouble == ("" if n < LOUD_AFTER else OTHER_HOOK)
            await house.clock.advance(pause_s)
        told = [fields["text"] for event, fields in house.logged if event == "telegram.trouble"]
        assert told == [OTHER_HOOK]
        await house.until(lambda: server.polls.waiting)
        assert house.channel.health().trouble == OTHER_HOOK, "one poll that went well proves nothing"
        await house.clock.advance(CALM_S)
        server.person().say("wakes the poll")
        await house.until(lambda: not house.channel.health().trouble)


async def test_whoever_polls_and_sets_webhooks_is_told_of_once_for_each() -> None:
    spell = Spell()
    for _ in range(4):
        await spell.suffer(Conflict("Conflict: two"), Conflict("Conflict: setWebhook", webhook=True))
        spell.backoff.succeeded()
    assert sorted(spell.alarms) == sorted([OTHER_POLLER, OTHER_HOOK])
    await spell.clock.advance(CALM_S)
    spell.backoff.succeeded()
    assert spell.backoff.rival == ""


async def test_a_poll_that_goes_well_again_is_known_at_once(server: Server, tmp_path: Path) -> None:
    async with alone(server, tmp_path) as house:
        await house.until(lambda: house.channel.health().heard_at)
        storm = server.faults.storm("getUpdates", times=50)
        server.person().say("wakes the poll")
        await house.until(lambda: house.channel.health().trouble, step_s=5.0)
        storm.times = 0
        await house.until(lambda: not house.channel.health().trouble, step_s=5.0)
        assert server.called("getUpdates")[-2].params["timeout"] == 0


# The menu.


async def test_a_menu_that_telegram_does_not_take_now_is_put_up_later(server: Server, tmp_path: Path) -> None:
    server.faults.too_many("setMyCommands", after_s=30)
    server.faults.storm("setMyCommands", times=2)
    async with alone(server, tmp_path, menu=MENU) as house:
        await house.until(lambda: any(event == "telegram.menu_failed" for event, _ in house.logged))
        await house.clock.advance(29.0)
        assert len(server.called("setMyCommands")) == 1
        await house.until(lambda: len(server.world.commands) == 3, step_s=5.0)


async def test_a_menu_that_is_refused_for_good_costs_no_other(server: Server, tmp_path: Path) -> None:
    server.faults.refuse("setMyCommands", 400, "Bad Request: BOT_COMMAND_INVALID")
    async with alone(server, tmp_path, menu=MENU) as house:
        await house.until(lambda: len(server.world.commands) == 2)
        assert len(server.called("setMyCommands")) == 3
