"""Asks Discord who we are and which permissions we lack, for `init`, `doctor` and `pilothouse discord`.

A channel that shuts the bot out is left alone, unless the configuration names it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

import anyio
import discord
from discord.http import Route
from msgspec import Struct

from pilothouse.channels.discord.client import intents_of, logging_to, point_at
from pilothouse.channels.discord.config import DiscordConfig, heard_in
from pilothouse.channels.discord.connection import PORTAL
from pilothouse.channels.discord.servers import (
    INVITED,
    NEEDED,
    WANTED,
    Room,
    Server,
    missing_in,
    permissions_in,
    quoted,
)
from pilothouse.channels.discord.wire import FORUMS, TEXT_CHANNELS, THREADS, WITH_THREADS, Member, read
from pilothouse.core.channel import BotIdentity, Finding
from pilothouse.core.secret import and_put
from pilothouse.http.unreachable import why_unreachable

T = TypeVar("T")

WITHIN_S = 20.0
WRITABLE = frozenset({0, 2, 5, 13})
"""Channels in which one writes: text, voice and stage with their chats, announcements."""
NO_SUCH = (
    "there is no channel {id} that this bot knows: switch on Developer Mode in Discord's advanced settings, right-click "
    "the channel, Copy Channel ID"
)
NOT_SEEN = "the bot {bot} may not see the channel {id}: invite it to that server with {link}, and give it “View Channel” there"


class Seen(Struct, frozen=True):
    """A channel that can be dedicated to us, or the `problem` with it."""

    bot: str = ""
    channel: str = ""
    server: str = ""
    problem: str = ""


def invite_link(application_id: str) -> str:
    scopes = "bot%20applications.commands"
    return f"https://discord.com/oauth2/authorize?client_id={application_id}&scope={scopes}&permissions={INVITED}"


def identify(config: DiscordConfig) -> BotIdentity:
    async def ask(client: discord.Client) -> BotIdentity:
        return BotIdentity(name_of(client), link_of(client), intent_problem(client, config))

    found = anyio.run(with_client, config, ask)
    return BotIdentity(problem=found) if isinstance(found, str) else found


async def look_at(config: DiscordConfig, channel_id: str) -> Seen:
    """The channel as our bot sees it. What is wrong is said with what to do."""
    found = await with_client(config, partial(_look, config, channel_id))
    return Seen(problem=found) if isinstance(found, str) else found


async def with_client(
    config: DiscordConfig, ask: Callable[[discord.Client], Awaitable[T]], within_s: float = WITHIN_S
) -> T | str:
    """Log in, ask, and return the answer, or a sentence about why that failed."""
    point_at(config)
    try:
        with anyio.fail_after(within_s), logging_to(_nowhere, str):
            async with discord.Client(intents=intents_of(config), proxy=config.proxy or None) as client:
                await client.login(config.token.reveal())
                return await ask(client)
    except discord.LoginFailure:
        return f"the token is refused: take a new one at {PORTAL}, your application, page Bot{and_put(config.token)}"
    except (discord.DiscordException, OSError, TimeoutError) as error:
        why = why_unreachable(error).replace(config.token.reveal(), "[token]")[:200]
        return f"it could not be reached ({why}): see whether this machine reaches {config.api_base}, and try again"


def _nowhere(event: str, **fields: object) -> None:
    """Drop the library's warnings during set-up."""


def name_of(client: discord.Client) -> str:
    return client.user.name if client.user else ""


def link_of(client: discord.Client) -> str:
    return invite_link(str(client.application_id or ""))


def intent_problem(client: discord.Client, config: DiscordConfig) -> str:
    flags = client.application_flags
    if not config.message_content or flags.gateway_message_content or flags.gateway_message_content_limited:
        return ""
    return (
        "the Message Content Intent is switched off, so that we could not read what people write: switch it on "
        f"at {PORTAL}/{client.application_id}/bot under “Privileged Gateway Intents”, or set message_content = false"
    )


