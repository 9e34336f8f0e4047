"""Slash commands, what is suggested while one types, and the context menu, behind a whole gateway."""

from __future__ import annotations

import re
from pathlib import Path

import anyio
import pytest
from tests.channels.channel_rig import MENU
from tests.channels.discord.gateway_house import config_for, open_gateway
from tests.channels.discord.line import open_line
from tests.channels.discord.server.cdn import File
from tests.channels.discord.server.faults import COMMANDS, DELETE_ANSWER
from tests.channels.discord.server.people import Person
from tests.channels.discord.server.running import Server
from tests.runtime.puppet import until_interrupted

from pilothouse.channels.discord.config import Rules
from pilothouse.core.channel import Receipt, ReceiptState
from pilothouse.core.errors import ConfigError
from pilothouse.core.ids import ConversationId, MessageId
from pilothouse.core.people import Role
from pilothouse.testing.clock import FakeClock
from pilothouse.testing.desk import Command, ScriptedDesk

pytestmark = pytest.mark.anyio


async def test_commands_are_registered_once_in_each_server_and_again_when_they_change(
    server: Server, tmp_path: Path
) -> None:
    server.world.make_guild("Second")
    async with open_line(server, tmp_path, menu=MENU) as line:
        await line.until(lambda: len(line.told("discord.commands_registered")) == 2)
        names = {shape["name"] for shape in server.called(COMMANDS)[0].body}
        assert {"ask", "status", "stop", "Ask about this"} <= names
    async with open_line(server, tmp_path, menu=MENU) as line:
        await line.until(lambda: line.channel.health().heard_at)
        ada = server.person("ada")
        ada.say("hello")
        await line.until(lambda: line.texts)
    assert len(server.called(COMMANDS)) == 2
    async with open_line(server, tmp_path, menu=MENU[:3]) as line:
        await line.until(lambda: len(line.told("discord.commands_registered")) == 2)


async def test_commands_are_registered_again_when_we_were_thrown_out_and_invited_again(
    server: Server, tmp_path: Path
) -> None:
    async with open_line(server, tmp_path, menu=MENU) as line:
        await line.until(lambda: len(line.told("discord.commands_registered")) == 1)
        server.world.throw_out_and_invite_again(server.world.guild)
        await line.until(lambda: len(line.told("discord.commands_registered")) == 2)
    server.world.throw_out_and_invite_again(server.world.guild)
    async with open_line(server, tmp_path, menu=MENU) as line:
        await line.until(lambda: len(line.told("discord.commands_registered")) == 1)
    assert len(server.called(COMMANDS)) == 3


async def test_a_question_by_slash_command_stands_there_and_is_answered_by_a_message(
    server: Server, tmp_path: Path
) -> None:
    ada, eve = server.person("ada"), server.person("eve")
    async with open_gateway(server, tmp_path, {ada: "owner"}, menu=MENU) as house:
        await house.until(lambda: server.called(COMMANDS))
        asked = ada.command("ask", text="what is up?")
        await house.until_shown(server.world.general, "you said:")
        await house.until(lambda: "> what is up?" in asked.text)
        assert not asked.ephemeral
        refused = eve.command("ask", text="let me in")
        await house.until(lambda: refused.text)
        assert refused.ephemeral
        assert len(house.rig.engine.turns) == 1


async def test_a_command_is_answered_by_a_message_and_leaves_no_trace_of_its_own(
    server: Server, tmp_path: Path
) -> None:
    ada = server.person("ada")
    async with open_gateway(server, tmp_path, {ada: "owner"}, until_interrupted, menu=MENU) as house:
        await house.until(lambda: server.called(COMMANDS))
        done = ada.command("status")
        await house.until_shown(server.world.general, "Folder:")
        assert done.ephemeral
        ada.command("ask", text="work")
        await house.rig.until_live(ConversationId(f"discord:{server.world.general.id}"), "running")
        ada.command("stop")
        await house.until_shown(server.world.general, "Stopping.")


@pytest.mark.parametrize(
    ("receipt", "told"),
    [
        (Receipt("refused"), "You may not talk to me here."),
        (Receipt("refused", text="Slower, please."), "Slower, please."),
        (Receipt("refused", MessageId("msg-1")), ""),
    ],
    ids=["a stranger", "too fast", "taken back by a stop"],
)
async def test_only_whoever_is_not_let_in_reads_that_they_may_not_talk(
    server: Server, tmp_path: Path, receipt: Receipt, told: str
) -> None:
    """What was taken in and not begun has a message of its own that says so."""
    ada, desk = server.person("ada"), ScriptedDesk()
    async with open_line(server, tmp_path, menu=MENU, desk=desk) as line:
        await line.until(lambda: line.told("discord.commands_registered"))
        desk.receipts.append(receipt)
        asked = ada.command("new")
        await line.until(lambda: asked.text or server.called(DELETE_ANSWER))
        assert asked.text.startswith(told) and bool(asked.text) == bool(told)


