"""Sending: what becomes of a message when Discord refuses it, fails, or does not answer."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from tests.channels.discord.gateway_house import config_for
from tests.channels.discord.line import Line, address_of, open_line
from tests.channels.discord.server.faults import DELETE, EDIT, SEND, TYPE
from tests.channels.discord.server.running import Server

from pilothouse.channels.discord.payload import UPLOAD_BYTES, Progress
from pilothouse.channels.discord.rest import Attempt
from pilothouse.channels.parts import pack
from pilothouse.core.errors import Rejected, TryLater, Unconfirmed
from pilothouse.core.ids import TurnId
from pilothouse.core.message import Content, MessageRef
from pilothouse.runtime.turns.record import Limits
from pilothouse.testing.clock import FakeClock

pytestmark = pytest.mark.anyio


async def test_an_answer_that_is_lost_on_its_way_is_asked_for_again_and_stands_there_once(
    server: Server, tmp_path: Path
) -> None:
    async with open_line(server, tmp_path) as line:
        server.faults.lose_answer(SEND)
        ref = await line.send(server.world.general, "hello")
        assert [str(post.id) for post in server.world.shown(server.world.general)] == [ref.native_id]
        assert len(server.called(SEND)) == 2


async def test_what_may_stand_there_is_unconfirmed_and_what_cannot_is_later(
    server: Server, tmp_path: Path
) -> None:
    async with open_line(server, tmp_path) as line:
        server.faults.lose_answer(SEND, times=10)
        with pytest.raises(Unconfirmed):
            await line.send(server.world.general, "hello")
        server.faults.clear()
        server.faults.too_many(SEND, after_s=45.0)
        with pytest.raises(TryLater) as later:
            await line.send(server.world.general, "hello again")
        assert 40 < later.value.after_s <= 45.0
        asked = len(server.called(SEND))
        with pytest.raises(TryLater):
            await line.send(server.world.general, "and again")
        assert len(server.called(SEND)) == asked
        server.faults.storm(SEND, status=503)
        with pytest.raises(Unconfirmed):
            await line.send(server.world.make_channel("other"), "elsewhere")


async def test_what_may_stand_there_stays_unconfirmed_though_the_repeat_was_surely_not_taken(
    server: Server, tmp_path: Path
) -> None:
    """Else it would come again under another number, and stand there twice without a mark."""
    async with open_line(server, tmp_path) as line:
        server.faults.lose_answer(SEND)
        server.faults.too_many(SEND, after_s=45.0)
        with pytest.raises(Unconfirmed):
            await line.send(server.world.general, "hello")
    assert server.world.texts(server.world.general) == ["hello"]


async def test_a_long_pause_for_all_is_told_and_ends(server: Server, tmp_path: Path) -> None:
    async with open_line(server, tmp_path) as line:
        server.faults.too_many(SEND, after_s=10.5, everywhere=True)
        with pytest.raises(TryLater):
            await line.send(server.world.general, "hello")
        with pytest.raises(TryLater):
            await line.send(server.world.make_channel("other"), "hello")


async def test_a_short_storm_and_a_short_pause_are_waited_out(server: Server, tmp_path: Path) -> None:
    async with open_line(server, tmp_path) as line:
        server.faults.storm(SEND, status=502)
        server.faults.too_many(SEND, after_s=0.05)
        await line.send(server.world.general, "hello")
        assert server.world.texts(server.world.general) == ["hello"]


@pytest.mark.parametrize(
    ("status", "code", "word"),
    [
        (403, 50013, "Send Messages"),
        (403, 50001, "View Channel"),
        (404, 10003, "does not exist"),
        (403, 50007, "does not accept private messages"),
        (400, 50008, "Cannot send"),
    ],
)
async def test_what_discord_will_never_take_is_refused_in_plain_words(
    server: Server, tmp_path: Path, status: int, code: int, word: str
) -> None:
    async with open_line(server, tmp_path) as line:
        server.faults.refuse(SEND, status, code, "Cannot send this", times=3)
        with pytest.raises(Rejected, match=word):
            await line.send(server.world.general, "hello")


async def test_a_channel_that_never_was_is_refused(server: Server, tmp_path: Path) -> None:
    async with open_line(server, tmp_path) as line:
        channel = server.world.make_channel("gone")
        server.world.delete_channel(channel)
        with pytest.raises(Rejected, match="does not exist"):
            await line.send(channel, "hello")


async def test_an_archived_thread_is_opened_for_what_we_say_and_change_there(
    server: Server, tmp_path: Path
) -> None:
    thread = server.person("ada").make_thread("work")
    async with open_line(server, tmp_path) as line:
        server.faults.thread_archived(SEND)
        ref = await line.send(thread, "hello")
        server.world.archive(thread)
        (part,) = line.channel.render(Content("changed"))
        await line.channel.edit(ref, part)
        assert server.world.texts(thread) == ["changed"]
        server.world.archive(thread, locked=True)
        with pytest.raises(Rejected, match="locked"):
            await line.send(thread, "more")


async def test_an_answer_to_a_message_that_is_gone_is_said_all_the_same(
    server: Server, tmp_path: Path
) -> None:
    ada = server.person("ada")
    async with open_line(server, tmp_path) as line:
        asked, gone = ada.say("here"), ada.say("and gone")
        await line.send(server.world.general, "one", reply_to=str(asked.id))
        ada.delete(gone)
        await line.send(server.world.general, "two", reply_to=str(gone.id))
        server.faults.refuse(SEND, 400, 50035, "Invalid Form Body: message_reference: Unknown message")
        await line.send(server.world.general, "three", reply_to=str(asked.id))
        await line.send(server.world.general, "four", reply_to="interaction:1")
        posts = server.world.shown(server.world.general)
        assert [post.text for post in posts] == ["one", "two", "three", "four"]
        assert posts[0].reply_to == asked.id
        assert posts[2].reply_to is None


async def test_a_message_that_cannot_be_changed_any_more_is_a_refusal(server: Server, tmp_path: Path) -> None:
    async with open_line(server, tmp_path) as line:
        ref = await line.send(server.world.general, "hello")
        await line.channel.react(ref, "👍")
        assert server.world.shown(server.world.general)[0].reactions == ["👍"]
        (part,) = line.channel.render(Content("changed"))
        server.faults.too_old_to_edit(after_s=3000.0)
        with pytest.raises(Rejected, match="old message"):
            await line.channel.edit(ref, part)
        server.faults.unknown_message(EDIT)
        with pytest.raises(Rejected, match="does not exist"):
            await line.channel.edit(ref, part)
        server.faults.unknown_message(DELETE)
        await line.channel.delete(ref)
        await line.channel.type(address_of(server.world.general))
        server.faults.missing_permission(TYPE)
        await line.channel.type(address_of(server.world.general))
        with pytest.raises(Rejected):
            await line.channel.edit(MessageRef(ref.address, "draft:1"), part)


async def show(line: Line, ref: MessageRef, text: str) -> None:
    await line.channel.edit(ref, pack(Progress(text=text)))


async def test_of_several_views_that_wait_only_the_newest_is_shown(server: Server, tmp_path: Path) -> None:
    async with open_line(server, tmp_path) as line:
        ref = await line.send(server.world.general, "0")
        held = server.faults.hold(EDIT)
        async with anyio.create_task_group() as tasks:
            for number in range(1, 6):
                tasks.start_soon(show, line, ref, str(number))
                if number == 1:
                    await held.arrived.wait()
                await anyio.wait_all_tasks_blocked()
            held.release()
        (post,) = server.world.shown(server.world.general)
        assert post.texts == ["0", "1", "5"]


async def test_what_stays_comes_after_a_view_that_is_on_its_way(server: Server, tmp_path: Path) -> None:
    async with open_line(server, tmp_path) as line:
        ref = await line.send(server.world.general, "0")
        held = server.faults.hold(EDIT)
        (part,) = line.channel.render(Content("final"))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(show, line, ref, "1")
            await held.arrived.wait()
            tasks.start_soon(show, line, ref, "2")
            await anyio.wait_all_tasks_blocked()
            tasks.start_soon(line.channel.edit, ref, part)
            await anyio.wait_all_tasks_blocked()
            held.release()
        (post,) = server.world.shown(server.world.general)
        assert post.texts[-1] == "final"
        assert "2" not in post.texts


async def test_a_cancelled_view_ends_once_discord_has_it_and_a_waiting_one_at_once(
    server: Server, tmp_path: Path
) -> None:
    async with open_line(server, tmp_path, clock=FakeClock()) as line:
        ref = await line.send(server.world.general, "0")
        held, ended = server.faults.hold(EDIT), list[str]()

        async def edit(text: str) -> None:
            try:
                await show(line, ref, text)
            finally:
                ended.append(text)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(edit, "1")
            await held.arrived.wait()
            tasks.start_soon(edit, "2")
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                await anyio.wait_all_tasks_blocked()
                assert ended == ["2"]
                held.release()
                await line.until(lambda: ended == ["2", "1"])
        (post,) = server.world.shown(server.world.general)
        assert post.texts == ["0", "1"]


async def test_views_leave_room_in_their_bucket_and_no_channel_slows_another(
    server: Server, tmp_path: Path
) -> None:
    server.limits.set(EDIT, 4, 600.0)
    hot, cool = server.world.general, server.world.make_channel("cool")
    async with open_line(server, tmp_path) as line:
        here, there = await line.send(hot, "0"), await line.send(cool, "0")
        for number in range(3):
            await show(line, here, f"v{number}")
        with pytest.raises(TryLater):
            await show(line, here, "too much")
        (part,) = line.channel.render(Content("final"))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(line.channel.edit, here, part)
            await line.until(lambda: server.world.texts(hot) == ["final"])
            tasks.cancel_scope.cancel()  # whoever takes the last of a bucket waits for it inside discord.py
        await show(line, there, "fresh")
        assert server.world.texts(hot) == ["final"]
        assert server.world.texts(cool) == ["fresh"]
        assert server.limits.refused == 0


async def test_an_earlier_try_that_may_have_been_taken_is_remembered_when_the_next_one_never_left() -> None:
    attempt = Attempt()
    attempt.begin()
    attempt.flying, attempt.status = False, 502
    attempt.begin()
    attempt.flying = False
    assert attempt.maybe_done


async def test_an_answer_that_is_a_file_gets_there_although_its_other_files_are_too_much(
    server: Server, tmp_path: Path
) -> None:
    text = "A line.\n\n" * 5000
    async with open_line(server, tmp_path) as line:
        picture = await line.blobs.put(bytes(1000), "a.bin", "application/octet-stream")
        server.faults.refuse(SEND, 413, 40005, "Request entity too large")
        await line.send(server.world.general, text, attachments=(picture,))
        (post,) = server.world.shown(server.world.general)
        assert post.files == ["answer.md"]
        assert server.world.file(post, "answer.md").decode() == text
        assert "a.bin (0 MB) is too large to send here." in post.text


def test_the_longest_answer_that_is_kept_is_a_file_that_discord_takes_anywhere() -> None:
    """Four bytes are the most that a character has; what says that it was cut is the rest."""
    assert Limits().text * 4 + 1000 < UPLOAD_BYTES


async def test_an_answer_that_may_not_take_the_place_of_its_progress_comes_below_it_in_order(
    server: Server, tmp_path: Path
) -> None:
    general, turn = server.world.general, TurnId("t1")
    async with open_line(server, tmp_path, config_for(server, final="edit")) as line:
        shown = await line.channel.send(
            address_of(general), pack(Progress(text="working"), about={"turn_id": turn})
        )
        server.faults.too_old_to_edit(after_s=3000.0)
        parts = line.channel.render(Content("first " * 300 + "second " * 200, "answer", turn_id=turn))
        for part in parts:
            await line.channel.send(address_of(general), part)
        progress, one, two = server.world.shown(general)
        assert (progress.texts, "first" in one.text, "second" in two.text) == (["working"], True, True)
        await line.channel.delete(shown)
        assert progress.deleted
