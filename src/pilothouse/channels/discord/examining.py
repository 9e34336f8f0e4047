"""Asks Discord what we lack in the servers that we are in, for `doctor`: what is missing shows only once somebody waits for it.

A channel that shuts us out is somebody's choice, unless it is named in the configuration. So is one where we may not write.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import anyio
import discord
from discord.http import Route
from msgspec import Struct

from pilothouse.channels.discord.config import DiscordConfig, heard_in
from pilothouse.channels.discord.meeting import intent_problem, link_of, name_of, with_client
from pilothouse.channels.discord.permitting import NEEDED, WANTED, Room, Server, permissions_in, quoted
from pilothouse.channels.discord.wire import FORUMS, TEXT_CHANNELS, WITH_THREADS, Member, read
from pilothouse.core.channel import Finding

WITHIN_S = 30.0
MOST_SERVERS = 20
"""Each costs three requests."""
MOST_ROOMS = 5
"""That are named; of the others one reads how many they are."""
THREADS_ALONE = frozenset({"Manage Threads", "Create Public Threads", "Send Messages in Threads"})
IN_SERVER = "give the bot's role that in the server's settings under Roles, or invite it again with {link}"
IN_ROOM = "give the bot that in the channel's settings under Permissions"
NOT_LOOKED = "the bot is in more than {most} servers, and only {most} were looked at"


class Us(Struct, frozen=True):
    id: str
    name: str
    link: str
    roles: tuple[str, ...] = ()
    """In the server that is looked at."""


class _Listed(Struct, frozen=True):
    id: str


def examine(config: DiscordConfig) -> Sequence[Finding]:
    found = anyio.run(partial(with_client, config, partial(_examine, config), within_s=WITHIN_S))
    return [Finding(found)] if isinstance(found, str) else found


async def _examine(config: DiscordConfig, client: discord.Client) -> list[Finding]:
    if problem := intent_problem(client, config):
        return [Finding(problem)]
    us = Us(str(client.user.id if client.user else ""), name_of(client), link_of(client))
    listed = read(await _get(client, "/users/@me/guilds"), tuple[_Listed, ...])
    if isinstance(listed, str):
        return [Finding(f"what Discord says of the bot's servers cannot be read: {listed}")]
    found = [lack for one in listed[:MOST_SERVERS] for lack in await _look(config, client, us, one.id)]
    if len(listed) > MOST_SERVERS:
        found.append(Finding(NOT_LOOKED.format(most=MOST_SERVERS)))
    return found


async def _look(config: DiscordConfig, client: discord.Client, us: Us, guild: str) -> list[Finding]:
    server = read(await _get(client, "/guilds/{guild_id}", guild_id=guild), Server)
    rooms = read(await _get(client, "/guilds/{guild_id}/channels", guild_id=guild), tuple[Room, ...])
    path = "/guilds/{guild_id}/members/{user_id}"
    member = read(await _get(client, path, guild_id=guild, user_id=us.id), Member)
    if isinstance(server, str) or isinstance(rooms, str) or isinstance(member, str):
        return [Finding(f"what Discord says of the server {guild} cannot be read")]
    return list(lacks_in(config, server, rooms, Us(us.id, us.name, us.link, member.roles)))


async def _get(client: discord.Client, path: str, **ids: str) -> Any:
    return await client.http.request(Route("GET", path, **ids))


def lacks_in(config: DiscordConfig, server: Server, rooms: Sequence[Room], us: Us) -> Iterator[Finding]:
    """What no role gives us is said once of the server; what a channel takes away, of those channels together."""
    missing = [
        (f"#{room.name or room.id}", _missing(room, server, us))
        for room in _looked_at(config, server, rooms, us)
    ]
    given = permissions_in(Room(server.id), server, us.id, us.roles)
    nowhere = [
        name
        for name, bit in (NEEDED | WANTED).items()
        if not given & bit and any(name in lack for _, lack in missing)
    ]
    if nowhere:
        text = f"in the server {server.name} the bot {us.name} lacks {quoted(nowhere)}"
        yield Finding(text, IN_SERVER.format(link=us.link))
    together: dict[tuple[str, ...], list[str]] = {}
    for room, lack in missing:
        if taken := tuple(name for name in lack if name not in nowhere):
            together.setdefault(taken, []).append(room)
    for taken, places in together.items():
        yield Finding(f"in {_some(places)} of {server.name} the bot {us.name} lacks {quoted(taken)}", IN_ROOM)


def _looked_at(config: DiscordConfig, server: Server, rooms: Sequence[Room], us: Us) -> list[Room]:
    """Named ones, and those that let us write. Where no channel does, that is what is wrong."""
    named = {config.dedicated, *config.channels, *config.per_channel}
    heard = [room for room in rooms if room.type in TEXT_CHANNELS and not heard_in(config, room.id).muted]
    chosen = [room for room in heard if room.id in named]
    others = [room for room in heard if room.id not in named and room.type in WITH_THREADS]
    open_ones = [room for room in others if _may_write(_missing(room, server, us), room.type)]
    return [*chosen, *open_ones] or others


def _missing(room: Room, server: Server, us: Us) -> list[str]:
    may = permissions_in(room, server, us.id, us.roles)
    return [name for name, bit in (NEEDED | WANTED).items() if not may & bit and _is_used(name, room.type)]


def _may_write(missing: Sequence[str], kind: int) -> bool:
    writing = "Send Messages in Threads" if kind in FORUMS else "Send Messages"
    return not {"View Channel", writing} & set(missing)


def _is_used(name: str, kind: int) -> bool:
    """In a forum each post is a thread already; in a voice channel there are none."""
    if kind in FORUMS:
        return name not in ("Send Messages", "Create Public Threads")
    return kind in WITH_THREADS or name not in THREADS_ALONE


def _some(places: Sequence[str]) -> str:
    more = len(places) - MOST_ROOMS
    return ", ".join(places[:MOST_ROOMS]) + (f" and {more} more" if more > 0 else "")
