"""Asks Discord once who we are, and what we may do in a channel, for whoever sets one up."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

import anyio
import discord
from discord.http import Route
from msgspec import Struct

from pilothouse.channels.advice import and_put, why_unreachable
from pilothouse.channels.discord.client import intents_of, logging_to, point_at
from pilothouse.channels.discord.config import DiscordConfig
from pilothouse.channels.discord.permitting import INVITED, Room, Server, missing_in, permissions_in, quoted
from pilothouse.channels.discord.setbacks import PORTAL
from pilothouse.channels.discord.wire import THREADS, Member, read
from pilothouse.core.channel import BotIdentity

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
    """A channel that we may live in; or, with a `problem`, why we cannot."""

    bot: str = ""
    channel: str = ""
    server: str = ""
    problem: str = ""


def invite_link(application_id: str) -> str:
    scopes = "bot%20applications.commands"
    return f"https://discord.com/oauth2/authorize?client_id={application_id}&scope={scopes}&permissions={INVITED}"


def meet(config: DiscordConfig) -> BotIdentity:
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
    """What it finds out, or why nobody could be asked."""
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
    """What a library warns about is nothing to whoever sets this up."""


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
            "a thread; name the channel that it hangs on"
            if _is_thread(room)
            else "not one that a server's people write in"
        )
        return Seen(problem=f"the channel {id} is {kind}")
    return await _judge(client, room)


def _is_thread(room: Room | str) -> bool:
    return isinstance(room, Room) and room.type in THREADS


async def _judge(client: discord.Client, room: Room) -> Seen:
    """What Discord would refuse only once somebody waits for an answer."""
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