async def _look(config: DiscordConfig, id: str, client: discord.Client) -> Seen:
    if problem := intent_problem(client, config):
        return Seen(problem=problem)
    try:
        room = read(await client.http.request(Route("GET", "/channels/{channel_id}", channel_id=id)), Room)
    except discord.Forbidden:
        return Seen(problem=NOT_SEEN.format(bot=name_of(client), id=id, link=link_of(client)))
    except discord.NotFound:
        return Seen(problem=NO_SUCH.format(id=id))
    if isinstance(room, str) or room.guild_id is None or room.type not in WRITABLE:
        kind = (
            "a thread; name its channel instead"
            if _is_thread(room)
            else "not one that a server's people write in"
        )
        return Seen(problem=f"the channel {id} is {kind}")
    return await _judge(client, room)


def _is_thread(room: Room | str) -> bool:
    return isinstance(room, Room) and room.type in THREADS


async def _judge(client: discord.Client, room: Room) -> Seen:
    """Check the permissions that we need in a channel."""
    me, guild = str(client.user.id if client.user else ""), room.guild_id
    server = read(await client.http.request(Route("GET", "/guilds/{guild_id}", guild_id=guild)), Server)
    route = Route("GET", "/guilds/{guild_id}/members/{user_id}", guild_id=guild, user_id=me)
    member = read(await client.http.request(route), Member)
    if isinstance(server, str) or isinstance(member, str):
        return Seen(name_of(client), room.name or room.id)
    missing = missing_in(permissions_in(room, server, me, member.roles))
    if not missing:
        return Seen(name_of(client), room.name or room.id, server.name)
    return Seen(
        problem=f"in #{room.name} of {server.name} the bot {name_of(client)} lacks {quoted(missing)}: give it that in the channel's settings under "
        "Permissions"
    )


EXAMINE_S = 30.0
MOST_SERVERS = 20
"""Each costs three requests."""
MOST_ROOMS = 5
"""Channels that a finding names; the others are counted."""
THREADS_ALONE = frozenset({"Manage Threads", "Create Public Threads", "Send Messages in Threads"})
IN_SERVER = "give the bot's role that in the server's settings under Roles, or invite it again with {link}"
IN_ROOM = "give the bot that in the channel's settings under Permissions"
NOT_LOOKED = "the bot is in more than {most} servers, and only {most} were looked at"


class Us(Struct, frozen=True):
    id: str
    name: str
    link: str
    roles: tuple[str, ...] = ()
    """Our roles in the examined server."""


class _Listed(Struct, frozen=True):
    id: str


def examine(config: DiscordConfig) -> Sequence[Finding]:
    found = anyio.run(partial(with_client, config, partial(_examine, config), within_s=EXAMINE_S))
    return [Finding(found)] if isinstance(found, str) else found


async def _examine(config: DiscordConfig, client: discord.Client) -> list[Finding]:
    if problem := intent_problem(client, config):
        return [Finding(problem)]
    us = Us(str(client.user.id if client.user else ""), name_of(client), link_of(client))
    listed = read(await _get(client, "/users/@me/guilds"), tuple[_Listed, ...])
    if isinstance(listed, str):
        return [Finding(f"what Discord says of the bot's servers cannot be read: {listed}")]
    found = [
        lack for one in listed[:MOST_SERVERS] for lack in await _look_at_server(config, client, us, one.id)
    ]
    if len(listed) > MOST_SERVERS:
        found.append(Finding(NOT_LOOKED.format(most=MOST_SERVERS)))
    return found


async def _look_at_server(config: DiscordConfig, client: discord.Client, us: Us, guild: str) -> list[Finding]:
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
    """List missing permissions: once per server for those that no role gives, once per group of channels for those that are taken away."""
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
    """Is this permission used in this kind of channel? A forum's posts are threads, and a voice channel has none."""
    if kind in FORUMS:
        return name not in ("Send Messages", "Create Public Threads")
    return kind in WITH_THREADS or name not in THREADS_ALONE


def _some(places: Sequence[str]) -> str:
    more = len(places) - MOST_ROOMS
    return ", ".join(places[:MOST_ROOMS]) + (f" and {more} more" if more > 0 else "")
