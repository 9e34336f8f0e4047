"""simcord's own Discord in the loop of the test: no socket and no other process, its people, its rules, its clock.

The adapter runs as it is: its client logs in through simcord's HTTP client, and hears simcord's gateway. simcord's clock
stands still unless a test moves it, so a busy machine never misses three seconds, and a test needs no quarter of an hour.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import discord
import msgspec
from simcord import Env
from simcord._clock import Clock
from simcord._dpy_internals import get_state
from simcord.actors import MemberActor
from simcord.backend import Backend, serializers
from simcord.builders import ChannelHandle
from simcord.enums import ComponentType, InteractionType
from simcord.interactions import base_payload
from simcord.results import InteractionResult
from tests.channels.channel_rig import MENU, open_behind
from tests.channels.discord.line import Line, open_at
from tests.runtime.puppet import Play
from tests.runtime.rig import Rig

from pilothouse.channels.discord.addresses import DISCORD
from pilothouse.channels.discord.channel import DiscordChannel
from pilothouse.channels.discord.config import DiscordConfig
from pilothouse.core.channel import ChannelHost
from pilothouse.core.ids import ConversationId, UserId
from pilothouse.core.message import Address
from pilothouse.core.people import Role
from pilothouse.core.secret import Secret
from pilothouse.testing.desk import ScriptedDesk

NOWHERE = "127.0.0.1:9"
"""Whatever would leave the process goes to where nobody listens."""
WITHIN_S = 100.0


class StoppedClock(Clock):
    """simcord's, from now on: an id tells when it was made, and ours is the real clock."""

    def __init__(self) -> None:
        super().__init__()
        self._epoch = datetime.now(UTC)


class Inside:
    def __init__(self) -> None:
        self.env = Env(discord.Client(intents=discord.Intents(guilds=True)), settle_timeout=WITHIN_S)
        self.env.backend = self.backend = Backend(clock=StoppedClock())
        self.guild = self.env.create_guild("Lab")
        self.general = self.guild.create_text_channel("general")
        self.connected = False

    def person(self, name: str) -> MemberActor:
        return self.guild.add_member(self.env.create_user(name, global_name=name.title()))

    # What stands in the place of a network.

    async def start(self, client: discord.Client, token: str) -> None:
        """Logs the adapter's own client in, says READY and tells of the servers, until it is cancelled."""
        self.env.bot = client
        _tell_raw(client)
        await self.env.start()
        self.connected = True
        try:
            await anyio.sleep_forever()
        finally:
            self.connected = False
            with anyio.CancelScope(shield=True):
                await self.env.shutdown()

    def make(self, host: ChannelHost) -> DiscordChannel:
        config = DiscordConfig(
            token=Secret("simcord.in.process"),
            api_base=f"http://{NOWHERE}/api/v10",
            gateway_url=f"ws://{NOWHERE}",
            cdn_base=f"http://{NOWHERE}/cdn",
        )
        return DiscordChannel(config, host, self.start)

    # What people see.

    def shown(self, channel: ChannelHandle | None = None) -> list[discord.Message]:
        """What the bot said there, oldest first, as it stands now, without what one person alone reads."""
        found = (channel or self.general).history()
        return [m for m in found if m.author.id == self.backend.bot_user.id and not m.flags.ephemeral]

    def called(self, method: str, path: str) -> list[Any]:
        """The bodies of the requests to where the path begins so."""
        found = self.env.http_requests
        return [one.json for one in found if method in ("", one.method) and one.path.startswith(path)]

    @property
    def last(self) -> InteractionResult:
        """What somebody did last."""
        return InteractionResult(self.env, list(self.backend.interactions.values())[-1])

    def token_of(self, result: InteractionResult) -> str:
        return result._interaction.token

    # What nobody can do with a client of Discord's, and what happens all the same.

    def forge(self, who: MemberActor, message: discord.Message, custom_id: str) -> InteractionResult:
        """A press of whatever is named, and at once: nothing of ours runs before the next one."""
        record, payload = base_payload(
            self.backend,
            type=int(InteractionType.MESSAGE_COMPONENT),
            channel_id=message.channel.id,
            guild_id=self.guild.id,
            user_id=who.id,
            data={"custom_id": custom_id, "component_type": int(ComponentType.BUTTON)},
        )
        stored = self.backend.get_message(message.channel.id, message.id)
        payload["message"] = dict(serializers.message_payload(self.backend, stored))
        record.source_message_id = message.id
        self.backend.emit("INTERACTION_CREATE", payload)
        return InteractionResult(self.env, record)

    @contextmanager
    def arriving_after(self, seconds: float) -> Iterator[None]:
        """What somebody does meanwhile reaches the bot only after so long."""
        with self._at_interactions(lambda _event, _payload: self.backend.advance_clock(seconds)):
            yield

    @contextmanager
    def telling_twice(self) -> Iterator[None]:
        """What somebody does meanwhile comes twice, as after a resumed session."""
        told: list[str] = []

        def again(event: str, payload: Mapping[str, Any]) -> None:
            if payload["id"] not in told:
                told.append(payload["id"])
                self.backend.emit(event, payload)

        with self._at_interactions(again):
            yield

    @contextmanager
    def _at_interactions(self, act: Callable[[str, Mapping[str, Any]], None]) -> Iterator[None]:
        def hear(event: str, payload: Mapping[str, Any]) -> None:
            if event == "INTERACTION_CREATE":
                act(event, payload)

        self.backend.subscribers.append(hear)
        try:
            yield
        finally:
            self.backend.subscribers.remove(hear)


