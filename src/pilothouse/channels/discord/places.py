"""What the servers look like, as far as we must know: which thread hangs on which channel, names, our own role.

Only a cache: the gateway tells it anew with every session, and whoever is missing is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from pilothouse.channels.discord.addressing import Place, place_of
from pilothouse.channels.discord.limits import UPLOAD_BYTES
from pilothouse.channels.discord.wire import Channel, Event, Guild, Role, read

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
        """What we knew of a server that we are no longer in."""
        return self._guilds.pop(guild, None)

    def channels_of(self, guild: str) -> list[Place]:
        """Without their threads."""
        return [place for place in self._places.values() if place.guild == guild and place.parent is None]

    def put(self, channel: Channel, guild: str | None = None) -> Place:
        place = self._places[channel.id] = place_of(channel, guild)
        while len(self._places) > REMEMBERED:
            del self._places[next(iter(self._places))]
        return place

    def learn(self, event: Event) -> None:
        """Whatever an event says about how a server looks."""
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
        """How large a file may be there."""
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
