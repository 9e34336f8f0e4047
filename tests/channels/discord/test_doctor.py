"""What `doctor` says of a server: what the bot lacks, where, and what to grant; and nothing of what somebody chose."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import anyio.to_thread
import pytest
from simcord.backend.models import Overwrite
from simcord.enums import OverwriteType
from tests.channels.discord.gateway_house import config_for
from tests.channels.discord.installed import Installed
from tests.channels.discord.server.running import Server as Discord

from pilothouse.channels.discord import CHANNEL
from pilothouse.channels.discord.config import DiscordConfig, Rules
from pilothouse.channels.discord.doctor import MOST_ROOMS, MOST_SERVERS, Us, lacks_in
from pilothouse.channels.discord.servers import INVITED, NEEDED, WANTED, Granted, Room, Server
from pilothouse.channels.discord.servers import Overwrite as Rule
from pilothouse.core.channel import Finding

LINK = "https://invite"
BITS = NEEDED | WANTED
TEXT, VOICE, FORUM = 0, 2, 15


def server(*lacking: str) -> Server:
    given = INVITED - sum(BITS[name] for name in lacking)
    return Server("1", "Lab", "9", (Granted("1", str(given)),))


def room(name: str, *denied: str, kind: int = TEXT, allowed: Sequence[str] = ()) -> Room:
    deny, allow = (str(sum(BITS[one] for one in names)) for names in (denied, allowed))
    return Room(f"2{name}", kind, "1", name, (Rule("1", 0, allow, deny),))


def said(lab: Server, *rooms: Room, config: DiscordConfig | None = None) -> list[Finding]:
    return list(lacks_in(config or DiscordConfig(), lab, rooms, Us("7", "Pilot", LINK)))


def test_where_nothing_is_missing_nothing_is_said() -> None:
    assert said(server(), room("a"), room("b", kind=FORUM)) == []


def test_what_no_role_gives_is_said_once_of_the_server_with_the_invitation() -> None:
    (found,) = said(server("Attach Files", "Add Reactions"), room("a"), room("b"))
    assert found.text == "in the server Lab the bot Pilot lacks “Add Reactions”, “Attach Files”"
    assert found.fix.endswith(f"invite it again with {LINK}")


def test_what_channels_take_away_is_said_of_them_together() -> None:
    many = [room(f"r{number}", "Attach Files") for number in range(MOST_ROOMS + 2)]
    one, two = said(server(), *many, room("b", "Read Message History"), room("c"))
    assert one.text == "in #r0, #r1, #r2, #r3, #r4 and 2 more of Lab the bot Pilot lacks “Attach Files”"
    assert two.text == "in #b of Lab the bot Pilot lacks “Read Message History”"
    assert "channel's settings" in one.fix


def test_what_every_channel_gives_itself_is_not_missing() -> None:
    assert said(server("Attach Files"), room("a", allowed=["Attach Files"])) == []


@pytest.mark.parametrize("closed", ["View Channel", "Send Messages"])
def test_a_channel_that_shuts_us_out_is_somebodys_choice_unless_it_is_named(closed: str) -> None:
    rooms = (room("a"), room("b", closed, "Attach Files"))
    assert said(server(), *rooms) == []
    for config in (
        DiscordConfig(per_channel={"2b": Rules(mode="all")}),
        DiscordConfig(channels=("2b",)),
        DiscordConfig(dedicated="2b"),
    ):
        (found,) = said(server(), *rooms, config=config)
        assert found.text == f"in #b of Lab the bot Pilot lacks “{closed}”, “Attach Files”"


def test_where_no_channel_lets_us_write_that_is_said() -> None:
    (found,) = said(server("Send Messages"), room("a"), room("b"))
    assert "“Send Messages”" in found.text


def test_channels_that_we_do_not_listen_to_are_left_alone() -> None:
    config = DiscordConfig(channels=("2a",))
    assert said(server(), room("a"), room("b", "Attach Files"), config=config) == []
    assert said(server("Attach Files"), room("b"), config=config) == []


def test_threads_are_wanted_only_where_there_are_any() -> None:
    voice = room("v", "Manage Threads", "Create Public Threads", "Send Messages in Threads", kind=VOICE)
    assert said(server(), voice, config=DiscordConfig(per_channel={"2v": Rules()})) == []
    forum = room("f", "Send Messages", "Create Public Threads", kind=FORUM)
    assert said(server(), room("a"), forum) == []
    assert said(server(), room("a"), room("f", "Send Messages in Threads", kind=FORUM)) == []
    (found,) = said(server(), room("a"), room("f", "Attach Files", kind=FORUM))
    assert "#f" in found.text


async def examined(discord: Discord) -> Sequence[Finding]:
    assert CHANNEL.examine is not None
    return await anyio.to_thread.run_sync(CHANNEL.examine, config_for(discord))


@pytest.mark.anyio
async def test_discord_itself_is_asked(server: Discord) -> None:
    state, lab, general = server.world.state, server.world.guild, server.world.general
    assert await examined(server) == []
    state.set_overwrite(general.id, Overwrite(lab.id, OverwriteType.ROLE, 0, BITS["Attach Files"]))
    (found,) = await examined(server)
    assert "#general" in found.text
    assert "lacks “Attach Files”" in found.text


@pytest.mark.anyio
async def test_only_so_many_servers_are_looked_at(server: Discord) -> None:
    state = server.world.state
    for number in range(MOST_SERVERS):
        state.create_guild(f"Lab {number}")
    assert f"only {MOST_SERVERS} were looked at" in (await examined(server))[-1].text
    assert len(server.called("GET /guilds/*/channels")) == MOST_SERVERS


@pytest.mark.anyio
async def test_a_discord_that_refuses_us_is_a_finding(server: Discord) -> None:
    server.faults.refuse("GET /users/@me", 401, 0, "401: Unauthorized")
    (found,) = await examined(server)
    assert "the token is refused" in found.text


@pytest.mark.anyio
@pytest.mark.slow
async def test_doctor_names_the_server_and_what_to_grant(server: Discord, tmp_path: Path) -> None:
    state, lab = server.world.state, server.world.guild
    for role in (lab.id, *state.get_member(lab.id, server.world.bot_id).role_ids):
        state.edit_role(lab.id, role, {"permissions": INVITED - BITS["Attach Files"]})
    installed = Installed(tmp_path, server)
    token = {"PILOTHOUSE__CHANNELS__DISCORD__TOKEN": server.token}
    _, told = await installed.run("doctor", "--json", **token)
    (found,) = [check for check in json.loads(told)["checks"] if "Attach Files" in check["text"]]
    assert (found["name"], found["state"]) == ("channel discord", "warn")
    assert found["text"] == "in the server Lab the bot TestBot lacks “Attach Files”"
    assert f"permissions={INVITED}" in found["fix"]
    assert server.token not in told