def _tell_raw(client: discord.Client) -> None:
    """simcord feeds discord.py's parsers and opens no socket: dispatch each event as the raw frame that a socket brings."""
    parsers = get_state(client).parsers

    def both(name: str, parse: Callable[[Any], None]) -> Callable[[Any], None]:
        def hear(data: Any) -> None:
            frame = {"op": 0, "t": name, "d": data}
            client.dispatch("socket_raw_receive", msgspec.json.encode(frame).decode())
            parse(data)

        return hear

    parsers.update({name: both(name, parse) for name, parse in parsers.items()})


class House:
    """A whole gateway behind it."""

    def __init__(self, inside: Inside, rig: Rig, channel: DiscordChannel) -> None:
        self.inside = inside
        self.rig = rig
        self.channel = channel

    @property
    def place(self) -> ConversationId:
        return ConversationId(f"discord:{self.inside.general.id}")

    def told(self, event: str) -> list[dict[str, object]]:
        return [fields for name, fields in self.rig.logged if name == event]

    async def build(self, who: MemberActor) -> None:
        """Somebody says something that is for us, and the next play begins."""
        await who.send(self.inside.general, f"<@{self.inside.backend.bot_user.id}> build it")

    async def until(self, seen: Callable[[], Any]) -> Any:
        with anyio.move_on_after(WITHIN_S):
            while not (found := seen()):
                await anyio.sleep(0.01)
            return found
        raise AssertionError(
            f"never seen; {self.inside.env.transcript()[-3000:]}\nthe log ends with {self.rig.logged[-12:]}"
        )

    async def until_shown(self, text: str) -> discord.Message:
        return await self.until(lambda: next((m for m in self.inside.shown() if text in m.content), None))

    async def until_asked(self, text: str) -> discord.Message:
        """The newest message that can be answered; progress can only be stopped."""
        return await self.until(
            lambda: next(
                (m for m in reversed(self.inside.shown()) if text in m.content and set(keys(m)) - {"Stop"}),
                None,
            )
        )

    async def until_whispered(self, result: InteractionResult) -> str:
        """What only the person who did it reads."""

        def found() -> str:
            said = [result.response] if result.response is not None and not result.deferred else []
            return "\n".join(one.content for one in (*said, *result.followups) if one.ephemeral)

        return await self.until(found)


def keys(message: discord.Message) -> dict[str, str]:
    """Label, or placeholder, → custom id of whatever can be pressed or chosen from."""
    found: dict[str, str] = {}
    for row in message.components:
        for item in row.children if isinstance(row, discord.ActionRow) else ():
            if isinstance(item, discord.Button):
                found[item.label or ""] = item.custom_id or ""
            elif isinstance(item, discord.SelectMenu):
                found[item.placeholder or ""] = item.custom_id
    return found


def address_of(channel: ChannelHandle) -> Address:
    return Address(DISCORD, str(channel.id))


@asynccontextmanager
async def open_house(
    inside: Inside, folder: Path, people: Mapping[MemberActor, Role], *plays: Play, **settings: Any
) -> AsyncIterator[House]:
    """Ready once every command stands in the menu. What simcord cannot do, and what breaks us, fails the test.

    Of a turn that runs nothing is shown, unless the settings say so: what stands there was said for good."""
    roles = {UserId(f"discord:{person.id}"): role for person, role in people.items()}
    chosen: dict[str, Any] = {"first_view_s": 1000.0, **settings}
    async with open_behind(inside.make, folder, roles, *plays, menu=MENU, **chosen) as (rig, channel):
        house = House(inside, rig, channel)
        await house.until(lambda: inside.connected and _has_menu(inside))
        yield house
        assert _errors(rig.logged) == []
    assert inside.env.errors == []


@asynccontextmanager
async def open_adapter(inside: Inside, folder: Path, desk: ScriptedDesk) -> AsyncIterator[Line]:
    """The adapter alone, before a desk of the test's."""
    async with open_at(inside.make, folder, menu=MENU, desk=desk) as line:
        await line.until(lambda: inside.connected and _has_menu(inside))
        yield line
        assert _errors(line.logged) == []
    assert inside.env.errors == []


def _has_menu(inside: Inside) -> bool:
    return bool(inside.backend.commands.get(inside.guild.id))


def _errors(logged: list[tuple[str, dict[str, Any]]]) -> list[tuple[str, dict[str, Any]]]:
    return [(name, fields) for name, fields in logged if fields.get("level") == "error"]
