"""Greets a server that invited us, once, in one channel; and tells the desk when a server removed us.

Discord does not say who invited us, so the server's owner stands for that person. Servers that we joined before our first
run are not greeted, nor are channels that we do not listen to, nor the dedicated one.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from pilothouse.channels.discord.accept import Taker
from pilothouse.channels.discord.addresses import Place, user_id
from pilothouse.channels.discord.journal import Marks
from pilothouse.channels.discord.rest import Calls
from pilothouse.channels.discord.servers import NEEDED, Places, Room, Server, permissions_in
from pilothouse.channels.discord.trouble import Away, Trouble
from pilothouse.channels.discord.wire import Event, Guild, Member, User, read
from pilothouse.channels.receipts import greeting
from pilothouse.core.channel import Desk
from pilothouse.core.message import Author, Presence

TEXT = 0
"""Text channels; in an announcement channel a greeting would reach all its followers."""
SOMEBODY = "Somebody in the server of {owner}"
LEFT = "left"
"""HealthNote instead of the joining time once a server removed us."""


class _Spot(Room, frozen=True):
    position: int = 0


class _Joined(Server, frozen=True):
    """A server as GUILD_CREATE describes it."""

    joined_at: str | None = None
    system_channel_id: str | None = None
    channels: tuple[_Spot, ...] = ()
    members: tuple[Member, ...] = ()


class Welcome:
    """`name` is ours, by now. `now` is when we began."""

    def __init__(
        self,
        desk: Desk,
        taker: Taker,
        places: Places,
        marks: Marks,
        log: Callable[..., None],
        *,
        name: Callable[[], str],
        now: float,
    ) -> None:
        self._desk = desk
        self._taker = taker
        self._places = places
        self._marks = marks
        self._log = log
        self._name = name
        self._since = marks.first_used(now)

    def is_new(self, guild: Guild) -> bool:
        joined, stay = _time_of(guild.joined_at), self._marks.stay(guild.id)
        return stay == LEFT or (joined > self._since and stay != guild.joined_at)

    def leave(self, guild: str) -> Presence | None:
        """Forget a server that removed us; return what the desk should hear, if we knew it."""
        rooms = [place.address for place in self._places.channels_of(guild)]
        known = self._places.leave(guild)
        if known is None or not rooms:
            return None
        self._marks.note_stay(guild, LEFT)
        by = Author(user_id(known.owner), "Somebody")
        return Presence(rooms[0], by, known.name, f"{LEFT}:{guild}", beside=tuple(rooms[1:]))

    async def tell_left(self, here: Presence) -> None:
        await self._desk.left(here)

    async def take(self, event: Event, us: str, calls: Calls) -> None:
        """Greet a server; afterwards it is noted as greeted."""
        server = read(event.data, _Joined)
        if isinstance(server, str):
            self._log("discord.not_greeted", level="warning", guild=event.data.get("id"), why=server)
            return
        room = self._room(server, us)
        if room is not None:
            trigger = (await self._taker.scene(_place(room, server), us)).heard.trigger
            await self._arrived(server, room, greeting(self._name(), trigger), calls)
        else:
            self._log("discord.not_greeted", guild=server.id, why="no channel is for us, and lets us write")
            if self._marks.stay(server.id) == LEFT and server.channels:
                await self._arrived(server, server.channels[0], "", calls)
        self._marks.note_stay(server.id, server.joined_at or "")

    async def _arrived(self, server: _Joined, room: Room, words: str, calls: Calls) -> None:
        by = Author(user_id(server.owner_id), SOMEBODY.format(owner=await self._owner(server, calls)))
        beside = tuple(_place(one, server).address for one in server.channels if one.id != room.id)
        address, stay = _place(room, server).address, server.joined_at or ""
        await self._desk.arrived(Presence(address, by, server.name, stay, beside=beside), words)

    def _room(self, server: _Joined, us: str) -> Room | None:
        """The one for what Discord itself says, else the first."""
        ours = next((one.roles for one in server.members if one.user and one.user.id == us), ())
        may_write = NEEDED["View Channel"] | NEEDED["Send Messages"]
        rooms = [
            room
            for room in server.channels
            if room.type == TEXT
            and self._is_open(room, server)
            and permissions_in(room, server, us, ours) & may_write == may_write
        ]
        order = sorted(rooms, key=lambda one: (one.id != server.system_channel_id, one.position, int(one.id)))
        return order[0] if order else None

    def _is_open(self, room: Room, server: Server) -> bool:
        heard = self._taker.heard(_place(room, server))
        return not heard.muted and not heard.dedicated

    async def _owner(self, server: Server, calls: Calls) -> str:
        found = await calls.get("/users/{user_id}", user_id=server.owner_id)
        if isinstance(found, Trouble) and found.is_passing:
            raise Away(found.text)
        user = None if isinstance(found, Trouble) else read(found, User)
        return user.name if isinstance(user, User) else "somebody"


def _place(room: Room, server: Server) -> Place:
    return Place(room.id, server.id, name=room.name or "")


def _time_of(text: str | None) -> float:
    try:
        return datetime.fromisoformat(text or "").timestamp()
    except ValueError:
        return 0.0