async def test_a_deferred_answer_that_came_too_late_still_does_what_was_asked(
    server: Server, tmp_path: Path
) -> None:
    ada = server.person("ada")
    async with open_gateway(server, tmp_path, {ada: "owner"}, menu=MENU) as house:
        await house.until(lambda: server.called(COMMANDS))
        server.faults.late()
        ada.command("status")
        await house.until_shown(server.world.general, "Folder:")


@pytest.mark.parametrize("in_time", [True, False])
async def test_a_long_question_that_waits_is_cut_and_not_the_word_that_it_waits(
    server: Server, tmp_path: Path, in_time: bool
) -> None:
    ada, general = server.person("ada"), server.world.general
    async with open_gateway(server, tmp_path, {ada: "owner"}, until_interrupted, menu=MENU) as house:
        await house.until(lambda: server.called(COMMANDS))
        ada.say(f"<@{server.world.bot_id}> first")
        await house.rig.until_live(ConversationId(f"discord:{general.id}"), "running")
        if not in_time:
            server.faults.late()
        asked = ada.command("ask", text="long question " * 200)
        said = (lambda: asked.text) if in_time else (lambda: "\n".join(server.world.texts(general)))
        await house.until(lambda: "long question" in said() and "still busy" in said())


async def test_a_command_that_breaks_is_answered(server: Server, tmp_path: Path) -> None:
    ada, desk = server.person("ada"), ScriptedDesk()

    def break_down(command: Command) -> None:
        raise ValueError("broken") if command.line == "/status" else ConfigError("There is no such thing.")

    desk.on_command = break_down
    async with open_line(server, tmp_path, menu=MENU, desk=desk) as line:
        await line.until(lambda: line.told("discord.commands_registered"))
        for name, word in (("status", "was not taken"), ("stop", "no such thing")):
            asked = ada.command(name)
            await line.until(lambda asked=asked, word=word: word in asked.text)
        await line.until(lambda: line.told("discord.event_failed"))


async def test_commands_that_could_not_be_registered_are_registered_later(
    server: Server, tmp_path: Path
) -> None:
    """Invited without “applications.commands”, which was given afterwards; or Discord stumbled."""
    clock = FakeClock()
    server.faults.refuse(COMMANDS, 403, 50001, "Missing Access", times=2)
    async with open_line(server, tmp_path, menu=MENU, clock=clock) as line:
        await line.until(lambda: "applications.commands" in line.channel.health().trouble)
        with anyio.fail_after(60):
            while not line.told("discord.commands_registered"):
                await clock.advance(5)
                await anyio.sleep(0.01)
        assert line.channel.health().trouble == ""
    assert len(line.told("discord.commands_failed")) == 2


async def test_a_server_that_we_left_is_no_trouble(server: Server, tmp_path: Path) -> None:
    server.faults.refuse(COMMANDS, 403, 50001, "Missing Access", times=99)
    async with open_line(server, tmp_path, menu=MENU, clock=FakeClock()) as line:
        await line.until(lambda: line.channel.health().trouble)
        server.gateway.tell("GUILD_DELETE", {"id": str(server.world.guild.id)})
        await line.until(lambda: not line.channel.health().trouble)


@pytest.mark.parametrize("state", ["queued", "refused"])
async def test_whoever_reacts_is_told_what_became_of_it(
    server: Server, tmp_path: Path, state: ReceiptState
) -> None:
    ada, bob, desk = server.person("ada"), server.person("bob"), ScriptedDesk()
    config = config_for(server, reactions=True)
    async with open_line(server, tmp_path, config, desk=desk) as line:
        post = bob.say("look at this")
        desk.receipts.append(Receipt(state, text="It waits, or not."))
        ada.react(post, "👀")
        await line.until(lambda: server.world.shown(server.world.general))
        (told,) = server.world.shown(server.world.general)
        assert told.text == "Ada: It waits, or not."
        assert told.reply_to == post.message.id


