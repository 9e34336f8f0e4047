"""All that Discord knows, as a test looks at it: guilds, channels, messages with all their states, answers to presses.

simcord keeps the truth; what stands here is what happened to it, in the wire's own JSON.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from simcord.backend import serializers
from simcord.backend.models import Channel, Guild, Interaction, Message, Role
from simcord.components import walk_components
from simcord.enums import ComponentType
from tests.channels.discord.server.state import State

Json = dict[str, Any]

EPHEMERAL, SILENT, COMPONENTS_V2 = 1 << 6, 1 << 12, 1 << 15


@dataclass
class Post:
    """A message and each state that it ever had."""

    message: Message
    versions: list[Json] = field(default_factory=list)
    deleted: bool = False

    @property
    def id(self) -> int:
        return self.message.id

    @property
    def channel_id(self) -> int:
        return self.message.channel_id

    @property
    def author_id(self) -> int:
        return self.message.author_id

    @property
    def wire(self) -> Json:
        return self.versions[-1]

    @property
    def texts(self) -> list[str]:
        """What stood there, from the first state to the last."""
        return [_text_of(version) for version in self.versions]

    @property
    def text(self) -> str:
        return _text_of(self.wire)

    @property
    def files(self) -> list[str]:
        return [file["filename"] for file in self.wire["attachments"]]

    @property
    def reply_to(self) -> int | None:
        reference = self.wire.get("message_reference")
        return int(reference["message_id"]) if reference else None

    @property
    def silent(self) -> bool:
        return bool(self.message.flags & SILENT)

    @property
    def ephemeral(self) -> bool:
        return bool(self.message.flags & EPHEMERAL)

    @property
    def reactions(self) -> list[str]:
        """Who reacted is in `message.reactions`."""
        return [reaction.emoji for reaction in self.message.reactions if reaction.user_ids]

    @property
    def components(self) -> list[Json]:
        """All of them, flat, also those within sections and containers."""
        return list(walk_components(self.wire["components"]))

    @property
    def buttons(self) -> dict[str, str]:
        """Label or emoji → custom id or address, of those that can be pressed."""
        return {
            one.get("label") or (one.get("emoji") or {}).get("name", ""): one.get("custom_id") or one["url"]
            for one in self.components
            if one["type"] == ComponentType.BUTTON and not one.get("disabled")
        }

    @property
    def selects(self) -> dict[str, dict[str, str]]:
        """Custom id → label → value."""
        return {
            one["custom_id"]: {option["label"]: option["value"] for option in one.get("options", ())}
            for one in self.components
            if one["type"] == ComponentType.STRING_SELECT and not one.get("disabled")
        }


def _text_of(version: Json) -> str:
    """What a person reads: the content, and what text displays show."""
    shown = [one.get("content", "") for one in walk_components(version["components"]) if "content" in one]
    return "\n".join([version["content"], *shown] if version["content"] else shown)


@dataclass
class Answer:
    """What somebody did — pressed, chose, submitted, commanded — and what the bot said to it."""

    world: "World"
    record: Interaction

    @property
    def kind(self) -> str:
        """Empty until the bot has answered; then message, deferred, deferred_update, update, modal, autocomplete."""
        return str(self.record.response_kind or "")

    @property
    def ephemeral(self) -> bool:
        return self.record.ephemeral

    @property
    def post(self) -> Post | None:
        """The message that is the answer, or that was changed as an answer."""
        return self.world.posts.get(self.record.message_id or 0)

    @property
    def text(self) -> str:
        return self.post.text if self.post and not self.record.loading else ""

    @property
    def followups(self) -> list[Post]:
        return [self.world.posts[id] for id in self.record.followup_ids]

    @property
    def modal(self) -> Json | None:
        return self.record.modal

    @property
    def choices(self) -> list[str]:
        return [choice["name"] for choice in self.record.autocomplete_choices or ()]


class World:
    def __init__(self) -> None:
        self.posts: dict[int, Post] = {}
        self.events: list[tuple[str, Json]] = []
        self.closed_to_bot: set[int] = set()
        """Who takes no direct messages from the bot."""
        self.nonce = ""
        self._stays = 0
        self.news = asyncio.Event()
        self.state = State(self._note)
        self.state.subscribers.append(self._hear)
        self.guild = self.make_guild("Lab")
        self.general = self.make_channel("general")

    @property
    def bot_id(self) -> int:
        return self.state.bot_user.id

    # Time passes.

    def wake(self) -> None:
        news, self.news = self.news, asyncio.Event()
        news.set()

    async def until(self, seen: Callable[[], object]) -> None:
        """Waits until `seen` holds; it is asked again after everything that happens."""
        while not seen():
            await self.news.wait()

    async def answered(self, answer: Answer) -> Answer:
        """Waits until the bot has answered with more than "I think"."""
        await self.until(lambda: answer.kind and answer.kind != "deferred")
        return answer

    def pass_time(self, seconds: float) -> None:
        """Discord's clock leaps; an interaction that is now too old cannot be answered any more."""
        self.state.pass_time(seconds)

    def _note(self, message: Message, change: str) -> None:
        post = self.posts.setdefault(message.id, Post(message))
        if change == "deleted":
            post.deleted = True
        else:
            post.versions.append(dict(serializers.message_payload(self.state, message)))
        self.wake()

    @contextmanager
    def telling_nonce(self, nonce: str) -> Iterator[None]:
        """The message that is now created is told with its nonce."""
        self.nonce = nonce
        try:
            yield
        finally:
            self.nonce = ""

    def _hear(self, event: str, payload: Any) -> None:
        if event == "MESSAGE_CREATE" and self.nonce:
            payload["nonce"] = self.nonce
        self.events.append((event, payload))
        self.wake()

    # What stands where.

    def shown(self, channel: Channel, *, author_id: int | None = None) -> list[Post]:
        """What the bot (or another) has said for all to see and what still stands there, oldest first."""
        author_id = author_id or self.bot_id
        return [
            post
            for post in self.posts.values()
            if (post.channel_id, post.author_id) == (channel.id, author_id)
            and not post.deleted
            and not post.ephemeral
        ]

    def texts(self, channel: Channel) -> list[str]:
        return [post.text for post in self.shown(channel)]

    def typed(self, channel: Channel) -> int:
        """How often the bot said that it is typing."""
        return sum(
            event == "TYPING_START"
            and (payload["channel_id"], payload["user_id"]) == (str(channel.id), str(self.bot_id))
            for event, payload in self.events
        )

    def file(self, post: Post, name: str) -> bytes:
        """The bytes of a file of a message."""
        url = next(file["url"] for file in post.wire["attachments"] if file["filename"] == name)
        data = self.state.cdn.get(url.partition("?")[0])
        assert data is not None, f"{url} is not stored"
        return data

    # What there is.

    def make_guild(self, name: str) -> Guild:
        return self.state.create_guild(name)

    def throw_out_and_invite_again(self, guild: Guild) -> None:
        """The bot, out of a server and into it; whoever is connected hears of both."""
        self.state.emit("GUILD_DELETE", {"id": str(guild.id)})
        self._stays += 1
        self.state.get_member(guild.id, self.bot_id).joined_at = f"2026-01-01T00:00:{self._stays:02}+00:00"
        self.state.emit("GUILD_CREATE", serializers.guild_create_payload(self.state, guild))

    def invite(self, guild: Guild, *, hours_ahead: int = 1) -> None:
        """The bot, into a server, at a time that nobody has seen yet."""
        at = datetime.now(UTC) + timedelta(hours=hours_ahead)
        self.state.get_member(guild.id, self.bot_id).joined_at = at.isoformat()
        self.state.emit("GUILD_CREATE", serializers.guild_create_payload(self.state, guild))

    def make_channel(self, name: str, *, guild: Guild | None = None) -> Channel:
        return self.state.create_channel((guild or self.guild).id, name)

    def make_role(self, name: str, *, guild: Guild | None = None) -> Role:
        return self.state.create_role((guild or self.guild).id, name)

    def delete_channel(self, channel: Channel) -> None:
        self.state.delete_channel(channel.id)

    def wake_up(self, thread: Channel) -> None:
        self.state.edit_channel(thread.id, {}, thread_metadata={"archived": False})

    def archive(self, thread: Channel, *, locked: bool = False) -> None:
        assert thread.thread_metadata is not None
        thread.thread_metadata.archive_timestamp = self.state.now_iso()  # simcord leaves it as it was
        self.state.edit_channel(thread.id, {}, thread_metadata={"archived": True, "locked": locked})
