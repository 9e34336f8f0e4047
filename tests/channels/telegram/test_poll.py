"""Nothing that people send is lost or doubled, although the network, the store or the process fails."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from tests.channels.telegram.conftest import connect
from tests.channels.telegram.receiving_house import House, Moody, Slow, Strict, make_house
from tests.channels.telegram.rival import conflicts, rival
from tests.channels.telegram.server.running import Server

from pilothouse.channels.intake_queue import NOT_TAKEN
from pilothouse.channels.telegram.client import CALM_S, LOUD_AFTER
from pilothouse.channels.telegram.pieces import QUIET_S
from pilothouse.channels.telegram.receive import Happening, Pressed
from pilothouse.channels.telegram.receiver import Poller
from pilothouse.channels.telegram.updates import AT_ONCE
from pilothouse.core.channel import Receipt
from pilothouse.core.errors import StoreError, StoreUnavailable
from pilothouse.testing.clock import FakeClock


@asynccontextmanager
async def polling(house: House) -> AsyncIterator[Poller]:
    async with connect(house.server) as client, anyio.create_task_group() as tasks:
        poller = await house.poller(client)
        tasks.start_soon(poller.run)
        yield poller
        tasks.cancel_scope.cancel()


@pytest.fixture
def house(server: Server, tmp_path: Path) -> House:
    return make_house(server, tmp_path)


async def test_what_was_sent_while_we_were_away_is_taken_in_order_and_confirmed(
    house: House, server: Server
) -> None:
    ada, bob = server.person(), server.person("Bob")
    for n in range(3):
        ada.say(f"ada {n}")
        bob.say(f"bob {n}")
    async with polling(house):
        await house.until(lambda: not server.world.pending)
    assert [text for text in house.texts if "ada" in text] == ["ada 0", "ada 1", "ada 2"]
    assert len(house.texts) == 6
    assert house.told == []


async def test_an_update_is_confirmed_only_after_the_desk_has_it_or_the_disk(
    house: House, server: Server
) -> None:
    ada = server.person()
    house.desk = slow = Slow("keep me")
    async with polling(house):
        await house.until(lambda: server.polls.waiting)
        ada.say("keep me")
        await house.until(slow.came.is_set)
        assert (len(server.world.pending), house.kept) == (1, []), "it was neither taken nor kept yet"
        number = server.world.pending[0]["update_id"]
        await house.until(lambda: not server.world.pending, step_s=0.25)
        assert (house.kept, house.texts) == ([number], [])
    async with polling(house):
        slow.go_on.set()
        await house.until(lambda: house.texts == ["keep me"])
        await house.until(lambda: not house.kept)


async def test_while_the_disk_takes_nothing_telegram_keeps_it(house: House, server: Server) -> None:
    ada = server.person()
    house.desk = slow = Slow("keep me")
    (house.folder / "full").write_text("")
    house.folder = house.folder / "full" / "telegram"
    async with polling(house):
        ada.say("keep me")
        await house.until(
            lambda: any(event == "telegram.journal_not_written" for event, _ in house.logged), step_s=0.25
        )
        assert len(server.world.pending) == 1
        slow.go_on.set()
        await house.until(lambda: not server.world.pending, step_s=0.25)
    assert house.texts == ["keep me"]


async def test_while_the_disk_takes_nothing_others_are_heard(house: House, server: Server) -> None:
    ada, bob = server.person(), server.person("Bob")
    house.desk = slow = Slow("keep me")
    (house.folder / "full").write_text("")
    house.folder = house.folder / "full" / "telegram"
    async with polling(house):
        ada.say("keep me")
        await house.until(slow.came.is_set)
        bob.say("hello")
        await house.until(lambda: house.texts == ["hello"], step_s=0.25)
        assert len(server.world.pending) == 2
        slow.go_on.set()
        await house.until(lambda: not server.world.pending, step_s=0.25)


async def test_a_stop_confirms_what_was_taken_and_asks_for_nothing_else(house: House, server: Server) -> None:
    ada = server.person()
    async with polling(house):
        await house.until(lambda: server.polls.waiting)
        server.faults.drop("getUpdates")
        ada.say("by the poll that hung")
        await house.until(lambda: any(event == "telegram.poll_failed" for event, _ in house.logged))
        assert (len(house.texts), len(server.world.pending)) == (1, 1)
    assert server.world.pending == []
    ada.say("by the next")
    async with polling(house):
        await house.until(lambda: server.polls.waiting and not server.world.pending)
        polls = len(server.called("getUpdates"))
    assert len(server.called("getUpdates")) == polls, "Telegram would keep us waiting"


async def test_a_restart_before_the_confirmation_is_a_duplicate_and_not_a_second_message(
    house: House, server: Server
) -> None:
    ada = server.person()
    ada.say("once")
    update = server.world.pending[0]
    async with polling(house):
        await house.until(lambda: not server.world.pending)
    server.world.repeat(update)
    async with polling(house):
        await house.until(lambda: not server.world.pending)
    assert {message.native_id for message in house.desk.accepted} == {house.desk.accepted[0].native_id}
    assert house.told == []


async def test_repeated_and_reordered_updates_are_taken_once_and_in_order(
    house: House, server: Server
) -> None:
    ada = server.person()
    ada.say("one")
    ada.say("two")
    first = server.world.pending[0]
    server.world.reverse()
    async with polling(house):
        await house.until(lambda: len(house.texts) == 2)
        server.world.repeat(first)
        await house.until(lambda: not server.world.pending)
        ada.say("three")
        await house.until(lambda: len(house.texts) >= 3)
    assert house.texts == ["one", "two", "three"]


async def test_an_album_and_a_paste_are_one_message_each_and_others_do_not_wait(
    house: House, server: Server
) -> None:
    ada, bob = server.person(), server.person("Bob")
    async with polling(house):
        await house.until(lambda: server.polls.waiting)
        ada.album([b"one", b"two"], "compare")
        bob.say("meanwhile")
        await house.until(lambda: house.texts == ["meanwhile"])
        await house.until(lambda: len(house.texts) == 2, step_s=0.25)
        text = "\n".join(f"line {n}" for n in range(900))
        bob.paste(text)
        await house.until(lambda: len(house.texts) == 3, step_s=0.25)
    album = house.desk.accepted[1]
    assert album.text == "compare"
    assert [await house.blobs.get(file.blob) for file in album.attachments] == [b"one", b"two"]
    assert house.texts[2] == text


async def test_an_album_waits_for_its_pieces_and_not_for_a_poll_that_hangs(
    house: House, server: Server
) -> None:
    ada = server.person()
    async with polling(house):
        await house.until(lambda: server.polls.waiting)
        ada.album([b"one", b"two"], "compare")
        await house.until(lambda: len(house.kept) == 2)
        await house.until(lambda: server.polls.waiting and not server.world.pending)
        polls = len(server.called("getUpdates"))
        await house.clock.advance(QUIET_S)
        await house.until(lambda: house.texts == ["compare"])
        assert len(server.called("getUpdates")) == polls, "a second poll would end the one that hangs"


async def test_a_kill_while_an_album_waits_for_its_pieces_loses_nothing(house: House, server: Server) -> None:
    ada = server.person()
    ada.album([b"one", b"two"], "compare")
    async with polling(house):
        await house.until(lambda: server.called("getUpdates"))
        await house.clock.advance(0.5)
    assert house.texts == []
    async with polling(house):
        await house.until(lambda: house.texts == ["compare"], step_s=0.25)
        await house.until(lambda: not server.world.pending and not house.kept, step_s=0.25)


async def test_a_file_that_cannot_be_fetched_is_named_with_the_reason(house: House, server: Server) -> None:
    ada = server.person()
    async with polling(house):
        await house.until(lambda: server.polls.waiting)
        ada.document("film.mkv", bytes((20 << 20) + 1), "watch this")
        await house.until(lambda: house.texts)
        server.faults.storm("download", times=2)
        ada.document("notes.txt", b"later")
        await house.until(lambda: len(house.texts) == 2, step_s=1.0)
    assert house.texts[0] == "watch this"
    assert house.desk.accepted[0].file_text.startswith("[film.mkv could not be downloaded: ")
    assert [file.name for file in house.desk.accepted[1].attachments] == ["notes.txt"]


async def test_a_slow_download_holds_up_its_own_conversation_alone(house: House, server: Server) -> None:
    ada, bob = server.person(), server.person("Bob")
    slow = server.faults.hold("download")
    async with polling(house):
        await house.until(lambda: server.polls.waiting)
        ada.document("big.bin", b"x", "first")
        ada.say("second")
        await house.until(slow.arrived.is_set)
        bob.say("hello")
        await house.until(lambda: house.texts == ["hello"], step_s=0.25)
        slow.release()
        await house.until(lambda: len(house.texts) == 3, step_s=0.25)
    assert house.texts == ["hello", "first", "second"]


async def test_presses_whose_buttons_wait_hold_up_nobody(house: House, server: Server) -> None:
    ada, bob = server.person(), server.person("Bob")
    stale = server.world.post(
        ada.chat,
        server.world.bot,
        text="working",
        reply_markup={"inline_keyboard": [[{"text": "Stop", "callback_data": "s|t"}]]},
    )
    house.others_wait_for = anyio.Event()
    async with polling(house):
        for _ in range(AT_ONCE + 1):
            ada.press(stale, "Stop")
        await house.until(lambda: len(house.others) > AT_ONCE)
        bob.say("and me?")
        await house.until(lambda: house.texts == ["and me?"], step_s=0.25)
        house.others_wait_for.set()


async def test_files_that_hang_hold_up_no_other_chat(house: House, server: Server) -> None:
    """More of them than one answer of Telegram's brings, or than are fetched at once."""
    people, bob = [server.person() for _ in range(40)], server.person("Bob")
    slow = server.faults.hold("download", times=40)
    async with polling(house):
        for one in people:
            one.document("big.bin", b"x", "mine")
        numbers = {update["update_id"] for update in server.world.pending}
        await house.until(slow.arrived.is_set)
        said = [f"bob {n}" for n in range(80)]
        for text in said:
            bob.say(text)
        await house.until(lambda: house.texts == said, step_s=0.25)
        await house.until(lambda: not server.world.pending, step_s=0.25)
        assert numbers <= set(house.kept)
        slow.release()
        await house.until(lambda: house.texts == [*said, *["mine"] * 40], step_s=0.25)
        await house.until(lambda: not house.kept)


