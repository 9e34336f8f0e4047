"""A whole gateway, with a puppet for an engine, behind the Bot API server of these tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from tests.channels.telegram.server.people import Person
from tests.channels.telegram.server.running import Server
from tests.channels.telegram.server.world import Post
from tests.runtime.puppet import Play, PuppetEngine
from tests.runtime.rig import Rig, open_rig

from pilothouse.channels.telegram.addressing import TELEGRAM
from pilothouse.channels.telegram.channel import TelegramChannel
from pilothouse.channels.telegram.config import TelegramConfig
from pilothouse.core.channel import ChannelHost, MenuCommand
from pilothouse.core.ids import BlobHash, UserId
from pilothouse.core.message import Attachment
from pilothouse.core.people import AUTHORITY, People, Role
from pilothouse.core.secret import Secret
from pilothouse.runtime.blobs import StoreBlobs
from pilothouse.runtime.clock import SystemClock
from pilothouse.runtime.commands import COMMANDS

MENU = tuple(MenuCommand(name, spec.summary, AUTHORITY[f"command.{name}"]) for name, spec in COMMANDS.items())


class LateBlobs:
    """The store is opened after the channel was made."""

    inner: StoreBlobs

    async def get(self, blob: BlobHash) -> bytes:
        return await self.inner.get(blob)

    async def put(self, data: bytes, name: str, media_type: str) -> Attachment:
        return await self.inner.put(data, name, media_type)


class GatewayHouse:
    def __init__(self, server: Server, rig: Rig, channel: TelegramChannel) -> None:
        self.server = server
        self.rig = rig
        self.channel = channel

    async def until(self, seen: Callable[[], Any], deadline_s: float = 60) -> Any:
        with anyio.move_on_after(deadline_s):
            while not (found := seen()):
                await anyio.sleep(0.01)
            return found
        calls = [(call.method, call.error) for call in self.server.calls[-20:]]
        raise AssertionError(
            f"never seen; the last calls were {calls}, the log ends with {self.rig.logged[-12:]}"
        )

    async def until_shown(self, chat_id: int, text: str, thread_id: int | None = None) -> Post:
        """The newest message of ours there that has these words."""

        def found() -> Post | None:
            posts = self.server.world.shown(chat_id, thread_id)
            return next((post for post in reversed(posts) if text in post.text), None)

        return await self.until(found)

    async def until_button(self, chat_id: int, label: str) -> Post:
        """The newest message of ours there that has this button: a view may name an ask, too."""

        def found() -> Post | None:
            posts = self.server.world.shown(chat_id)
            return next((post for post in reversed(posts) if label in post.buttons), None)

        return await self.until(found)

    async def until_toast(self, query: Any) -> str:
        return (await self.until(lambda: query.answer)).get("text", "")


def role_id(person: Person) -> UserId:
    return UserId(f"telegram:{person.id}")


def config_for(server: Server, **changes: Any) -> TelegramConfig:
    return TelegramConfig(token=Secret(server.token), api_base=server.url, **changes)


@asynccontextmanager
async def open_gateway(
    server: Server,
    folder: Path,
    people: dict[Person, Role],
    *plays: Play,
    config: TelegramConfig | None = None,
    menu: Sequence[MenuCommand] = (),
    blobs: LateBlobs | None = None,
    **settings: Any,
) -> AsyncIterator[GatewayHouse]:
    blobs = blobs or LateBlobs()
    logged: list[tuple[str, dict[str, object]]] = []

    def log(event: str, **fields: object) -> None:
        logged.append((event, fields))

    host = ChannelHost(blobs, str(folder), log, SystemClock(), tuple(menu))
    channel = TelegramChannel(config or config_for(server), host)
    roles = People({role_id(person): role for person, role in people.items()})
    engine = PuppetEngine(*plays)
    async with open_rig(
        folder,
        engine,
        channels={TELEGRAM: channel},
        people=roles,
        known_channels=(TELEGRAM,),
        **settings,
    ) as rig:
        blobs.inner = StoreBlobs(rig.store, SystemClock())
        logged[:0] = rig.logged
        rig.logged = logged
        yield GatewayHouse(server, rig, channel)
