"""`pilothouse discord` as people start it: in a folder, with two names in its `.env`, and no configuration at all."""

from __future__ import annotations

import signal
from pathlib import Path

import discord
import pytest
from simcord.backend.models import Overwrite
from simcord.enums import OverwriteType
from tests.channels.discord.installed import Installed, Running, start
from tests.channels.discord.server.faults import COMMANDS
from tests.channels.discord.server.people import Person
from tests.channels.discord.server.running import Server
from tests.channels.discord.server.world import Post

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(240)]


def settle(installed: Installed, server: Server) -> None:
    """The two names, among others that are not ours to read."""
    (installed.project / ".env").write_text(
        "PASSWORD=hunter2\nthis is no line of an .env\nPILOTHOUSE__GATEWAY__BUSY=queue\n"
        f"export DISCORD_TOKEN='{server.token}'\nDISCORD_CHANNEL_ID={server.world.general.id}  # the lab\n"
    )


def newest(server: Server, *words: str) -> Post | None:
    posts = server.world.shown(server.world.general)
    return next((post for post in reversed(posts) if all(word in post.text for word in words)), None)


async def let_in(running: Running, person: Person) -> None:
    code = (await running.until_said(r"(?m)^ +(\w{4}-\w{4})$"))[1]
    person.say(code)
    await running.until_said(f"{person.user.global_name} is let in as owner")


async def test_a_folder_lives_in_a_channel_and_leaves_nothing_behind(server: Server, tmp_path: Path) -> None:
    installed, ada, eve = Installed(tmp_path, server), server.person("ada"), server.person("eve")
    settle(installed, server)
    elsewhere = server.world.make_channel("elsewhere")
    async with start(installed, "discord") as running:
        line = (await running.until_said(".* is ready .*"))[0]
        for part in ("~/project", "#general of Lab", "script", "Ctrl-C leaves"):
            assert part in line
        await let_in(running, ada)
        await running.until(lambda: newest(server, "let in as owner"))

        ada.say("hello there")
        await running.until(lambda: newest(server, "First:", "hello there"))
        ada.say("somewhere else", channel=elsewhere)
        ada.say("in private", channel=ada.dm)
        eve.say("me too")
        told = await running.until(lambda: newest(server, "Only people who were let in"))
        assert str(eve.id) in told.text
        ada.say("and again")
        await running.until(lambda: newest(server, "Second:", "and again"))
        assert not server.world.shown(elsewhere)
        assert not server.world.shown(ada.dm)
        assert not newest(server, "me too")

        await running.until(lambda: [call for call in server.called(COMMANDS) if call.status == 200])
        ada.command("status")
        told = await running.until(lambda: newest(server, "Folder:"))
        assert str(installed.project) in told.text
        away = ada.command("status", channel=elsewhere)
        await running.until(lambda: away.kind == "message")
        assert away.ephemeral
        assert "not listen" in away.text
        assert await running.leave() == 0
        assert server.token not in running.screen
        assert len(running.screen.splitlines()) < 12, "a calm terminal"
    assert installed.pids() == []

    ada.say("are you there?")
    async with start(installed, "discord") as running:
        await running.until_ready()
        await running.until(lambda: newest(server, "Third:", "are you there?"))
        assert "let in" not in running.screen
        assert await running.leave() == 0
    assert installed.pids() == []
    assert server.token not in installed.log
    assert "hunter2" not in installed.log
    assert "discord.connected" in installed.log


@pytest.mark.parametrize(("presses", "grace_s"), [(1, "0.5"), (2, "600")], ids=["once", "twice"])
async def test_ctrl_c_ends_a_turn_with_its_children_and_takes_its_progress_away(
    server: Server, tmp_path: Path, presses: int, grace_s: str
) -> None:
    installed, ada = Installed(tmp_path, server), server.person("ada")
    settle(installed, server)
    async with start(installed, "discord", PILOTHOUSE__GATEWAY__GRACE_S=grace_s) as running:
        await let_in(running, ada)
        ada.say("take a nap")
        progress = await running.until(lambda: newest(server, "nap"))
        assert "Stop" in progress.buttons
        assert len(installed.pids()) > 1, "the player and its child"
        if presses == 2:
            running.process.send_signal(signal.SIGINT)
            await running.until_said("Leaving")
        assert await running.leave() == 0
        assert "Leaving" in running.screen
    assert progress.deleted
    assert installed.pids() == []


