"""Messages that Discord refuses in their first form, and the form that it accepts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.channels.discord.gateway_house import open_gateway
from tests.channels.discord.line import Line, address_of, open_line
from tests.channels.discord.server.faults import SEND
from tests.channels.discord.server.running import Server
from tests.channels.discord.server.world import Post
from tests.channels.plays import slow
from tests.channels.telegram.receiving_house import KeptBlobs
from tests.runtime.puppet import Strings
from typing_extensions import override

from pilothouse.channels.discord.buttons import stop_row
from pilothouse.channels.discord.payload import Message, Progress
from pilothouse.channels.discord.posts import Poster
from pilothouse.channels.discord.rest import Calls, Upload
from pilothouse.channels.discord.trouble import Trouble
from pilothouse.channels.parts import pack
from pilothouse.core.ask import Ask
from pilothouse.core.errors import Rejected, TryLater, Unconfirmed
from pilothouse.core.ids import AskId, ConversationId, TurnId
from pilothouse.core.message import Content
from pilothouse.runtime.ports import SystemClock

pytestmark = pytest.mark.anyio

LONG = "\n\n".join(f"Paragraph {number}. " + "word " * 90 for number in range(60))
ATTACH = "“Attach Files”"


async def say(line: Line, server: Server, content: Content) -> list[str]:
    """All parts of it; the numbers of the messages that were said to be theirs."""
    here = address_of(server.world.general)
    return [(await line.channel.send(here, part)).native_id for part in line.channel.render(content)]


async def test_where_no_file_may_be_sent_the_words_stand_there_and_its_permission_is_named(
    server: Server, tmp_path: Path
) -> None:
    server.rules.may_attach = False
    async with open_line(server, tmp_path) as line:
        plot = await line.blobs.put(b"\x89PNG\r\n\x1a\n", "plot.png", "image/png")
        (ref,) = await say(line, server, Content("The mean is 42.", "answer", attachments=(plot,)))
        (post,) = server.world.shown(server.world.general)
        assert str(post.id) == ref
        assert post.text.startswith("The mean is 42.\n")
        assert "image-1.png" in post.text
        assert ATTACH in post.text
        assert "Send Messages" not in post.text
        assert post.files == []


async def test_a_long_answer_is_read_in_messages_where_no_file_may_be_sent(
    server: Server, tmp_path: Path
) -> None:
    server.rules.may_attach = False
    async with open_line(server, tmp_path) as line:
        (ref,) = await say(line, server, Content(LONG, "answer"))
        *_, last = posts = server.world.shown(server.world.general)
        assert str(last.id) == ref
        assert len(posts) == 11
        assert all(f"Paragraph {number}." in "".join(post.text for post in posts) for number in range(25))
        assert "too many" in last.text
        assert sum(ATTACH in post.text for post in posts) == 1


async def test_what_is_to_be_approved_is_read_whole_where_no_file_may_be_sent(
    server: Server, tmp_path: Path
) -> None:
    server.rules.may_attach = False
    lines = [f"echo something long, number {number}" for number in range(500)]
    ask = Ask(AskId("a"), "approval", "Run this?\n" + "\n".join(lines), {"command": "x"})
    async with open_line(server, tmp_path) as line:
        exact = await line.blobs.put(b'{"command": "exactly this"}', "a.json", "application/json")
        (ref,) = await say(line, server, Content(ask.title, "ask", ask=ask, attachments=(exact,)))
        *above, last = server.world.shown(server.world.general)
        assert str(last.id) == ref
        assert "Allow once" in last.buttons
        assert ATTACH in last.text
        assert not any(post.buttons for post in above)
        read = "\n".join(post.text for post in above)
        assert all(one in read.splitlines() for one in lines)
        assert '{"command": "exactly this"}' in read


async def test_messages_for_a_file_that_break_off_are_begun_anew_as_a_repeat(
    server: Server, tmp_path: Path
) -> None:
    server.rules.may_attach = False

    async def before(call: object) -> bool:
        shown = len(server.world.shown(server.world.general))
        if shown == 2:
            server.faults.too_many(SEND, after_s=45.0)
            server.rest.before = go_on
        return False

    go_on, server.rest.before = server.rest.before, before
    async with open_line(server, tmp_path) as line:
        with pytest.raises(Unconfirmed):
            await say(line, server, Content(LONG, "answer"))
        assert len(server.world.shown(server.world.general)) < 11


async def test_who_may_not_write_at_all_is_told_that_and_not_of_files(server: Server, tmp_path: Path) -> None:
    async with open_line(server, tmp_path) as line:
        server.faults.missing_permission(SEND, times=10)
        with pytest.raises(Rejected, match="Send Messages"):
            await say(line, server, Content(LONG, "answer"))


async def test_who_may_not_read_the_history_answers_without_a_reply(server: Server, tmp_path: Path) -> None:
    server.rules.may_read_history = False
    asked = server.person("ada").say("first")
    async with open_line(server, tmp_path) as line:
        await say(line, server, Content("It is queued.", "reply", reply_to=str(asked.id)))
        (post,) = server.world.shown(server.world.general)
        assert (post.text, post.reply_to) == ("It is queued.", None)


async def test_words_that_are_refused_are_in_a_file(server: Server, tmp_path: Path) -> None:
    server.rules.blocked_words = ("badword",)
    text = "The plan.\n\nLine with badword."
    async with open_line(server, tmp_path) as line:
        plot = await line.blobs.put(b"\x89PNG\r\n\x1a\n", "plot.png", "image/png")
        (ref,) = await say(line, server, Content(text, "answer", attachments=(plot,)))
        (post,) = server.world.shown(server.world.general)
        assert str(post.id) == ref
        assert post.files == ["message.md", "image-1.png"]
        assert server.world.file(post, "message.md").decode() == text
        assert "automatic moderation" in post.text


async def test_of_what_is_refused_as_a_file_too_people_are_told_without_its_words(
    server: Server, tmp_path: Path
) -> None:
    server.rules.blocked_words, server.rules.may_attach = ("badword",), False
    async with open_line(server, tmp_path) as line:
        with pytest.raises(Rejected, match="automatic moderation") as refused:
            await say(line, server, Content("Line with badword.", "answer"))
        assert server.world.shown(server.world.general) == []
        told = f"A message could not be delivered ({refused.value.reason}): Line with badword."
        await say(line, server, Content(told, "notice"))
        (post,) = server.world.shown(server.world.general)
        assert "automatic moderation" in post.text
        assert "badword" not in post.text


async def test_a_piece_that_is_refused_costs_only_itself_unless_it_is_to_be_approved(
    server: Server, tmp_path: Path
) -> None:
    server.rules.blocked_words, server.rules.may_attach = ("Paragraph 9.",), False
    ask = Ask(AskId("a"), "approval", LONG, {"command": "x"})
    async with open_line(server, tmp_path) as line:
        await say(line, server, Content(LONG, "answer"))
        read = "".join(post.text for post in server.world.shown(server.world.general))
        assert "Paragraph 9." not in read
        assert "automatic moderation" in read
        assert "Paragraph 20." in read
        with pytest.raises(Rejected, match="automatic moderation"):
            await say(line, server, Content(LONG, "ask", ask=ask))
        assert not any(post.buttons for post in server.world.shown(server.world.general))


async def test_a_file_that_waits_is_no_refusal(server: Server, tmp_path: Path) -> None:
    server.rules.blocked_words = ("badword",)
    async with open_line(server, tmp_path) as line:
        server.faults.refuse(SEND, 400, 200000, "Message was blocked by automatic moderation")
        server.faults.too_many(SEND, after_s=45.0)
        with pytest.raises(TryLater):
            await say(line, server, Content("Line with badword.", "notice"))


async def test_progress_whose_words_are_refused_can_be_stopped(server: Server, tmp_path: Path) -> None:
    server.rules.blocked_words = ("badword",)
    stop = (stop_row(TurnId("t1")),)
    here = address_of(server.world.general)
    async with open_line(server, tmp_path) as line:
        ref = await line.channel.send(here, pack(Progress(text="make badword", rows=stop)))
        (post,) = server.world.shown(server.world.general)
        assert "Stop" in post.buttons
        await line.channel.edit(ref, pack(Progress(text="make test", rows=stop)))
        await line.channel.edit(ref, pack(Progress(text="again badword", rows=stop)))
        assert ["make test" in text for text in post.texts] == [False, True, False]
        assert "Stop" in post.buttons


class SlowLine(Calls):
    """Nothing with a file gets through in time, or it does and nobody hears of it."""

    def __init__(self, *, arrives: bool) -> None:
        self.uploaded = 0
        self.said: dict[str, dict[str, Any]] = {}
        self._arrives = arrives

    @override
    async def call(
        self, method: str, path: str, body: Any = None, *, files: Sequence[Upload] = (), **more: Any
    ) -> Any | Trouble:
        if files:
            self.uploaded += 1
        if not files or self._arrives:
            self.said.setdefault(
                body["nonce"],
                {
                    "id": str(len(self.said)),
                    "text": body["content"],
                    "attachments": [one.name for one in files],
                },
            )
        return Trouble("no answer", maybe_done=True, late=True) if files else self.said[body["nonce"]]


async def post_slowly(calls: SlowLine) -> Any:
    blobs = KeptBlobs()
    plot = await blobs.put(b"plot", "plot.bin", "x/y")

    def log(event: str, **fields: object) -> None:
        """Nobody reads it here."""

    poster = Poster(calls, blobs, SystemClock(), lambda _: 1 << 20, log)
    return await poster.post_message(1, Message(text="The mean is 42."), (plot,))


async def test_words_whose_file_is_too_slow_stand_there_without_it() -> None:
    calls = SlowLine(arrives=False)
    found = await post_slowly(calls)
    assert (calls.uploaded, list(calls.said.values())) == (1, [found])
    assert found["text"].startswith("The mean is 42.\n")
    assert "plot.bin" in found["text"]
    assert "too long" in found["text"]


async def test_what_arrived_with_its_file_after_all_stands_there_once() -> None:
    calls = SlowLine(arrives=True)
    found = await post_slowly(calls)
    assert (calls.uploaded, list(calls.said.values())) == (1, [found])
    assert found["attachments"] == ["plot.bin"]


async def test_pictures_that_are_too_much_for_one_request_all_arrive(server: Server, tmp_path: Path) -> None:
    async with open_line(server, tmp_path) as line:
        plots = [await line.blobs.put(bytes([n]) * (9 << 20), f"p{n}.bin", "x/y") for n in range(3)]
        await say(line, server, Content("Three plots.", "answer", attachments=tuple(plots)))
        assert [name for post in server.world.shown(server.world.general) for name in post.files] == [
            "p0.bin",
            "p1.bin",
            "p2.bin",
        ]


async def test_progress_that_is_too_old_to_be_changed_goes_on_in_a_new_message_that_stops_its_turn(
    server: Server, tmp_path: Path
) -> None:
    ada = server.person("ada")

    def shown() -> list[Post]:
        return [post for post in server.world.shown(ada.dm) if "Stop" in post.buttons]

    async with open_gateway(server, tmp_path, {ada: "owner"}, slow) as house:
        ada.say("build it", channel=ada.dm)
        (old,) = await house.until(shown)
        await house.until(lambda: len(old.texts) > 1)
        server.faults.too_old_to_edit(after_s=3000.0)
        await house.until(lambda: old.deleted and shown())
        ada.press(shown()[0], "Stop")
        await house.rig.until_ended(1, ConversationId(f"discord:{ada.dm.id}"))


@pytest.mark.parametrize("what", ["channel", "thread", "private chat"])
async def test_of_an_answer_whose_place_is_gone_somebody_is_told_in_private(
    server: Server, tmp_path: Path, what: str
) -> None:
    ada, eve, go_on = server.person("ada"), server.person("eve"), anyio.Event()

    async def play(strings: Strings) -> None:
        await strings.start()
        if "work" in strings.prompt.text:
            await go_on.wait()
        await strings.end("The result.")

    other = server.world.make_channel("other")
    asks, where = {
        "channel": (ada, other),
        "thread": (ada, ada.make_thread("t", channel=other)),
        "private chat": (eve, eve.dm),
    }[what]
    async with open_gateway(server, tmp_path, {ada: "owner", eve: "member"}, play, play) as house:
        ada.say("hello", channel=ada.dm)
        await house.until_shown(ada.dm, "The result.")
        asks.say(f"<@{server.world.bot_id}> work", channel=where)
        await house.until(lambda: len(house.rig.engine.turns) == 2)
        if what == "private chat":
            server.world.closed_to_bot.add(eve.id)
        else:
            server.world.delete_channel(where)
        go_on.set()
        told = await house.until_shown(ada.dm, "Nothing reaches that place any more")
        assert (
            "does not accept private messages" if what == "private chat" else "does not exist any more"
        ) in told.text
