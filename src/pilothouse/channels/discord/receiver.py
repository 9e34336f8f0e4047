"""Receives from Discord while it runs: keeps each event on disk and hands it to the module that takes it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import anyio
import msgspec
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint
from msgspec.structs import replace

from pilothouse.channels.discord.accept import TakeFiles, Taker
from pilothouse.channels.discord.addresses import overtakes
from pilothouse.channels.discord.client import Start
from pilothouse.channels.discord.config import DiscordConfig, heard_in
from pilothouse.channels.discord.connection import Connection, Me
from pilothouse.channels.discord.history import History
from pilothouse.channels.discord.interactions import Interactions
from pilothouse.channels.discord.journal import Hung, Incoming, Marks, Numbered
from pilothouse.channels.discord.pace import Pace
from pilothouse.channels.discord.reactions import Reactions, is_stop
from pilothouse.channels.discord.rest import Calls
from pilothouse.channels.discord.servers import Places
from pilothouse.channels.discord.slash_commands import CommandMenu
from pilothouse.channels.discord.trouble import Away
from pilothouse.channels.discord.welcome import Welcome
from pilothouse.channels.discord.wire import Event, Guild, Interaction, read
from pilothouse.channels.intake_queue import Broke, Failures, IntakeQueue, Item, Job
from pilothouse.channels.receipts import Tell
from pilothouse.core.channel import ChannelHealth, ChannelHost, Desk
from pilothouse.core.ids import TurnId

Act = Callable[[str, Calls], Awaitable[None]]
"""Takes our user id and the calls of the connection."""


class Receiver:
    """`opened` and `closed` say when there is somebody to send through. `turn_of` knows whose progress a message is."""

    def __init__(
        self,
        config: DiscordConfig,
        host: ChannelHost,
        desk: Desk,
        places: Places,
        *,
        take_files: TakeFiles,
        tell: Tell,
        turn_of: Callable[[str], TurnId | None],
        opened: Callable[[Calls, Pace], None],
        closed: Callable[[], None],
        start: Start,
    ) -> None:
        log, clock, folder = host.log, host.clock, Path(host.state_dir)
        self._host = host
        self._places = places
        self._told_opened = opened
        self._told_closed = closed
        self._marks = Marks(folder / "marks.json", log)
        self._taker = Taker(
            config, desk, places, self._marks, clock, take_files=take_files, tell=tell, log=log
        )
        self._interactions = Interactions(desk, self._taker, log)
        self._reactions = Reactions(desk, self._taker, self._interactions, clock, turn_of=turn_of, log=log)
        self._menu = CommandMenu(folder / "commands.json", host.commands, clock, log, lambda: self._calls)
        self._incoming = Incoming(
            folder / "events.jsonl",
            log,
            is_work=self._is_work,
            pass_on=self._pass_on,
            settle=self._marks.settle,
            sleep=clock.sleep,
        )
        self._pressed = Incoming(
            folder / "presses.jsonl",
            log,
            is_work=self._is_work,
            pass_on=self._pass_on,
            settle=checkpoint,
            sleep=clock.sleep,
            urgent=True,
        )
        """Interactions, which must be acknowledged in three seconds, wait for no message."""
        self._history = History(self._marks, partial(heard_in, config), clock, log, self._incoming.feed)
        self._connection = Connection(
            config,
            clock,
            log,
            alarm=self._alarm,
            hear=self._hear,
            opened=self._opened,
            closed=self._closed,
            start=start,
        )
        self._welcome = Welcome(
            desk, self._taker, places, self._marks, log, name=lambda: self._me.name, now=clock.now()
        )
        self._failures = Failures(folder / "failed-events.jsonl", "discord.event", clock, log)
        self._left: list[Numbered] = []
        self._me = Me("", "", "")
        self._calls: Calls | None = None
        """The calls of the last connection; while it is closed they fail."""
        self._tasks: TaskGroup | None = None
        self._queue = IntakeQueue("discord.event", clock, log, passing=(Away,))

    async def run(self) -> None:
        self._left = [*await self._pressed.left_over(), *await self._incoming.left_over()]
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            tasks.start_soon(self._marks.keep)
            tasks.start_soon(self._incoming.run)
            tasks.start_soon(self._pressed.run)
            await self._connection.run()

    def health(self) -> ChannelHealth:
        health = self._connection.health()
        others = self._menu.trouble or self._failures.trouble
        return replace(health, trouble=health.trouble or others)

    # What the gateway says: at once, and without waiting for anything.

    def _opened(self, me: Me, calls: Calls) -> None:
        self._me, self._calls = me, calls
        self._host.log("discord.connected", bot=me.name)
        self._told_opened(calls, self._connection.pace)

    def _closed(self) -> None:
        self._told_closed()

    def _hear(self, event: Event) -> None:
        self._places.learn(event)
        if event.name in ("READY", "GUILD_CREATE"):
            self._arrive(event)
        elif event.name == "GUILD_DELETE":
            guild = str(event.data.get("id"))
            away = event.data.get("unavailable") is True
            self._host.log(
                "discord.server_away" if away else "discord.server_left", level="warning", guild=guild
            )
            self._menu.leave(guild)
            if not away:
                self._depart(guild)
        elif event.name.startswith("INTERACTION_"):
            self._pressed.hear(event)
        elif event.name.startswith("MESSAGE_") and not self._history.holds(event):
            self._incoming.hear(event)

    def _arrive(self, event: Event) -> None:
        """Take leftover events first, then missed messages, then new ones."""
        calls, tasks = self._calls, self._tasks
        if calls is None or tasks is None:
            return
        guild = read(event.data, Guild) if event.name == "GUILD_CREATE" else None
        if isinstance(guild, str):
            self._host.log("discord.server_unreadable", level="error", guild=event.data.get("id"), why=guild)
            return
        if guild is not None and guild.unavailable:
            return
        here = guild.id if guild else None
        mine = [one for one in self._left if one.event.data.get("guild_id") == here]
        self._left = [one for one in self._left if one not in mine]
        for one in mine:
            self._pass_on(one)
        if guild is None:
            for gone in set(self._places.guilds) - _servers_in(event):
                self._depart(gone)
            self._drop_left(event)
            self._history.read_direct(calls, tasks)
        else:
            self._history.read_server(guild, calls, tasks)
            tasks.start_soon(self._menu.register, guild)
            self._meet(guild, event)

    def _depart(self, guild: str) -> None:
        """Tell the desk that a server removed us. Not kept on disk: Discord refuses messages there anyway."""
        key, here = f"arrival:{guild}", self._welcome.leave(guild)
        if here is not None:
            self._put_unkept(key, partial(self._welcome.tell_left, here))

    def _meet(self, guild: Guild, event: Event) -> None:
        """Greet a new server. Not kept on disk: each session lists every server again."""
        key = f"arrival:{guild.id}"
        if self._welcome.is_new(guild):
            self._put_unkept(key, partial(self._act, partial(self._welcome.take, event)))

    def _drop_left(self, ready: Event) -> None:
        """Drop leftover events of servers that we are no longer in."""
        here = _servers_in(ready)
        gone = [one for one in self._left if here and str(one.event.data.get("guild_id")) not in here]
        self._left = [one for one in self._left if one not in gone]
        for one in gone:
            self._host.log(
                "discord.event_dropped", level="warning", key=one.key, why="we are no longer in its server"
            )
            self._done(one.key)

    # What is kept by now.

    def _done(self, key: str) -> None:
        """Remove a key from both journals: an older version kept both kinds in one."""
        self._incoming.done(key)
        self._pressed.done(key)

    async def _is_work(self, event: Event) -> bool:
        return await self._taker.is_work(event, self._me.id)

    def _pass_on(self, one: Numbered) -> None:
        event = one.event
        if event.name == "MESSAGE_CREATE":
            self._read_to(event)
        match event.name:
            case "INTERACTION_CREATE":
                if (take := self._press(event)) is not None:
                    self._put_unkept(one.key, partial(self._act, take))
                    return
            case "MESSAGE_REACTION_ADD" | "MESSAGE_REACTION_REMOVE":
                self._put_kept(one, self._reactions)
                return
            case _ if one.is_work:
                self._put_kept(one, self._taker)
                return
        self._done(one.key)

    def _put_kept(self, one: Numbered, taker: Taker | Reactions) -> None:
        take = partial(self._act, partial(taker.take, one.event))
        self._put(_place(one), one.key, take, partial(self._set_aside, one, taker))

    def _put_unkept(self, key: str, take: Job) -> None:
        """Queue something by itself whose failure is only logged."""
        self._put(key, key, take, partial(self._log_broken, key))

    def _put(self, place: str, key: str, take: Job, broke: Broke) -> None:
        async def done() -> None:
            self._done(key)

        if self._tasks is not None:
            self._queue.put(self._tasks, place, Item(take, broke, done, {"key": key}))

    async def _set_aside(self, one: Numbered, taker: Taker | Reactions, error: Exception) -> None:
        apologise = partial(self._act, partial(taker.apologise, one.event))
        raw = msgspec.json.encode(one.event)
        await self._failures.set_aside(raw, error=error, apologise=apologise, key=one.key)

    def _press(self, event: Event) -> Act | None:
        interaction = read(event.data, Interaction)
        if isinstance(interaction, Interaction):
            return partial(self._interactions.take, interaction)
        self._host.log("discord.interaction_unreadable", level="error", why=interaction)
        bare = read({name: event.data.get(name) for name in ("id", "token", "type")}, Interaction)
        return partial(self._interactions.turn_down, bare) if isinstance(bare, Interaction) else None

    async def _log_broken(self, key: str, error: Exception) -> None:
        """Log a failure of something that is not kept: the person was told, and the gateway lists servers again."""
        self._host.log("discord.event_failed", level="error", key=key, error=error)

    async def _act(self, act: Act) -> None:
        """Act through the newest connection, which may not be the one that brought the event."""
        if self._calls is None:
            raise Away("there was no connection yet")
        await act(self._me.id, self._calls)

    def _read_to(self, event: Event) -> None:
        id, channel = str(event.data.get("id", "")), str(event.data.get("channel_id", ""))
        if id.isdecimal() and channel:
            place = self._places.get(channel)
            hung = Hung(place.guild, place.parent) if place and place.guild and place.parent else None
            self._marks.read_to(channel, id, direct="guild_id" not in event.data, hung=hung)

    def _alarm(self, text: str) -> None:
        self._host.log("discord.trouble", level="error", text=text)


def _servers_in(ready: Event) -> set[str]:
    return {str(one["id"]) for one in ready.data.get("guilds") or () if "id" in one}


def _place(one: Numbered) -> str:
    """Return where an event waits: in its channel, or by itself if it stops a turn or asks what runs."""
    data, channel = one.event.data, str(one.event.data.get("channel_id"))
    match one.event.name:
        case "MESSAGE_CREATE":
            return one.key if overtakes(data) else channel
        case "MESSAGE_REACTION_ADD" | "MESSAGE_REACTION_REMOVE":
            return one.key if is_stop(data) else f"reactions:{channel}"
        case _:
            return channel