async def test_each_mistake_is_one_line_that_says_what_to_do(server: Server, tmp_path: Path) -> None:
    installed = Installed(tmp_path, server)
    (installed.project / ".env").mkdir()
    general, thread = server.world.general, server.person("ada").make_thread("a thread")
    token = {"DISCORD_TOKEN": server.token}
    channel = ("--channel", str(general.id))
    mistakes: list[tuple[tuple[str, ...], dict[str, str], str]] = [
        ((), token, "No channel is named"),
        (channel, {}, "DISCORD_TOKEN"),
        (("--channel", "#general"), token, "--channel: '#general' is not a channel id"),
        ((), token | {"DISCORD_CHANNEL_ID": "12"}, "DISCORD_CHANNEL_ID: '12' is not a channel id"),
        (channel, {"DISCORD_TOKEN": "nonsense"}, "does not look like one"),
        (channel, {"DISCORD_TOKEN": server.token[:-1] + "x"}, "the token is refused"),
        (channel, {"DISCORD_TOKEN": server.token[:-1] + "x"}, "DISCORD_TOKEN in the environment"),
        (("--channel", "1234567890123"), token, "there is no channel 1234567890123"),
        (("--channel", str(thread.id)), token, "is a thread; name its channel instead"),
        ((*channel, "--engine", "pupet"), token, "There is no engine 'pupet'"),
    ]
    for words, more, complaint in mistakes:
        code, told = await installed.run("discord", *words, **more)
        assert (code, complaint in told, told.count("\n")) == (1, True, 1), told
        assert told.startswith("error: ")
        assert server.token not in told


async def test_a_channel_that_is_closed_to_us_is_told_before_anything_starts(
    server: Server, tmp_path: Path
) -> None:
    installed, world = Installed(tmp_path, server), server.world
    words = ("discord", "--channel", str(world.general.id))
    deny = discord.Permissions(send_messages=True).value
    world.state.set_overwrite(world.general.id, Overwrite(world.guild.id, OverwriteType.ROLE, 0, deny))
    code, told = await installed.run(*words, DISCORD_TOKEN=server.token)
    assert (code, "lacks “Send Messages”: give it" in told) == (1, True), told
    hidden = discord.Permissions(view_channel=True).value
    world.state.set_overwrite(world.general.id, Overwrite(world.guild.id, OverwriteType.ROLE, 0, hidden))
    code, told = await installed.run(*words, DISCORD_TOKEN=server.token)
    assert (code, "may not see the channel" in told, "oauth2/authorize" in told) == (1, True, True), told
    server.refuse_message_content()
    code, told = await installed.run(*words, DISCORD_TOKEN=server.token)
    assert (code, "Message Content Intent is switched off" in told) == (1, True), told
    assert server.token not in told


async def test_a_second_one_is_told_what_to_do(server: Server, tmp_path: Path) -> None:
    installed = Installed(tmp_path, server)
    settle(installed, server)
    for words, advice in ((("discord",), "with Ctrl-C"), (("up",), "/bind gives a channel its folder")):
        async with start(installed, *words, PILOTHOUSE__CHANNELS__DISCORD__TOKEN=server.token) as running:
            await running.until_ready()
            code, told = await installed.run("discord")
            assert (code, advice in told, str(running.process.pid) in told) == (75, True, True), told
            await running.leave()


async def test_an_edit_of_the_configuration_holds_at_once(server: Server, tmp_path: Path) -> None:
    installed, ada, eve = Installed(tmp_path, server), server.person("ada"), server.person("eve")
    settle(installed, server)
    owner = f'[people]\nowners = ["discord:{ada.id}"]\n'

    def write(text: str) -> None:
        """At once, as an editor does."""
        fresh = installed.home / "fresh"
        fresh.write_text(text)
        fresh.replace(installed.home / "config.toml")

    write(owner)
    async with start(installed, "discord") as running:
        await running.until_ready()
        eve.say("me too")
        await running.until(lambda: newest(server, "Only people who were let in"))
        write(f'{owner}members = ["discord:{eve.id}"]\n')
        await running.until_said(r"The configuration was edited\. Now in force: people\.members")
        eve.say("and now?")
        await running.until(lambda: newest(server, "First:", "and now?"))
        write("[people")
        await running.until_said("The configuration is broken, so the last good one stays in force")
        eve.say("still here")
        await running.until(lambda: newest(server, "Second:", "still here"))
        assert await running.leave() == 0