async def test_engines_models_and_sessions_are_suggested(server: Server, tmp_path: Path) -> None:
    ada, eve = server.person("ada"), server.person("eve")
    async with open_gateway(server, tmp_path, {ada: "owner"}, menu=MENU) as house:
        await house.until(lambda: server.called(COMMANDS))
        ada.command("ask", text="hello")
        await house.until_shown(server.world.general, "you said:")
        engines = ada.type_option("engine", "name", "pup")
        await house.until(lambda: engines.kind == "autocomplete")
        assert engines.choices == ["puppet"]
        ada.say(f"<@{server.world.bot_id}> /model m9")
        await house.until_shown(server.world.general, "m9")
        models = ada.type_option("model", "name", "M")
        await house.until(lambda: models.kind == "autocomplete")
        assert models.choices == ["m9"]
        sessions = ada.type_option("resume", "id", "")
        await house.until(lambda: sessions.kind == "autocomplete")
        (label,) = sessions.choices
        assert re.fullmatch(r"hello · \d+s ago", label), "first words and last use, as in the list"
        nothing = eve.type_option("resume", "id", "")
        await house.until(lambda: nothing.kind == "autocomplete")
        assert nothing.choices == []


async def test_a_message_is_asked_about_in_its_own_words(server: Server, tmp_path: Path) -> None:
    ada, bob = server.person("ada"), server.person("bob")
    async with open_gateway(server, tmp_path, {ada: "owner"}, menu=MENU) as house:
        await house.until(lambda: server.called(COMMANDS))
        post = bob.say("the moon is made of cheese")
        shown = ada.use_on(post, "Ask about this")
        await house.until(lambda: shown.kind == "modal")
        ada.submit(shown, words="is this true?")
        await house.until(lambda: house.rig.engine.turns)
        prompt = house.rig.engine.turns[0].prompt.text
        assert "is this true?" in prompt
        assert "made of cheese" in prompt


@pytest.mark.parametrize("how", ["menu", "reply", "reaction"])
async def test_what_a_bot_shows_is_asked_about(server: Server, tmp_path: Path, how: str) -> None:
    ada, ci, general = server.person("ada"), server.person("ci", bot=True), server.world.general
    config = config_for(server, per_channel={str(general.id): Rules(mode="all", reactions=True)})
    async with open_gateway(server, tmp_path, {ada: "owner"}, config=config, menu=MENU) as house:
        await house.until(lambda: server.called(COMMANDS))
        embed = {"type": "rich", "title": "Build #42 failed", "description": "AssertionError in foo.py"}
        post = server.world.posts[server.world.state.create_message(general.id, ci.id, "", embeds=[embed]).id]
        if how == "reply":
            ada.say("why?", reply_to=post)
        elif how == "reaction":
            ada.react(post, "👀")
        else:
            shown = ada.use_on(post, "Ask about this")
            await house.until(lambda: shown.kind == "modal")
            ada.submit(shown, words="why?")
        await house.until(lambda: house.rig.engine.turns)
        assert "AssertionError" in house.rig.engine.turns[0].prompt.text


async def test_a_stop_leaves_no_command_thinking_whose_files_are_still_fetched(
    server: Server, tmp_path: Path
) -> None:
    ada, bob, general = server.person("ada"), server.person("bob"), server.world.general
    files = [File(f"{number}.txt", b"long", "text/plain", slow=True) for number in range(10)]
    async with open_gateway(server, tmp_path, {ada: "owner"}, menu=MENU) as house:
        await house.until(lambda: server.called(COMMANDS))
        shown = ada.use_on(bob.say("see there", files=files), "Ask about this")
        await house.until(lambda: shown.kind == "modal")
        asked = ada.submit(shown, words="is this true?")
        await house.until(files[0].asked.is_set)
        ada.command("stop")
        await house.until_shown(general, "Stopped before it began, while its file was downloading.")
        await house.until(lambda: "is this true?" in asked.text)
        for file in files:
            file.release()
        assert not house.rig.engine.turns


async def test_only_who_is_on_the_list_is_heard(server: Server, tmp_path: Path) -> None:
    ada, bob, zoe = server.person("ada"), server.person("bob"), server.person("zoe")
    role, other = server.world.make_role("crew"), server.world.make_channel("other")
    bob.give_role(role)
    general = str(server.world.general.id)
    config = config_for(server, users=(str(ada.id),), roles=(str(role.id),), channels=(general,))
    us = f"<@{server.world.bot_id}>"
    people: dict[Person, Role] = {ada: "owner", bob: "owner", zoe: "owner"}
    async with open_gateway(server, tmp_path, people, config=config, menu=MENU) as house:
        await house.until(lambda: server.called(COMMANDS))
        zoe.say(f"{us} from zoe")
        ada.say(f"{us} elsewhere", channel=other)
        ada.say(f"{us} from ada")
        await house.until_shown(server.world.general, "from ada")
        bob.say(f"{us} from bob")
        await house.until_shown(server.world.general, "from bob")
        refused = zoe.command("status")
        assert "do not listen" in (await house.until(lambda: refused.text))
        assert refused.ephemeral
        said = " ".join(turn.prompt.text for turn in house.rig.engine.turns)
        assert "zoe" not in said
        assert "elsewhere" not in said
