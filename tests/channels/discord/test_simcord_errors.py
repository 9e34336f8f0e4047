"""What the adapter makes of each of Discord's refusals. Most are simcord's own verdict; what it has no rule for, it is told to say."""

from __future__ import annotations

from pathlib import Path

import discord
import pytest
from simcord.builders import ChannelHandle
from tests.channels.channel_rig import MENU
from tests.channels.discord.inside import Inside, address_of, open_adapter, open_house
from tests.channels.discord.line import Line, open_at

from pilothouse.channels.discord.addresses import DISCORD
from pilothouse.channels.discord.trouble import LONG_S
from pilothouse.core.channel import Receipt
from pilothouse.core.errors import CannotEdit, DeliveryError, Rejected, TryLater, Unconfirmed
from pilothouse.core.message import Address, Content, MessageRef, Part
from pilothouse.testing.desk import ScriptedDesk

pytestmark = pytest.mark.anyio


async def say(line: Line, channel: ChannelHandle, text: str = "hello", reply_to: str = "") -> MessageRef:
    (part,) = line.channel.render(Content(text))
    if reply_to:
        part = Part(part.text, {"payload": {"method": "message", "reply_to": reply_to}})
    return await line.channel.send(address_of(channel), part)


async def refusal(line: Line, channel: ChannelHandle, text: str = "hello") -> DeliveryError:
    with pytest.raises(DeliveryError) as found:
        await say(line, channel, text)
    return found.value


# What simcord refuses.


async def test_where_we_may_not_write_or_look_is_said_with_what_to_do(inside: Inside, tmp_path: Path) -> None:
    everybody = inside.guild.default_role
    bot = next(role for role in inside.guild.roles.values() if role.name == inside.backend.bot_user.name)
    denied = {
        "Send Messages": discord.PermissionOverwrite(send_messages=False),
        "View Channel": discord.PermissionOverwrite(view_channel=False),
    }
    async with open_adapter(inside, tmp_path, ScriptedDesk()) as line:
        for words, overwrite in denied.items():
            channel = inside.guild.create_text_channel(
                words.replace(" ", "-").lower(), overwrites={everybody: overwrite, bot: overwrite}
            )
            error = await refusal(line, channel)
            assert isinstance(error, Rejected)
            assert words in str(error)


async def test_what_is_gone_is_said_once_and_never_tried_again(inside: Inside, tmp_path: Path) -> None:
    other = inside.guild.create_text_channel("other")
    async with open_adapter(inside, tmp_path, ScriptedDesk()) as line:
        ref = await say(line, inside.general)
        (part,) = line.channel.render(Content("changed"))
        inside.backend.delete_message(inside.general.id, int(ref.native_id))
        with pytest.raises(Rejected, match="message does not exist any more"):
            await line.channel.edit(ref, part)
        await line.channel.delete(ref)  # it is gone: that is all that was wanted
        inside.backend.delete_channel(other.id)
        error = await refusal(line, other)
        assert isinstance(error, Rejected)
        assert "channel does not exist any more" in str(error)


async def test_who_takes_no_private_messages_is_said(inside: Inside, tmp_path: Path) -> None:
    other = inside.env.create_user("botty", bot=True)
    async with open_adapter(inside, tmp_path, ScriptedDesk()) as line:
        error = await refusal(line, other.dm_channel)
        assert isinstance(error, Rejected)
        assert "does not accept private messages" in str(error)


async def test_a_body_that_discord_does_not_take_is_a_file(inside: Inside, tmp_path: Path) -> None:
    async with open_adapter(inside, tmp_path, ScriptedDesk()) as line:
        await line.channel.send(address_of(inside.general), Part("x" * 2001))
        (post,) = inside.shown()
        assert [(file.filename, file.size) for file in post.attachments] == [("message.md", 2001)]


async def test_a_reply_to_what_is_gone_is_a_message(inside: Inside, tmp_path: Path) -> None:
    ada = inside.person("ada")
    async with open_adapter(inside, tmp_path, ScriptedDesk()) as line:
        post = await ada.send(inside.general, "hello")
        await ada.delete(post)
        await say(line, inside.general, "still here", str(post.id))
        assert [m.content for m in inside.shown()] == ["still here"]


# What it is told to say.


@pytest.mark.parametrize(
    ("status", "code", "kind", "words"),
    [
        (403, 50013, Rejected, "Send Messages"),
        (403, 50001, Rejected, "View Channel"),
        (403, 50007, Rejected, "does not accept private messages"),
        (403, 160005, Rejected, "locked"),
        (404, 10003, Rejected, "does not exist"),
        (413, 40005, Rejected, "larger"),
        (429, 0, TryLater, "keeps us out"),
        (401, 0, TryLater, "401"),
        (500, 0, Unconfirmed, "500"),
        (503, 0, Unconfirmed, "503"),
    ],
)
async def test_a_send_that_is_refused(
    inside: Inside, tmp_path: Path, status: int, code: int, kind: type[DeliveryError], words: str
) -> None:
    async with open_adapter(inside, tmp_path, ScriptedDesk()) as line:
        inside.env.inject_error("POST", "/channels/*/messages", status=status, code=code)
        error = await refusal(line, inside.general)
        assert type(error) is kind
        assert words in str(error)
        if isinstance(error, TryLater):
            assert error.after_s == LONG_S
        await say(line, inside.general, "and the next one is sent")
        assert [m.content for m in inside.shown()] == ["and the next one is sent"]


