"""Threads that were opened and put to sleep, all while we were away: nobody tells of them, so they are looked for in the
lists of those that sleep below each channel.

A server is looked through once at a time. Whoever comes back while that still goes on may have missed something anew: then
it is looked through once more.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct
from msgspec.structs import replace

from pilothouse.channels.discord.config import Heard
from pilothouse.channels.discord.insisting import Insisting
from pilothouse.channels.discord.marks import Hung, Marks
from pilothouse.channels.discord.trouble import Trouble
from pilothouse.channels.discord.wire import WITH_PRIVATE_THREADS, Channel, Sleepers, Sleeping, read, sent_at

PAGE = 100

PUBLIC = "/channels/{channel_id}/threads/archived/public"
PRIVATE = "/channels/{channel_id}/threads/archived/private"
"""For whoever may manage threads."""
JOINED = "/channels/{channel_id}/users/@me/threads/archived/private"
"""The newest first, by when they were opened, and not by when they were archived as in the others."""


class Absence(Struct, frozen=True):
    """What we knew of a server when we came back: somebody may speak anywhere before all of it was looked at."""

    guild: str
    since: str
    """The number that a message had when we were last there."""
    marks: dict[str, str]
    asleep: frozenset[str]
    """Threads that are read anyhow."""
    parents: tuple[Channel, ...]
    """The channels whose threads are looked for."""


class Searching:
    """`begin` reads a thread of a server, from a message on."""

    def __init__(
        self,
        marks: Marks,
        heard: Callable[..., Heard],
        insisting: Insisting,
        log: Callable[..., None],
        begin: Callable[[str, str, TaskGroup, str], None],
    ) -> None:
        self._marks = marks
        self._heard = heard
        self._insisting = insisting
        self._log = log
        self._begin = begin
        self._now: dict[str, Absence] = {}
        """For which absence each server is looked through."""
        self._next: dict[str, Absence] = {}
        """For which one after that."""

    def look(self, absence: Absence, tasks: TaskGroup) -> None:
        guild = absence.guild
        if guild not in self._now:
            self._now[guild] = absence
            tasks.start_soon(self._find, guild, tasks)
        elif (waits := self._next.get(guild)) is None:
            self._next[guild] = absence
        else:
            # What was heard between the two may be newer than what was missed before them.
            self._next[guild] = replace(waits, since=absence.since, parents=absence.parents)

    def meet(self, thread: Sleeping, tasks: TaskGroup) -> None:
        """Somebody may have woken it before we looked there: then it stands in no list any more."""
        absence = self._now.get(thread.guild_id or "")
        if absence is None or thread.thread_metadata.archived or thread.id in absence.marks:
            return
        parent = next((one.id for one in absence.parents if one.id == thread.parent_id), None)
        if parent is not None:
            absence.marks[thread.id] = absence.since  # it is met once
            self._read(thread, parent, absence, tasks)

    async def _find(self, guild: str, tasks: TaskGroup) -> None:
        while (absence := self._now.get(guild)) is not None:
            async with anyio.create_task_group() as finding:
                for parent in absence.parents:
                    finding.start_soon(self._find_below, parent, absence, tasks)
            del self._now[guild]
            if guild in self._next:
                self._now[guild] = self._next.pop(guild)
        self._marks.back(guild)

    async def _find_below(self, parent: Channel, absence: Absence, tasks: TaskGroup) -> None:
        """Threads below a channel that were archived since, and hold something newer."""
        self._take(await self._list(PUBLIC, parent.id), parent.id, absence, tasks)
        if parent.type not in WITH_PRIVATE_THREADS:
            return
        listed = await self._list(PRIVATE, parent.id)
        if _is_forbidden(listed):
            listed = await self._list(JOINED, parent.id)
        if not _is_forbidden(listed):
            self._take(listed, parent.id, absence, tasks)

    def _take(self, listed: Sleepers | Trouble, parent: str, absence: Absence, tasks: TaskGroup) -> None:
        if isinstance(listed, Trouble):
            self._log("discord.threads_unlisted", level="warning", channel=parent, why=listed.text)
            return
        awoke = [thread for thread in listed.threads if _was_awake(thread, absence.since)]
        for thread in awoke:
            if thread.id not in absence.asleep:
                self._read(thread, parent, absence, tasks)
        if listed.has_more and len(awoke) == len(listed.threads):
            self._log("discord.threads_unread", level="warning", guild=absence.guild, channel=parent)

    def _read(self, thread: Sleeping, parent: str, absence: Absence, tasks: TaskGroup) -> None:
        after, last = absence.marks.get(thread.id, absence.since), thread.last_message_id
        if last is None or int(last) <= int(after) or self._heard(thread.id, parent).muted:
            return
        self._marks.read_to(thread.id, after, hung=Hung(absence.guild, parent))
        self._begin(thread.id, absence.guild, tasks, after)

    async def _list(self, path: str, parent: str) -> Sleepers | Trouble:
        return await self._insisting.until_answered(parent, partial(self._ask, path, parent))

    async def _ask(self, path: str, parent: str) -> Sleepers | Trouble:
        page = await self._insisting.get(path, {"limit": PAGE}, parent)
        listed = page if isinstance(page, Trouble) else read(page, Sleepers)
        # It came whole, and is the same the next time: whoever asked again would ask for ever.
        return (
            Trouble(f"the list cannot be read: {listed}", status=200) if isinstance(listed, str) else listed
        )


def _is_forbidden(listed: Sleepers | Trouble) -> bool:
    return isinstance(listed, Trouble) and listed.is_forbidden


def _was_awake(thread: Sleeping, since: str) -> bool:
    """Whether it was archived after a message with this number was sent."""
    archived = thread.thread_metadata.archive_timestamp
    return archived is not None and archived.timestamp() > sent_at(since)
