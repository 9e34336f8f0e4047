"""Reads what was said while we were away: the history of each channel after the last message that we read there.

Only channels and threads that we listen to are read, first those where every message is for us. Messages that arrive
meanwhile wait until the history of their channel is read. A channel without a mark is read from the moment that we were
last in its server; on the first visit it begins with the next message.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import anyio
from anyio.abc import TaskGroup

from pilothouse.channels.discord.addresses import place_of
from pilothouse.channels.discord.config import Heard
from pilothouse.channels.discord.journal import Hung, Marks
from pilothouse.channels.discord.posts import MESSAGES
from pilothouse.channels.discord.rest import Calls
from pilothouse.channels.discord.trouble import Trouble
from pilothouse.channels.discord.wire import FORUMS, TEXT_CHANNELS, THREADS, Channel, Event, Guild, number_at
from pilothouse.channels.skeleton import pause_s
from pilothouse.core.clock import Clock

PAGE = 100
MOST = 10_000
"""Messages read from one channel; of more, the newest are kept."""
MOST_PAGES = 1000
MOST_HELD = 1000
"""Live events of one channel that wait for its history; older messages are in that history."""
MOST_ARCHIVED = 100
"""Archived threads of one server that are read; each costs a request."""
AT_ONCE = 4
LONGEST_S = 30.0
AHEAD_S = 900.0
"""Our clock may be ahead of Discord's by this much without hiding a channel that was opened while we were away."""


