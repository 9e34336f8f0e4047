"""What was said while we were away: read from each channel's history, from where we stopped, and fed in before anything
newer of that channel.

A channel that we never read begins with what is said from now on; a thread below one that we did read was opened while
we were away, else we had heard somebody in it. A channel that is gone, or forbidden, is forgotten.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
from anyio.abc import TaskGroup

from pilothouse.channels.discord.calls import Calls
from pilothouse.channels.discord.marks import Marks
from pilothouse.channels.discord.posting import MESSAGES
from pilothouse.channels.discord.trouble import Trouble
from pilothouse.channels.discord.wire import FORUMS, TEXT_CHANNELS, THREADS, Event, Guild
from pilothouse.core.clock import Clock

PAGE = 100
MOST_PAGES = 100
LONGEST_S = 30.0
AT_ONCE = 4


class CatchingUp:
    """`feed` takes events as if they came now. While a channel is read, what comes live waits in `holds`.

    A history that cannot be read now is asked for again until it can: whatever is newer would move the mark past it.
    """

    def __init__(
        self, marks: Marks, clock: Clock, log: Callable[..., None], feed: Callable[[list[Event]], None]
    ) -> None:
        self._marks = marks
        self._clock = clock
        self._log = log
        self._feed = feed
        self._calls: Calls | None = None
        """Of the newest connection: the one that a reading began with may be gone."""
        self._held: dict[str, list[Event]] = {}
        self._seats = anyio.CapacityLimiter(AT_ONCE)

    def holds(self, event: Event) -> bool:
        """Whether it waits until the history of its channel is read."""
        held = self._held.get(str(event.data.get("channel_id")))
        if held is not None and event.name.startswith("MESSAGE_"):
            held.append(event)
            return True
        return False

    def server(self, guild: Guild, calls: Calls, tasks: TaskGroup) -> None:
        """Of each channel that has something newer than what we read."""
        self._calls = calls
        channels = [one for one in (*guild.channels, *guild.threads) if one.type in TEXT_CHANNELS | THREADS]
        known = {one.id: mark for one in channels if (mark := self._marks.get(one.id)) is not None}
        newest = max(known.values(), key=int, default="0")
        for channel in channels:
            mark, last = known.get(channel.id), channel.last_message_id
            if mark is None and channel.type in THREADS and channel.parent_id in known:
                # Until the newest that we heard in this server we were there, and heard nobody in this thread.
                mark = newest
                self._marks.read_to(channel.id, newest)
            if mark is None:
                self._marks.read_to(channel.id, last or channel.id)
            elif last is not None and int(last) > int(mark) and channel.type not in FORUMS:
                self._begin(channel.id, guild.id, tasks)

    def direct(self, calls: Calls, tasks: TaskGroup) -> None:
        self._calls = calls
        for id in self._marks.direct:
            self._begin(id, None, tasks)

    def _begin(self, channel: str, guild: str | None, tasks: TaskGroup) -> None:
        if channel not in self._held:
            self._held[channel] = []
            tasks.start_soon(self._read, channel, guild)

    async def _read(self, channel: str, guild: str | None) -> None:
        found: list[Event] = []
        try:
            found = await self._history(channel, guild)
        finally:
            read = {event.data["id"] for event in found}
            live = [
                event
                for event in self._held.pop(channel)
                if event.name != "MESSAGE_CREATE" or event.data.get("id") not in read
            ]
            self._feed([*found, *live])

    async def _history(self, channel: str, guild: str | None) -> list[Event]:
        """Oldest first."""
        found: list[Event] = []
        after = self._marks.get(channel) or "0"
        for _ in range(MOST_PAGES):
            page = await self._page(channel, after)
            if isinstance(page, Trouble):
                self._give_up(channel, page)
                break
            raw = sorted(page, key=lambda message: int(message["id"]))
            more = {"guild_id": guild} if guild is not None else {}
            found += [Event("MESSAGE_CREATE", {**message, **more}) for message in raw]
            if len(page) < PAGE:
                break
            after = raw[-1]["id"]
        else:
            self._log("discord.history_cut", level="warning", channel=channel, read=len(found))
        if found:
            self._log("discord.caught_up", channel=channel, messages=len(found))
        return found

    async def _page(self, channel: str, after: str) -> list[dict[str, Any]] | Trouble:
        pause_s = 1.0
        while True:
            page = await self._ask(channel, after)
            if not isinstance(page, Trouble) or not page.is_passing:
                return page
            self._log("discord.history_waits", level="warning", channel=channel, why=page.text)
            self._let_go(channel)
            await self._clock.sleep(page.after_s or pause_s)
            pause_s = min(pause_s * 2, LONGEST_S)

    async def _ask(self, channel: str, after: str) -> list[dict[str, Any]] | Trouble:
        if self._calls is None:
            return Trouble("there was no connection yet")
        query = {"after": after, "limit": PAGE}
        async with self._seats:
            page = await self._calls.get(MESSAGES, query=query, channel_id=channel)
        if isinstance(page, Trouble) or _is_page(page):
            return page
        return Trouble("Discord's answer is no list of messages")

    def _let_go(self, channel: str) -> None:
        """So that not ever more waits: messages are in the history by the next time, and the rest is about older ones."""
        held = self._held[channel]
        others = [event for event in held if event.name != "MESSAGE_CREATE"]
        held.clear()
        self._feed(others)

    def _give_up(self, channel: str, trouble: Trouble) -> None:
        if trouble.is_gone or trouble.is_forbidden:
            self._marks.forget(channel)
            self._log("discord.channel_forgotten", level="warning", channel=channel, why=trouble.text)
        else:
            self._log("discord.history_unread", level="error", channel=channel, why=trouble.text)


def _is_page(page: Any) -> bool:
    return isinstance(page, list) and all(
        isinstance(one, dict) and str(one.get("id")).isdecimal() for one in page
    )
