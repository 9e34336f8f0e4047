"""Between Discord's ids and our addresses and people: nobody else looks inside these."""

from __future__ import annotations

from msgspec import Struct

from pilothouse.channels.discord.wire import DIRECT, FORUMS, THREADS, Channel, Member, User
from pilothouse.core.errors import Rejected
from pilothouse.core.ids import ChannelId, UserId
from pilothouse.core.message import Address, Author

DISCORD = ChannelId("discord")


class Place(Struct, frozen=True):
    """A channel, a thread or a private chat, as far as it matters to us."""

    id: str
    guild: str | None = None
    parent: str | None = None
    """Of a thread: the channel that it hangs on, whose rules hold in it."""
    name: str = ""
    direct: bool = False
    forum: bool = False
    """It has posts, and nobody writes in it itself."""

    @property
    def address(self) -> Address:
        return Address(DISCORD, self.id) if self.parent is None else Address(DISCORD, self.parent, self.id)

    @property
    def lineage(self) -> tuple[str, ...]:
        """Whose rules hold here, nearest first."""
        return (self.id,) if self.parent is None else (self.id, self.parent)


def place_of(channel: Channel, guild: str | None = None) -> Place:
    """A channel's own `parent_id` is its category, which is no place."""
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
        raise Rejected(f"{address.place!r} is no channel of Discord's") from None


def user_id(id: str) -> UserId:
    return UserId(f"{DISCORD}:{id}")


def author_of(user: User, member: Member | None = None) -> Author:
    name = (member.nick if member else None) or user.name
    return Author(user_id(user.id), name, user.bot)
