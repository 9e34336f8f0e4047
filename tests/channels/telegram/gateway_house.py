"""A whole gateway, with a puppet for an engine, behind the Bot API server of these tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.channels.channel_rig import MENU, LateBlobs, open_behind, until
from tests.channels.telegram.server.people import Person
from tests.channels.telegram.server.running import Server
from tests.channels.telegram.server.world import Post
from tests.runtime.puppet import Play
from tests.runtime.rig import Rig

from pilothouse.channels.telegram.channel import TelegramChannel
from pilothouse.channels.telegram.config import TelegramConfig
from pilothouse.core.channel import ChannelHost, MenuCommand
from pilothouse.core.ids import UserId
from pilothouse.core.people import Role
from pilothouse.core.secret import Secret


class GatewayHouse:
    def __init__(self, server: Server, rig: Rig, channel: TelegramChannel) -> None:
        self.server = server
        self.rig = rig
        self.channel = channel

    async def until(self, seen: Callable[[], Any]) -> Any:
        return await until(
            seen, self.rig, lambda: [(call.method, call.error) for call in self.server.calls[-20:]]
        )

    async def until_shown(self, chat_id: int, text: str, thread_id: int | None = None) -> Post:
        """The newest message of ours there that has these words."""

        def found() -> Post | None:
            posts = self.server.world.shown(chat_id, thread_id)
            return next((post for post in reversed(posts) if text in post.text), None)

        post: Post = await self.until(found)
        await self.rig.until_delivered()
        return post

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
    """No text waits for forwards, unless a test is about that: nobody needs the second each time."""
    given: dict[str, Any] = {"forward_wait_s": 0.0, **changes}
    return TelegramConfig(token=Secret(server.token), api_base=server.url, **given)


@asynccontextmanager
async def open_gateway(
    server: Server,
    folder: Path,
    people: dict[Person, Role],
    *plays: Play,
    config: TelegramConfig | None = None,
    menu: Sequence[MenuCommand] = MENU,
    blobs: LateBlobs | None = None,
    **settings: Any,
) -> AsyncIterator[GatewayHouse]:
    roles = {role_id(person): role for person, role in people.items()}

    def make(host: ChannelHost) -> TelegramChannel:
        return TelegramChannel(config or config_for(server), host)

    async with open_behind(make, folder, roles, *plays, menu=menu, blobs=blobs, **settings) as (rig, channel):
        yield GatewayHouse(server, rig, channel)
