"""A whole gateway, with a puppet for an engine, behind the Discord of these tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from simcord.backend.models import Channel
from tests.channels.channel_rig import open_behind, until
from tests.channels.discord.server.people import Person
from tests.channels.discord.server.running import Server
from tests.channels.discord.server.world import Answer, Post
from tests.runtime.puppet import Play
from tests.runtime.rig import Rig

from pilothouse.channels.discord.channel import DiscordChannel
from pilothouse.channels.discord.config import DiscordConfig
from pilothouse.core.channel import ChannelHost, MenuCommand
from pilothouse.core.ids import UserId
from pilothouse.core.people import Role
from pilothouse.core.secret import Secret


class GatewayHouse:
    def __init__(self, server: Server, rig: Rig, channel: DiscordChannel) -> None:
        self.server = server
        self.rig = rig
        self.channel = channel

    async def until(self, seen: Callable[[], Any]) -> Any:
        return await until(
            seen,
            self.rig,
            lambda: [(call.method, call.path, call.status) for call in self.server.calls[-20:]],
        )

    async def until_shown(self, channel: Channel, text: str) -> Post:
        """The newest message of ours there that has these words."""

        def found() -> Post | None:
            posts = self.server.world.shown(channel)
            return next((post for post in reversed(posts) if text in post.text), None)

        return await self.until(found)

    async def until_asked(self, channel: Channel, text: str, *, beside: Post | None = None) -> Post:
        """The newest message there that can be answered; progress tells of an ask too, and can only be stopped."""

        def found() -> Post | None:
            for post in reversed(self.server.world.shown(channel)):
                if (
                    text in post.text
                    and (post.selects or set(post.buttons) - {"Stop"})
                    and post is not beside
                ):
                    return post
            return None

        post: Post = await self.until(found)
        await self.rig.until_delivered()
        return post

    async def until_whispered(self, answer: Answer) -> str:
        """What only the person who pressed reads."""

        def found() -> str:
            told = [post.text for post in answer.followups]
            return "\n".join([*told, answer.text] if answer.kind == "message" else told)

        return await self.until(found)

    async def until_connected(self) -> None:
        await self.until(lambda: self.server.gateway.connected)


def role_id(person: Person) -> UserId:
    return UserId(f"discord:{person.id}")


def config_for(server: Server, **changes: Any) -> DiscordConfig:
    return DiscordConfig(
        token=Secret(server.token),
        api_base=server.api_base,
        gateway_url=server.gateway_url,
        cdn_base=server.cdn_base,
        **changes,
    )


@asynccontextmanager
async def open_gateway(
    server: Server,
    folder: Path,
    people: dict[Person, Role],
    *plays: Play,
    config: DiscordConfig | None = None,
    menu: Sequence[MenuCommand] = (),
    kind: type[DiscordChannel] = DiscordChannel,
    **settings: Any,
) -> AsyncIterator[GatewayHouse]:
    roles = {role_id(person): role for person, role in people.items()}

    def make(host: ChannelHost) -> DiscordChannel:
        return kind(config or config_for(server), host)

    async with open_behind(make, folder, roles, *plays, menu=menu, **settings) as (rig, channel):
        house = GatewayHouse(server, rig, channel)
        await house.until_connected()
        yield house