async def test_a_kill_during_a_download_loses_nothing_and_keeps_the_order(
    house: House, server: Server
) -> None:
    ada = server.person()
    slow = server.faults.hold("download")
    async with polling(house):
        ada.document("big.bin", b"x", "first")
        ada.say("second")
        await house.until(slow.arrived.is_set)
        await house.until(lambda: not server.world.pending, step_s=0.25)
    assert house.texts == []
    ada.say("third")
    async with polling(house):
        await house.until(lambda: len(house.texts) == 3, step_s=0.25)
        await house.until(lambda: not house.kept)
    assert house.texts == ["first", "second", "third"]
    assert [await house.blobs.get(file.blob) for file in house.desk.accepted[0].attachments] == [b"x"]


async def test_what_acts_on_what_runs_passes_a_file_that_is_still_fetched(
    house: House, server: Server
) -> None:
    ada = server.person()
    slow = server.faults.hold("download")
    async with polling(house):
        ada.document("big.bin", b"x", "first")
        ada.say("second")
        ada.say("/cancel 3")
        ada.say("/new")
        ada.say("/stop", forwarded_from=ada)
        await house.until(slow.arrived.is_set)
        await house.until(lambda: house.texts == ["/cancel 3"], step_s=0.25)
        ada.say("/stop@pilot_test_bot")
        ada.say("/queue")
        await house.until(lambda: house.texts == ["/cancel 3", "/stop", "/queue"], step_s=0.25)
        slow.release()
        await house.until(lambda: len(house.texts) == 7, step_s=0.25)
    assert house.texts[3:] == ["first", "second", "/new", "[forwarded from Ada]\n/stop"]


