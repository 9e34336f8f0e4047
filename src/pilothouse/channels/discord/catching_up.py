"""What was said while we were away: read from each channel's history, from where we stopped, and fed in before anything
newer of that channel.

Only where we listen, and first where everything is for us. A channel that we never read begins with what is said from now
on, unless it is younger than our absence; a thread below one that we did read was opened while we were away, else we had
heard somebody in it. A thread that we know and that is not listed sleeps, and may have been awake meanwhile. A channel that
is gone is forgotten.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from anyio.abc import TaskGroup

from pilothouse.channels.discord.addressing import place_of
from pilothouse.channels.discord.calls import Calls
from pilothouse.channels.discord.config import Heard
from pilothouse.channels.discord.insisting import Insisting
from pilothouse.channels.discord.marks import Hung, Marks
from pilothouse.channels.discord.posting import MESSAGES
from pilothouse.channels.discord.searching import Absence, Searching
from pilothouse.channels.discord.trouble import Trouble
from pilothouse.channels.discord.wire import (
    FORUMS,
    TEXT_CHANNELS,
    THREADS,
    WITH_THREADS,
    Channel,
    Event,
    Guild,
    Sleeping,
    number_at,
    read,
)
from pilothouse.core.clock import Clock

PAGE = 100
MOST = 10_000
"""Of one channel: if more was said, the newest of it."""
MOST_PAGES = 1000
MOST_HELD = 1000
"""Of what comes live into one channel while its history cannot be read: the rest is in that history."""
MOST_ASLEEP = 100
"""Threads of one server: each costs a request."""
MOST_LISTS = 100
"""Channels of one server whose sleeping threads are listed: each costs a request."""
AHEAD_S = 900.0
"""Our clock may be ahead of Discord's, whose time is in every id: what is opened right after we came must not seem to be from
before. What is looked at twice for this is known by its id."""


class CatchingUp:
    """`heard` tells what we listen to, for a place and what it hangs on. `feed` takes events as if they came now. While a channel is read, what comes live waits in `holds`.

    A history that cannot be read now is asked for again until it can: whatever is newer would move the mark past it.
    """

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
        self._insisting = Insisting(clock, log)
        self._searching = Searching(marks, heard, self._insisting, log, self._begin)
        self._held: dict[str, list[Event]] = {}
        self._anew: set[str] = set()
        """Channels that are read, and of which more may have been missed since they were last asked for."""

    def holds(self, event: Event) -> bool:
        """Whether it waits until the history of its channel is read."""
        held = self._held.get(str(event.data.get("channel_id")))
        if held is not None and event.name.startswith("MESSAGE_"):
            held.append(event)
            return True
        return False

    def server(self, guild: Guild, calls: Calls, tasks: TaskGroup) -> None:
        """Of each channel that has something newer than what we read."""
        self._insisting.calls = calls
        listed = [one for one in (*guild.channels, *guild.threads) if one.type in TEXT_CHANNELS | THREADS]
        known = {one.id: mark for one in listed if (mark := self._marks.get(one.id)) is not None}
        newest = max(known.values(), key=int, default="0")
        since = self._marks.come(guild.id, newest, number_at(self._clock.now() - AHEAD_S))
        ours = self._ours_first(listed, guild)
        known |= {one.id: one.id for one in ours if one.id not in known and _is_younger(one, since)}
        oldest = min(newest, since or newest, key=int)
        for channel in ours:
            last, on = channel.last_message_id, channel.parent_id
            if channel.type in THREADS and on in known and channel.id not in known:
                # Until the newest that we heard in this server we were there, and heard nobody in this thread; unless we
                # heard that one since we are back, and still look for what was missed.
                self._marks.read_to(channel.id, oldest, hung=Hung(guild.id, on))
            elif self._marks.get(channel.id) is None:
                self._marks.read_to(channel.id, known.get(channel.id, last or channel.id))
            mark = self._marks.get(channel.id) or "0"
            if last is not None and int(last) > int(mark) and channel.type not in FORUMS:
                self._begin(channel.id, guild.id, tasks)
        asleep = self._asleep(guild.id, {one.id for one in listed})
        for id in asleep:
            self._begin(id, guild.id, tasks)
        parents = [one for one in ours if one.id in known and one.type in WITH_THREADS]
        if since is not None:
            marks, searched = self._marks.copy(), tuple(parents[:MOST_LISTS])
            absence = Absence(guild.id, since, marks, frozenset(asleep), searched)
            self._searching.look(absence, tasks)

    def opened(self, event: Event) -> None:
        """A channel, before our eyes: whatever is said in it is newer."""
        channel = read(event.data, Channel)
        if isinstance(channel, str) or channel.type not in TEXT_CHANNELS or self._heard(channel.id).muted:
            return
        self._marks.read_to(channel.id, channel.last_message_id or channel.id)

    def changed(self, event: Event, tasks: TaskGroup) -> None:
        """A thread, also by waking."""
        thread = read(event.data, Sleeping)
        if not isinstance(thread, str):
            self._searching.meet(thread, tasks)

    def _ours_first(self, listed: list[Channel], guild: Guild) -> list[Channel]:
        heard = {one.id: self._heard(*place_of(one, guild.id).lineage) for one in listed}
        ours = [one for one in listed if not heard[one.id].muted]
        return sorted(ours, key=lambda one: (heard[one.id].trigger.mode != "all", one.type not in THREADS))

    def _asleep(self, guild: str, awake: set[str]) -> list[str]:
        known = self._marks.threads(guild).items()
        asleep = [id for id, on in known if id not in awake and not self._heard(id, on).muted]
        if len(asleep) > MOST_ASLEEP:
            self._log(
                "discord.threads_unread", level="warning", guild=guild, threads=len(asleep) - MOST_ASLEEP
            )
        return asleep[:MOST_ASLEEP]

    def direct(self, calls: Calls, tasks: TaskGroup) -> None:
        self._insisting.calls = calls
        for id in self._marks.direct:
            self._begin(id, None, tasks)

    def _begin(self, channel: str, guild: str | None, tasks: TaskGroup, after: str = "") -> None:
        """From where we stopped, unless `after` says from where. Whoever reads it already reads on."""
        if channel in self._held:
            self._anew.add(channel)
        else:
            self._held[channel] = []
            tasks.start_soon(self._read, channel, guild, after or self._marks.get(channel) or "0")

    async def _read(self, channel: str, guild: str | None, after: str) -> None:
        found: list[Event] = []
        try:
            found = await self._history(channel, guild, after)
        finally:
            self._anew.discard(channel)
            read = {event.data["id"] for event in found}
            live = [
                event
                for event in self._held.pop(channel)
                if event.name != "MESSAGE_CREATE" or event.data.get("id") not in read
            ]
            self._feed([*found, *live])

    async def _history(self, channel: str, guild: str | None, after: str) -> list[Event]:
        """Oldest first."""
        found: deque[Event] = deque(maxlen=MOST)
        count = 0
        more = {"guild_id": guild} if guild is not None else {}
        for _ in range(MOST_PAGES):
            page = await self._insisting.until_answered(channel, partial(self._page, channel, after))
            if isinstance(page, Trouble):
                self._give_up(channel, page)
                break
            raw = sorted(page, key=lambda message: int(message["id"]))
            found.extend(Event("MESSAGE_CREATE", {**message, **more}) for message in raw)
            count += len(page)
            after = raw[-1]["id"] if raw else after
            if len(page) < PAGE and channel not in self._anew:
                break
        else:
            self._log("discord.history_unread", level="error", channel=channel, why=f"after {after} is more")
        if count > len(found):
            self._log("discord.history_cut", level="error", channel=channel, lost=count - len(found))
        if found:
            self._log("discord.caught_up", channel=channel, messages=len(found))
        return list(found)

    async def _page(self, channel: str, after: str) -> list[dict[str, Any]] | Trouble:
        self._anew.discard(channel)
        page = await self._insisting.get(MESSAGES, {"after": after, "limit": PAGE}, channel)
        if not isinstance(page, Trouble) and not _is_page(page):
            page = Trouble("Discord's answer is no list of messages")
        if isinstance(page, Trouble) and page.is_passing:
            self._let_go(channel)
        return page

    def _let_go(self, channel: str) -> None:
        """So that not ever more waits: messages are in the history by the next time that whoever reads it asks for it, but
        some are kept, for it may be forbidden by then. What is about older ones need not wait."""
        held = self._held.get(channel, [])
        kept = {id for event in held if event.name == "MESSAGE_CREATE" for id in _ids_in(event)}
        kept = set(sorted(kept, key=int)[-MOST_HELD:])
        older = [event for event in held if event.name != "MESSAGE_CREATE" and not _ids_in(event) & kept]
        held[:] = [event for event in held if _ids_in(event) & kept]
        self._feed(older)

    def _give_up(self, channel: str, trouble: Trouble) -> None:
        if trouble.is_gone:
            self._marks.forget(channel)
            self._log("discord.channel_forgotten", level="warning", channel=channel, why=trouble.text)
        else:
            self._log("discord.history_unread", level="error", channel=channel, why=trouble.text)


def _is_younger(channel: Channel, since: str | None) -> bool:
    """Whether a channel was opened after a message with this number was sent."""
    return since is not None and channel.type not in THREADS and int(channel.id) > int(since)


def _ids_in(event: Event) -> set[str]:
    """The messages that it is about."""
    data = event.data
    ids = (data.get("message_id") or data.get("id"), *(data.get("ids") or ()))
    return {id for one in ids if (id := str(one)).isdecimal()}


def _is_page(page: Any) -> bool:
    return isinstance(page, list) and all(
        isinstance(one, dict) and str(one.get("id")).isdecimal() for one in page
    )
