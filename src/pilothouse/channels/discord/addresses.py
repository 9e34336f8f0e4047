"""Maps Discord's ids to our addresses and people, and decides whether a message is meant for us.

No other module looks inside these ids. In a private chat every message is for us.
"""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct

from pilothouse.channels.discord.config import Heard
from pilothouse.channels.discord.wire import (
    DIRECT,
    FORUMS,
    THREAD_STARTER,
    THREADS,
    Channel,
    Member,
    Message,
    User,
)
from pilothouse.core.errors import Rejected
from pilothouse.core.ids import ChannelId, UserId
from pilothouse.core.message import Address, Author
from pilothouse.core.trigger import IMMEDIATE_COMMANDS, matches_trigger

DISCORD = ChannelId("discord")


class Place(Struct, frozen=True):
    """A channel, a thread or a private chat."""

    id: str
    guild: str | None = None
    parent: str | None = None
    """The channel of a thread, whose rules hold in it."""
    name: str = ""
    direct: bool = False
    forum: bool = False
    """A forum has posts, and no messages of its own."""

    @property
    def address(self) -> Address:
        return Address(DISCORD, self.id) if self.parent is None else Address(DISCORD, self.parent, self.id)

    @property
    def lineage(self) -> tuple[str, ...]:
        """Ids of the places whose rules hold here, nearest first."""
        return (self.id,) if self.parent is None else (self.id, self.parent)


def place_of(channel: Channel, guild: str | None = None) -> Place:
    """Read a place from a channel. Only a thread's `parent_id` counts: a channel's is its category."""
    parent = channel.parent_id if channel.type in THREADS else None
    guild = channel.guild_id or guild
    return Place(
        channel.id, guild, parent, channel.name or "", channel.type in DIRECT, channel.type in FORUMS
    )


def target_of(address: Address) -> int:
    """The id to post to."""
    try:
        return int(address.thread or address.place)
    except ValueError:
        raise Rejected(f"{address.place!r} is not a Discord channel") from None


def user_id(id: str) -> UserId:
    return UserId(f"{DISCORD}:{id}")


def author_of(user: User, member: Member | None = None) -> Author:
    name = (member.nick if member else None) or user.name
    return Author(user_id(user.id), name, user.bot)


_COMMAND = re.compile(r"\s*(?:<@[!&]?\d{1,20}>\s*)?/(?P<name>\w+)(?:\s|$)")


class Us(Struct, frozen=True):
    """Our own id, and the roles that Discord made for us in a server."""

    id: str
    roles: frozenset[str] = frozenset()


def is_for_us(message: Message, us: Us, heard: Heard, place: Place) -> bool:
    if place.direct:
        return True
    mentioned, answered = mentions(message, us), is_reply_to(message, us)
    return matches_trigger(heard.trigger, message.content, mentioned=mentioned, answered=answered)


def mentions(message: Message, us: Us) -> bool:
    """Does its text name us? A reply to us also mentions us, and `@everyone` does not count."""
    if re.search(rf"<@!?{us.id}>", message.content):
        return True
    return any(role in us.roles for role in message.mention_roles)


def is_reply_to(message: Message, us: Us) -> bool:
    answered = message.referenced_message
    return (
        message.type != THREAD_STARTER
        and answered is not None
        and answered.author is not None
        and answered.author.id == us.id
    )


def is_heard(author: str, roles: tuple[str, ...], heard: Heard, *, direct: bool) -> bool:
    """Do the configured lists include this person? In private nobody has a role, so only the list of people counts."""
    if is_muted(heard, direct=direct):
        return False
    if direct or not heard.roles:
        return not heard.users or author in heard.users
    return author in heard.users or any(role in heard.roles for role in roles)


def is_muted(heard: Heard, *, direct: bool) -> bool:
    """Is nobody heard there? A list of channels does not concern private chats, a dedicated channel does."""
    return heard.muted and (heard.dedicated or not direct)


def is_command(content: str) -> bool:
    return _COMMAND.match(content) is not None


def overtakes(message: dict[str, Any]) -> bool:
    """Is this raw message a command that stops or reports, and so waits for no files?"""
    content = message.get("content")
    found = _COMMAND.match(content) if isinstance(content, str) else None
    return found is not None and found["name"].lower() in IMMEDIATE_COMMANDS