async def test_a_stop_does_not_pass_what_is_about_to_start(house: House, server: Server) -> None:
    ada = server.person()
    house.desk = slow = Slow("build it")
    async with polling(house):
        ada.say("build it")
        ada.say("/stop")
        await house.until(slow.came.is_set)
        await house.until(lambda: not server.world.pending, step_s=0.25)
        assert house.texts == []
        slow.go_on.set()
        await house.until(lambda: house.texts == ["build it", "/stop"])


async def test_whoever_may_not_talk_to_us_costs_no_download(house: House, server: Server) -> None:
    mallory = server.person("Mallory")

    house.desk = Strict()
    house.desk.receipts = [Receipt("refused", text="You are not on the list.")]
    async with polling(house):
        mallory.document("bomb.zip", b"x" * 1000, "open me")
        await house.until(lambda: not server.world.pending)
    assert house.told == ["You are not on the list."]
    assert server.called("getFile") == []


async def test_whoever_sends_what_we_cannot_read_is_told_and_a_stranger_hears_what_strangers_hear(
    house: House, server: Server
) -> None:
    ada = server.person()
    story = {"story": {"chat": ada.chat.as_json(), "id": 1}}
    async with polling(house):
        ada.send(story)
        await house.until(lambda: not server.world.pending)
        assert (len(house.told), house.texts) == (1, [])
        assert "(story)" in house.told[0]
    house.desk = Strict()
    house.desk.receipts = [Receipt("refused", text="You are not on the list.")]
    async with polling(house):
        ada.send(story)
        await house.until(lambda: not server.world.pending)
    assert house.told[1:] == ["You are not on the list."]