class History:
    """`heard` says what we listen to in a place, given its id and its parent's. `feed` takes events as if they were live."""

    def __init__(
        self,
        marks: Marks,
        heard: Callable[..., Heard],
        clock: Clock,
        log: Callable[..., None],
        feed: Callable[[list[Event]], None],
    ) -> None:
        self._marks = marks
        self._heard = heard
        self._clock = clock
        self._log = log
        self._feed = feed
        self._calls: Calls | None = None
        """The newest connection's: the one that a reader began with may be closed."""
        self._limiter = anyio.CapacityLimiter(AT_ONCE)
        self._held: dict[str, deque[Event]] = {}
        self._again: set[str] = set()
        """Channels that a new session wants read while an earlier reader is still at work."""

    def holds(self, event: Event) -> bool:
        """Keep an event back if the history of its channel is being read; say whether it was kept."""
        held = self._held.get(str(event.data.get("channel_id")))
        if held is None or not event.name.startswith("MESSAGE_"):
            return False
        held.append(event)
        return True

    def read_server(self, guild: Guild, calls: Calls, tasks: TaskGroup) -> None:
        """Read every channel and thread of a server that has something newer than its mark."""
        self._calls = calls
        listed = [one for one in (*guild.channels, *guild.threads) if one.type in TEXT_CHANNELS | THREADS]
        since = self._arrive(guild.id, listed)
        for channel in self._in_order(listed, guild.id):
            last = channel.last_message_id
            if self._marks.get(channel.id) is None:
                parent = channel.parent_id if channel.type in THREADS else None
                hung = Hung(guild.id, parent) if parent is not None else None
                self._marks.read_to(channel.id, since or last or channel.id, hung=hung)
            mark = self._marks.get(channel.id) or "0"
            if last is not None and int(last) > int(mark) and channel.type not in FORUMS:
                self._begin(channel.id, guild.id, tasks)
        for thread in self._archived(guild.id, {one.id for one in listed}):
            self._begin(thread, guild.id, tasks)

    def read_direct(self, calls: Calls, tasks: TaskGroup) -> None:
        """Read every private chat that we know: Discord lists none of them."""
        self._calls = calls
        for id in self._marks.direct:
            self._begin(id, None, tasks)

    def _arrive(self, guild: str, listed: list[Channel]) -> str | None:
        """The time until which we heard this server, as a message id; None on the first visit."""
        before = self._marks.arrive(guild, number_at(self._clock.now() - AHEAD_S))
        marks = [mark for one in listed if (mark := self._marks.get(one.id)) is not None]
        return max((*marks, *((before,) if before else ())), key=int, default=None)

    def _in_order(self, listed: list[Channel], guild: str) -> list[Channel]:
        heard = {one.id: self._heard(*place_of(one, guild).lineage) for one in listed}
        ours = [one for one in listed if not heard[one.id].muted]
        return sorted(ours, key=lambda one: (heard[one.id].trigger.mode != "all", one.type not in THREADS))

    def _archived(self, guild: str, listed: set[str]) -> list[str]:
        """Threads that we know and that the gateway does not list: they may have been written to before they slept."""
        known = self._marks.threads(guild).items()
        found = [id for id, parent in known if id not in listed and not self._heard(id, parent).muted]
        if (more := len(found) - MOST_ARCHIVED) > 0:
            self._log("discord.threads_unread", level="warning", guild=guild, threads=more)
        return found[:MOST_ARCHIVED]

    def _begin(self, channel: str, guild: str | None, tasks: TaskGroup) -> None:
        if channel in self._held:
            self._again.add(channel)
        else:
            self._held[channel] = deque(maxlen=MOST_HELD)
            tasks.start_soon(self._read, channel, guild, self._marks.get(channel) or "0")

    async def _read(self, channel: str, guild: str | None, after: str) -> None:
        found: list[Event] = []
        try:
            found = await self._messages(channel, guild, after)
        finally:
            self._again.discard(channel)
            read = {event.data["id"] for event in found}
            live = [
                event
                for event in self._held.pop(channel)
                if event.name != "MESSAGE_CREATE" or event.data.get("id") not in read
            ]
            self._feed([*found, *live])

    async def _messages(self, channel: str, guild: str | None, after: str) -> list[Event]:
        """All messages after one, oldest first."""
        found: deque[Event] = deque(maxlen=MOST)
        count = 0
        more = {"guild_id": guild} if guild is not None else {}
        for _ in range(MOST_PAGES):
            page = await self._page(channel, after)
            if isinstance(page, Trouble):
                self._give_up(channel, page)
                break
            raw = sorted(page, key=lambda message: int(message["id"]))
            found.extend(Event("MESSAGE_CREATE", {**message, **more}) for message in raw)
            count += len(page)
            after = raw[-1]["id"] if raw else after
            if len(page) < PAGE and channel not in self._again:
                break
        else:
            self._log("discord.history_unread", level="error", channel=channel, why=f"after {after} is more")
        if count > len(found):
            self._log("discord.history_cut", level="error", channel=channel, lost=count - len(found))
        if found:
            self._log("discord.caught_up", channel=channel, messages=len(found))
        return list(found)

    async def _page(self, channel: str, after: str) -> list[dict[str, Any]] | Trouble:
        """Ask until Discord answers: taking newer messages first would move the mark past the missed ones."""
        in_a_row = 0
        while True:
            page = await self._ask(channel, after)
            if not isinstance(page, Trouble) or not page.is_passing:
                return page
            self._log("discord.history_waits", level="warning", channel=channel, why=page.text)
            in_a_row += 1
            await self._clock.sleep(page.after_s or pause_s(in_a_row, LONGEST_S))

    async def _ask(self, channel: str, after: str) -> list[dict[str, Any]] | Trouble:
        if self._calls is None:
            return Trouble("there was no connection yet")
        async with self._limiter:
            self._again.discard(channel)
            page = await self._calls.get(MESSAGES, query={"after": after, "limit": PAGE}, channel_id=channel)
        if isinstance(page, Trouble) or _is_page(page):
            return page
        return Trouble("Discord's answer is no list of messages")

    def _give_up(self, channel: str, trouble: Trouble) -> None:
        if trouble.is_gone:
            self._marks.forget(channel)
            self._log("discord.channel_forgotten", level="warning", channel=channel, why=trouble.text)
        else:
            self._log("discord.history_unread", level="error", channel=channel, why=trouble.text)


def _is_page(page: Any) -> bool:
    return isinstance(page, list) and all(
        isinstance(one, dict) and str(one.get("id")).isdecimal() for one in page
    )
