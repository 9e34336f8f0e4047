"""Edits and deletions that nobody told us of, because we were away: Discord keeps no list of them, so each message that
still waits behind a turn is looked at once, when a new session begins. A session that is resumed brings them itself.
"""

from __future__ import annotations

from collections.abc import Callable

from pilothouse.channels.discord.addressing import DISCORD, target_of
from pilothouse.channels.discord.calls import Calls
from pilothouse.channels.discord.marks import Marks
from pilothouse.channels.discord.places import Places
from pilothouse.channels.discord.sending import MESSAGE
from pilothouse.channels.discord.trouble import UNKNOWN_MESSAGE, Trouble
from pilothouse.channels.discord.wire import Event
from pilothouse.core.channel import Desk
from pilothouse.core.errors import PilothouseError

MOST = 50
"""Of one server, at one time: each is a request."""

CHANGES = ("MESSAGE_UPDATE", "MESSAGE_DELETE", "MESSAGE_DELETE_BULK")


class MakingUp:
    """`feed` takes events as if they came now."""

    def __init__(
        self,
        desk: Desk,
        places: Places,
        marks: Marks,
        log: Callable[..., None],
        feed: Callable[[list[Event]], None],
    ) -> None:
        self._desk = desk
        self._places = places
        self._marks = marks
        self._log = log
        self._feed = feed
        self._asked: dict[str, object] = {}
        """Messages that were asked about, and which question was the last: whoever asks later, or hears of a change
        meanwhile, knows better than the answer."""

    def hear(self, event: Event) -> None:
        """Each event, before anybody acts on it."""
        if event.name in CHANGES:
            for id in (event.data.get("id"), *(event.data.get("ids") or ())):
                self._asked.pop(str(id), None)

    async def look(self, guild: str | None, calls: Calls) -> None:
        """At what waits in a server; without one, in private chats."""
        try:
            waiting = await self._desk.waiting(DISCORD)
        except PilothouseError as error:
            self._log("discord.changes_missed", level="warning", why=str(error))
            return
        refs = [(str(target_of(ref.address)), ref.native_id) for ref in waiting if ref.native_id.isdecimal()]
        here = [one for one in refs if self._is_in(one[0], guild)]
        if len(here) > MOST:
            self._log("discord.changes_missed", level="warning", why=f"more than {MOST} messages wait")
        for channel, message in here[:MOST]:
            await self._look_at(channel, message, guild, calls)

    def _is_in(self, channel: str, guild: str | None) -> bool:
        if guild is None:
            return channel in self._marks.direct
        place = self._places.get(channel)
        return place is not None and place.guild == guild

    async def _look_at(self, channel: str, message: str, guild: str | None, calls: Calls) -> None:
        question = self._asked[message] = object()
        found = await calls.get(MESSAGE, channel_id=channel, message_id=message)
        if self._asked.get(message) is not question:
            return
        del self._asked[message]
        more = {"guild_id": guild} if guild is not None else {}
        if isinstance(found, Trouble):
            if found.code == UNKNOWN_MESSAGE:
                self._feed([Event("MESSAGE_DELETE", {"id": message, "channel_id": channel, **more})])
            else:
                self._log("discord.changes_missed", level="warning", message=message, why=found.text)
        elif isinstance(found, dict) and found.get("edited_timestamp"):
            self._feed([Event("MESSAGE_UPDATE", {**found, **more})])  # whoever knows it already leaves it