@pytest.mark.parametrize(
    ("status", "code", "kind", "words"),
    [
        (429, 30046, CannotEdit, "old message"),
        (403, 50005, Rejected, "answered 403"),
        (404, 10008, Rejected, "does not exist"),
        (500, 0, TryLater, "500"),
    ],
)
async def test_an_edit_that_is_refused(
    inside: Inside, tmp_path: Path, status: int, code: int, kind: type[DeliveryError], words: str
) -> None:
    async with open_adapter(inside, tmp_path, ScriptedDesk()) as line:
        ref = await say(line, inside.general)
        (part,) = line.channel.render(Content("changed"))
        inside.env.inject_error("PATCH", "/channels/*/messages/*", status=status, code=code)
        with pytest.raises(DeliveryError, match=words) as found:
            await line.channel.edit(ref, part)
        assert type(found.value) is kind
        await line.channel.edit(ref, part)
        assert [m.content for m in inside.shown()] == ["changed"]


async def test_a_reply_that_is_refused_is_sent_as_none(inside: Inside, tmp_path: Path) -> None:
    ada = inside.person("ada")
    async with open_adapter(inside, tmp_path, ScriptedDesk()) as line:
        post = await ada.send(inside.general, "hello")
        inside.env.inject_error(
            "POST",
            "/channels/*/messages",
            status=400,
            code=50035,
            message="Invalid Form Body\nIn message_reference: Unknown message",
        )
        await say(line, inside.general, "good day", str(post.id))
        await say(line, inside.general, "and again", str(post.id))
        first, second = inside.shown()
        assert (first.content, first.reference) == ("good day", None)
        assert second.reference is not None
        assert second.reference.message_id == post.id


@pytest.mark.parametrize("what", ["send", "edit"])
async def test_an_archived_thread_is_opened_and_written_to(inside: Inside, tmp_path: Path, what: str) -> None:
    ada = inside.person("ada")
    made = inside.backend.create_thread(inside.general.id, "work", ada.id)
    (thread,) = inside.general.threads
    async with open_adapter(inside, tmp_path, ScriptedDesk()) as line:
        (part,) = line.channel.render(Content("changed"))
        address = Address(DISCORD, str(inside.general.id), str(thread.id))
        ref = await line.channel.send(address, part)
        inside.backend.edit_channel(made.id, {}, thread_metadata={"archived": True})
        if what == "send":
            inside.env.inject_error("POST", f"/channels/{thread.id}/messages", status=400, code=50083)
            await line.channel.send(address, part)
        else:
            inside.env.inject_error("PATCH", f"/channels/{thread.id}/messages/*", status=400, code=50083)
            await line.channel.edit(ref, part)
        assert made.thread_metadata is not None
        assert not made.thread_metadata.archived
        assert len(inside.shown(thread)) == (2 if what == "send" else 1)


@pytest.mark.parametrize(
    ("status", "code"),
    [(404, 10062), (400, 40060), (404, 10015), (401, 50027), (500, 0)],
)
async def test_an_interaction_that_cannot_be_answered_any_more_costs_only_its_own_words(
    inside: Inside, tmp_path: Path, status: int, code: int
) -> None:
    ada = inside.person("ada")
    async with open_house(inside, tmp_path, {ada: "owner"}) as house:
        for method, path in (("POST", "/interactions/*"), ("*", "/webhooks/*")):
            inside.env.inject_error(method, path, status=status, code=code, times=None)
        await ada.slash(inside.general, "ask", text="what is up?")
        answer = await house.until_shown("you said:")
        assert answer.interaction_metadata is None
        told = await house.until(lambda: len(house.told("discord.interaction_unanswered")) == 2)
        assert told
        assert len(house.rig.engine.turns) == 1


@pytest.mark.parametrize(("status", "code"), [(404, 10015), (401, 50027)])
async def test_what_a_dead_token_cannot_say_is_said_by_a_message(
    inside: Inside, tmp_path: Path, status: int, code: int
) -> None:
    ada = inside.person("ada")
    desk = ScriptedDesk()
    desk.receipts.append(Receipt("queued", text="Three others wait before you."))
    async with open_adapter(inside, tmp_path, desk) as line:
        inside.env.inject_error("PATCH", "/webhooks/*", status=status, code=code)
        await ada.slash(inside.general, "ask", text="*what* is up?")
        said = "Ada asked:\n> *what* is up?\nThree others wait before you."
        await line.until(lambda: said in [m.content for m in inside.shown()])


async def test_an_interaction_that_cannot_be_read_is_told_and_holds_up_nothing(
    inside: Inside, tmp_path: Path
) -> None:
    ada = inside.person("ada")
    async with open_at(inside.make, tmp_path, menu=MENU) as line:
        await line.until(lambda: inside.connected)
        odd = {
            "id": "5",
            "token": "secret",
            "type": 2,
            "guild_id": str(inside.guild.id),
            "data": {"options": 5},
        }
        read_by_the_library = {"version": 1, "application_id": "7", "attachment_size_limit": 1}
        inside.backend.emit("INTERACTION_CREATE", {**odd, **read_by_the_library})
        await line.until(lambda: line.told("discord.interaction_unreadable"))
        assert "secret" not in str(line.logged)
        await ada.send(inside.general, f"<@{inside.backend.bot_user.id}> hello")
        await line.until(lambda: line.texts == ["hello"])
        await line.rest()