async def test_a_store_that_is_locked_is_waited_for(house: House, server: Server) -> None:
    ada = server.person()
    house.desk = Moody({"patience": [StoreUnavailable("The disk is full.")] * 2})
    async with polling(house):
        ada.say("patience")
        await house.until(lambda: house.texts == ["patience"], step_s=0.5)


@pytest.mark.parametrize("error", [ZeroDivisionError("oh"), StoreError("oh")])
async def test_one_message_that_breaks_us_costs_no_other_and_is_not_lost_itself(
    house: House, server: Server, error: Exception
) -> None:
    ada = server.person()
    house.desk = Moody({"poison": [error]})
    async with polling(house):
        ada.say("poison")
        number = server.world.pending[0]["update_id"]
        ada.say("cure")
        await house.until(lambda: not server.world.pending)
    assert (house.texts, house.failed) == (["cure"], [number])
    assert len(house.told) == 1
    assert "could not be taken" in house.told[0]
    (failed,) = [fields for event, fields in house.logged if event == "telegram.update_failed"]
    assert failed["error"] is error
    assert failed["kept_in"] == str(house.folder / "failed-updates.jsonl")


class Clumsy(House):
    # pyrefly: ignore [missing-override-decorator]
    async def other(self, happening: Happening) -> None:
        raise ZeroDivisionError("oh")


async def test_whoever_presses_what_breaks_us_is_told_so(server: Server, tmp_path: Path) -> None:
    house = Clumsy(server, FakeClock(), tmp_path)
    ada = server.person()
    query = ada.forge(ada.say("hello"), "x")
    async with polling(house):
        await house.until(lambda: not server.world.pending)
    assert query.answer is not None
    assert query.answer["text"] == NOT_TAKEN
    assert len(house.failed) == 1


async def test_a_stranger_whose_message_breaks_us_hears_nothing_of_it(house: House, server: Server) -> None:
    mallory = server.person("Mallory")
    house.desk = Strict()
    house.desk.failures = {"poison": [ZeroDivisionError("oh")]}
    async with polling(house):
        mallory.say("poison")
        await house.until(lambda: not server.world.pending)
    assert (len(house.failed), house.told) == (1, [])


async def test_old_messages_are_taken_with_one_word_about_it(house: House, server: Server) -> None:
    ada = server.person()
    server.world.now = lambda: 1_800_000_000.0 - 3 * 3600
    ada.say("old one")
    ada.say("old two")
    async with polling(house):
        await house.until(lambda: not server.world.pending)
        assert house.told == ["You sent this 3 hours ago, while I was away. I am working on it now."]
    assert house.texts == ["old one", "old two"]


async def test_another_poller_is_borne_with_for_a_while_and_then_said_aloud(
    house: House, server: Server
) -> None:
    ada = server.person()
    words = "Conflict: terminated by other getUpdates request"
    server.faults.refuse("getUpdates", 409, words, times=3)
    async with polling(house):
        await house.until(lambda: server.polls.waiting, step_s=1.0)
        assert house.alarms == []
        server.faults.refuse("getUpdates", 409, words, times=6)
        ada.say("by the poll that hung")
        await house.until(lambda: house.alarms, step_s=1.0)
        ada.say("made it")
        await house.until(lambda: house.texts[1:] == ["made it"], step_s=5.0)
    assert len(house.alarms) == 1
    assert "a bot of its own" in house.alarms[0]


async def test_a_second_poller_is_noticed_although_polls_go_well_in_between(
    house: House, server: Server
) -> None:
    ada = server.person()
    async with polling(house):
        await house.until(lambda: server.polls.waiting)
        async with rival(server) as other:
            for n, pause_s in enumerate((1, 2, 4, 8, 16), start=1):
                await house.until(lambda n=n: conflicts(house.logged) == list(range(1, n + 1)))
                assert len(house.alarms) == (n >= LOUD_AFTER)
                await house.clock.advance(pause_s)
            await house.until(lambda: len(conflicts(house.logged)) == 6)
            other.leave()
            await house.clock.advance(32)
            await house.until(lambda: other.left)
        assert len(house.alarms) == 1
        assert "a bot of its own" in house.alarms[0]
        await house.until(lambda: server.polls.waiting)
        assert "telegram.poll_recovered" not in [event for event, _ in house.logged]
        await house.clock.advance(CALM_S)
        ada.say("alone again")
        await house.until(lambda: house.texts == ["alone again"])
        assert "telegram.poll_recovered" in [event for event, _ in house.logged]


