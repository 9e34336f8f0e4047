"""The servers that we are in: channels, threads, roles, and what a bot may do in a channel.

`Places` is a cache that each session fills anew. Permissions follow https://docs.discord.com/developers/topics/permissions:
everyone's and our roles' permissions, then the channel's overwrites for everyone, for roles, and for us.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from pilothouse.channels.discord.addresses import Place, place_of
from pilothouse.channels.discord.payload import UPLOAD_BYTES
from pilothouse.channels.discord.wire import Channel, Event, Guild, Role, read

ADMINISTRATOR = 1 << 3
ALL = (1 << 53) - 1

NEEDED = {
    "View Channel": 1 << 10,
    "Send Messages": 1 << 11,
    "Read Message History": 1 << 16,
}
"""Without these no conversation is possible."""
WANTED = {
    "Add Reactions": 1 << 6,
    "Attach Files": 1 << 15,
    "Manage Threads": 1 << 34,
    "Create Public Threads": 1 << 35,
    "Send Messages in Threads": 1 << 38,
}
"""Without one of these something is missing, and that is said when it is wanted. Threads are managed to open an archived
one that we answer in."""
INVITED = sum(NEEDED.values()) + sum(WANTED.values())
"""Exactly what we use."""


class Granted(Struct, frozen=True):
    """A role with its permissions."""

    id: str
    permissions: str = "0"


class Overwrite(Struct, frozen=True):
    """Permissions that a channel allows and denies, for a role or (type 1) for one person."""

    id: str
    type: int = 0
    allow: str = "0"
    deny: str = "0"


class Server(Struct, frozen=True):
    id: str
    name: str = ""
    owner_id: str = ""
    roles: tuple[Granted, ...] = ()


class Room(Struct, frozen=True):
    id: str
    type: int = 0
    guild_id: str | None = None
    name: str | None = None
    permission_overwrites: tuple[Overwrite, ...] = ()


def permissions_in(room: Room, server: Server, me: str, roles: tuple[str, ...]) -> int:
    """`roles` are ours, without the one that everybody has, whose id is the server's."""
    if server.owner_id == me:
        return ALL
    held = {server.id, *roles}
    may = 0
    for role in server.roles:
        may |= int(role.permissions) if role.id in held else 0
    if may & ADMINISTRATOR:
        return ALL
    rules = room.permission_overwrites
    everybody = [rule for rule in rules if rule.type == 0 and rule.id == server.id]
    by_role = [rule for rule in rules if rule.type == 0 and rule.id in roles]
    ours = [rule for rule in rules if rule.type == 1 and rule.id == me]
    for step in (everybody, by_role, ours):
        may = _changed(may, step)
    return may


def missing_in(may: int) -> list[str]:
    """Names of the needed permissions that are missing."""
    return [name for name, bit in NEEDED.items() if not may & bit]


def quoted(names: Sequence[str]) -> str:
    return ", ".join(f"“{name}”" for name in names)


def _changed(may: int, rules: list[Overwrite]) -> int:
    allow = deny = 0
    for rule in rules:
        allow |= int(rule.allow)
        deny |= int(rule.deny)
    return (may & ~deny) | allow


MIB = 1 << 20
UPLOADS = {2: 50 * MIB, 3: 100 * MIB}
REMEMBERED = 20_000


class Known(Struct):
    """A server that we are in."""

    name: str
    owner: str
    upload_bytes: int
    roles: dict[str, Role]


class Places:
    def __init__(self) -> None:
        self._places: dict[str, Place] = {}
        self._guilds: dict[str, Known] = {}

    @property
    def guilds(self) -> tuple[str, ...]:
        return tuple(self._guilds)

    def get(self, id: str) -> Place | None:
        return self._places.get(id)

    def leave(self, guild: str) -> Known | None:
        """Forget a server, and return what we knew of it."""
        return self._guilds.pop(guild, None)

    def channels_of(self, guild: str) -> list[Place]:
        """The channels of a server, without threads."""
        return [place for place in self._places.values() if place.guild == guild and place.parent is None]

    def put(self, channel: Channel, guild: str | None = None) -> Place:
        place = self._places[channel.id] = place_of(channel, guild)
        while len(self._places) > REMEMBERED:
            del self._places[next(iter(self._places))]
        return place

    def learn(self, event: Event) -> None:
        """Take what an event says about servers, channels and roles."""
        match event.name:
            case "GUILD_CREATE" | "GUILD_UPDATE":
                self._guild(read(event.data, Guild))
            case "CHANNEL_CREATE" | "CHANNEL_UPDATE" | "THREAD_CREATE" | "THREAD_UPDATE":
                self._channels((event.data,), None)
            case "THREAD_LIST_SYNC":
                self._channels(event.data.get("threads") or (), event.data.get("guild_id"))
            case "CHANNEL_DELETE" | "THREAD_DELETE":
                self._places.pop(str(event.data.get("id")), None)
            case "GUILD_ROLE_CREATE" | "GUILD_ROLE_UPDATE":
                self._role(str(event.data.get("guild_id")), event.data.get("role"))

    def name_of(self, id: str) -> str:
        found = self._places.get(id)
        return found.name if found and found.name else "channel"

    def role_name(self, guild: str | None, id: str) -> str:
        known = self._guilds.get(guild or "")
        role = known.roles.get(id) if known else None
        return role.name.removeprefix("@") if role and role.name else "role"

    def our_roles(self, guild: str | None, me: str) -> frozenset[str]:
        """The role that Discord made for us alone: people mention it when they mean us."""
        known = self._guilds.get(guild or "")
        roles = known.roles.values() if known else ()
        return frozenset(role.id for role in roles if role.tags is not None and role.tags.bot_id == me)

    def upload_bytes(self, place: str) -> int:
        """Return how large a file may be there."""
        found = self._places.get(place)
        known = self._guilds.get(found.guild or "") if found else None
        return known.upload_bytes if known else UPLOAD_BYTES

    def _guild(self, guild: Guild | str) -> None:
        if isinstance(guild, str) or guild.unavailable:
            return
        roles = {role.id: role for role in guild.roles}
        upload_bytes = UPLOADS.get(guild.premium_tier, UPLOAD_BYTES)
        self._guilds[guild.id] = Known(guild.name, guild.owner_id, upload_bytes, roles)
        for channel in (*guild.channels, *guild.threads):
            self.put(channel, guild.id)

    def _channels(self, raw: Iterable[object], guild: str | None) -> None:
        for one in raw:
            channel = read(one, Channel)
            if not isinstance(channel, str):
                self.put(channel, guild)

    def _role(self, guild: str, raw: object) -> None:
        role, known = read(raw, Role), self._guilds.get(guild)
        if known is not None and not isinstance(role, str):
            known.roles[role.id] = role
