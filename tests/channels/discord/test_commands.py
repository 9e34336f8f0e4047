"""Slash commands, what is suggested while one types, and the context menu, behind a whole gateway."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.channels.channel_rig import MENU
from tests.channels.discord.gateway_house import config_for, open_gateway
from tests.channels.discord.line import open_line
from tests.channels.discord.server.faults import COMMANDS
from tests.channels.discord.server.people import Person
from tests.channels.discord.server.running import Server
from tests.runtime.puppet import until_interrupted

from pilothouse.channels.discord.config import Rules
from pilothouse.core.ids import ConversationId
from pilothouse.core.people import Role

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
        await house.until_shown(server.world.general, "workspace")
        assert done.ephemeral
        ada.command("ask", text="work")
        await house.rig.until_live(ConversationId(f"discord:{server.world.general.id}"), "running")
        ada.command("stop")
        await house.until_shown(server.world.general, "Stopping.")


async def test_a_deferred_answer_that_came_too_late_still_does_what_was_asked(
    server: Server, tmp_path: Path
) -> None:
    ada = server.person("ada")
    async with open_gateway(server, tmp_path, {ada: "owner"}, menu=MENU) as house:
        await house.until(lambda: server.called(COMMANDS))
        server.faults.late()
        ada.command("status")
        await house.until_shown(server.world.general, "workspace")


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
        sessions = ada.type_option("resume", "token", "")
        await house.until(lambda: sessions.kind == "autocomplete")
        assert len(sessions.choices) == 1
        nothing = eve.type_option("resume", "token", "")
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