async def test_a_poll_that_a_restart_ends_is_no_trouble(house: House, server: Server) -> None:
    ada = server.person()
    async with polling(house):
        await house.until(lambda: server.polls.waiting)
        async with rival(server):
            await house.until(lambda: conflicts(house.logged) == [1])
        ada.say("to whoever is there")
        await house.until(lambda: house.texts == ["to whoever is there"], step_s=0.5)
    assert house.alarms == []


async def test_a_webhook_that_somebody_left_is_deleted_and_nothing_is_dropped(
    house: House, server: Server
) -> None:
    ada = server.person()
    server.polls.webhook = "https://127.0.0.1:1/gone"
    ada.say("still here")
    async with polling(house):
        await house.until(lambda: house.texts == ["still here"], step_s=0.5)
    assert server.polls.webhook == ""
    assert house.alarms == []


async def test_a_webhook_that_cannot_be_deleted_is_nobodys_but_telegrams_trouble(
    house: House, server: Server
) -> None:
    ada = server.person()
    server.polls.webhook = "https://127.0.0.1:1/gone"
    storm = server.faults.storm("deleteWebhook", times=50)
    ada.say("still here")
    async with polling(house):
        await house.until(lambda: house.alarms, step_s=5.0)
        storm.times = 0
        await house.until(lambda: house.texts == ["still here"], step_s=5.0)
    assert len(house.alarms) == 1
    assert "could not be reached" in house.alarms[0]


async def test_a_refused_token_is_said_once_and_not_hammered(house: House, server: Server) -> None:
    async with polling(house):
        await house.until(lambda: server.polls.waiting)
        server.token = "1:revoked"
        server.person().say("wake")
        await house.until(lambda: house.alarms)
        before = len(server.called("getUpdates"))
        for _ in range(4):
            await house.clock.advance(10)
            await anyio.sleep(0.01)
        assert len(server.called("getUpdates")) == before
    assert len(house.alarms) == 1
    assert "@BotFather" in house.alarms[0]


async def test_a_network_that_is_down_is_waited_for_and_told_when_it_lasts(
    house: House, server: Server
) -> None:
    ada = server.person()
    async with polling(house) as poller:
        await house.until(lambda: server.polls.waiting)
        server.faults.drop("getUpdates", times=9)
        ada.say("by the poll that hung")
        await house.until(lambda: house.alarms, step_s=5.0)
        told_at = house.clock.monotonic()
        ada.say("through the storm")
        await house.until(lambda: house.texts[1:] == ["through the storm"], step_s=10.0)
        assert poller.succeeded_at is not None
        assert poller.succeeded_at >= told_at
    assert len(house.alarms) == 1
    assert "could not be reached" in house.alarms[0]
    assert "telegram.poll_recovered" in [event for event, _ in house.logged]


async def test_a_flood_is_waited_out_exactly(house: House, server: Server) -> None:
    async with polling(house):
        await house.until(lambda: server.polls.waiting)
        server.faults.too_many("getUpdates", after_s=30)
        server.person().say("hi")
        await house.until(lambda: any(event == "telegram.poll_failed" for event, _ in house.logged))
        before = len(server.called("getUpdates"))
        await house.clock.advance(29)
        assert len(server.called("getUpdates")) == before
        await house.clock.advance(1)
        await house.until(lambda: house.texts == ["hi"])


async def test_presses_edits_and_a_queue_are_passed_on_and_told(house: House, server: Server) -> None:
    ada = server.person()
    post = ada.say("fix")
    house.desk.receipts = [Receipt("queued", None, "Queued, number 2 in line.")]
    async with polling(house):
        await house.until(lambda: house.told == ["Queued, number 2 in line."])
        ada.edit(post, "fix it")
        ada.forge(post, "k")
        await house.until(lambda: house.others and house.desk.edits)
    assert house.desk.edits[0].text == "fix it"
    assert isinstance(house.others[0], Pressed)


async def test_strangers_who_talk_among_themselves_are_not_bothered(house: House, server: Server) -> None:
    ada, bob = server.person(), server.person("Bob")
    group = ada.make_group("Lab", bob)
    house.desk.receipts = [Receipt("refused", text="You are not on the list.")] * 3
    async with polling(house):
        post = bob.say("just talking", chat=group)
        bob.edit(post, "just talking to Ada")
        bob.say("hey @pilot_test_bot", chat=group)
        await house.until(lambda: not server.world.pending)
    assert house.told == ["You are not on the list."]
    assert house.texts == ["just talking", "just talking to Ada", "hey @pilot_test_bot"]
