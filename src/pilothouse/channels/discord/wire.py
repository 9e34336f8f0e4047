"""Discord's objects as values (API v10), with only the fields that we read. Ids are text.

An unknown field costs nothing. What does not fit is `None` from `read`, with a reason for the log.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

T = TypeVar("T")

EPOCH_MS = 1_420_070_400_000
TEXT_CHANNELS = frozenset({0, 2, 5, 13, 15, 16})
"""Text, voice with its chat, announcements, stage, forum, media: where messages or threads can be."""
FORUMS = frozenset({15, 16})
"""They have threads alone: their `last_message_id` is the newest of those, and nobody can read their history."""
WITH_THREADS = frozenset({0, 5, *FORUMS})
DIRECT = frozenset({1, 3})
THREADS = frozenset({10, 11, 12})
COMMAND, COMPONENT, AUTOCOMPLETE = 2, 3, 4
"""Kinds of interactions. What is suggested while one types is of no use later."""
PLAIN, REPLY, THREAD_STARTER = 0, 19, 21


class Member(Struct, frozen=True):
    nick: str | None = None
    roles: tuple[str, ...] = ()
    user: User | None = None


class User(Struct, frozen=True):
    id: str
    username: str = ""
    global_name: str | None = None
    bot: bool = False
    member: Member | None = None
    """Beside people who are mentioned."""

    @property
    def name(self) -> str:
        nick = self.member.nick if self.member else None
        return nick or self.global_name or self.username or "Somebody"


class File(Struct, frozen=True):
    id: str
    filename: str = "file"
    size: int = 0
    url: str = ""
    content_type: str | None = None
    description: str | None = None


class Sticker(Struct, frozen=True):
    name: str = ""


class Reference(Struct, frozen=True):
    type: int = 0
    message_id: str | None = None
    channel_id: str | None = None


class Snapshot(Struct, frozen=True):
    """A forwarded message."""

    message: Snapped


class Snapped(Struct, frozen=True):
    content: str = ""
    attachments: tuple[File, ...] = ()
    sticker_items: tuple[Sticker, ...] = ()
    embeds: Any = None
    components: Any = None
    poll: Any = None


class Message(Struct, frozen=True):
    """`embeds`, `components` and `poll` stay raw, so that an odd one does not cost the message."""

    id: str
    channel_id: str
    author: User | None = None
    content: str = ""
    type: int = PLAIN
    guild_id: str | None = None
    member: Member | None = None
    webhook_id: str | None = None
    mentions: tuple[User, ...] = ()
    mention_roles: tuple[str, ...] = ()
    attachments: tuple[File, ...] = ()
    sticker_items: tuple[Sticker, ...] = ()
    message_reference: Reference | None = None
    referenced_message: Message | None = None
    message_snapshots: tuple[Snapshot, ...] = ()
    edited_timestamp: datetime | None = None
    embeds: Any = None
    components: Any = None
    poll: Any = None


class Deleted(Struct, frozen=True):
    channel_id: str
    id: str = ""
    ids: tuple[str, ...] = ()
    guild_id: str | None = None


class Emoji(Struct, frozen=True):
    name: str | None = None
    id: str | None = None


class Reaction(Struct, frozen=True):
    user_id: str
    channel_id: str
    message_id: str
    emoji: Emoji
    guild_id: str | None = None
    member: Member | None = None
    message_author_id: str | None = None


class Channel(Struct, frozen=True):
    id: str
    type: int = 0
    guild_id: str | None = None
    parent_id: str | None = None
    name: str | None = None
    last_message_id: str | None = None


class RoleTags(Struct, frozen=True):
    bot_id: str | None = None


class Role(Struct, frozen=True):
    id: str
    name: str = ""
    tags: RoleTags | None = None


class Guild(Struct, frozen=True):
    id: str
    name: str = ""
    unavailable: bool = False
    owner_id: str = ""
    premium_tier: int = 0
    joined_at: str | None = None
    """The time of our invitation; another time means that we were invited again."""
    roles: tuple[Role, ...] = ()
    channels: tuple[Channel, ...] = ()
    threads: tuple[Channel, ...] = ()


class Option(Struct, frozen=True):
    name: str
    type: int = 3
    value: Any = None
    focused: bool = False


class Input(Struct, frozen=True):
    """A field of a form, at any depth."""

    custom_id: str = ""
    value: str | None = None
    components: tuple[Input, ...] = ()
    component: Input | None = None


class InteractionData(Struct, frozen=True):
    """Its `id` is left out: it is text for a command and a number for a component."""

    name: str = ""
    type: int = 1
    custom_id: str = ""
    values: tuple[str, ...] = ()
    options: tuple[Option, ...] = ()
    components: tuple[Input, ...] = ()
    target_id: str | None = None


class Control(Struct, frozen=True):
    """A button or select below a message of ours, or its row."""

    custom_id: str = ""
    components: tuple[Control, ...] = ()


class Pressed(Struct, frozen=True):
    """The message of ours that something was pressed on."""

    id: str
    channel_id: str
    components: tuple[Control, ...] = ()

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(control.custom_id for row in self.components for control in (row, *row.components))


class Interaction(Struct, frozen=True):
    id: str
    token: str
    type: int
    application_id: str = ""
    data: InteractionData = InteractionData()
    guild_id: str | None = None
    channel_id: str | None = None
    channel: Channel | None = None
    member: Member | None = None
    user: User | None = None
    message: Pressed | None = None

    @property
    def by(self) -> User | None:
        return (self.member.user if self.member else None) or self.user

    def __repr__(self) -> str:
        """Hide the token, with which anybody could answer in our name."""
        return f"Interaction({self.id}, type={self.type})"


class Event(Struct, frozen=True):
    """An event of the gateway, with raw data."""

    name: str
    data: dict[str, Any]


def read(data: Any, kind: type[T]) -> T | str:
    """The value, or why there is none."""
    try:
        return msgspec.convert(data, kind, strict=False)
    except (msgspec.ValidationError, RecursionError) as error:
        return f"{error}"[:200]


def sent_at(id: str) -> float:
    """The time a message was sent, from its id."""
    return ((int(id) >> 22) + EPOCH_MS) / 1000 if id.isdecimal() else 0.0


def number_at(at: float) -> str:
    """The id of a message sent at this time."""
    return str(max(0, int(at * 1000) - EPOCH_MS) << 22)


def inputs(parts: tuple[Input, ...]) -> dict[str, str]:
    """The values of a form, by the key of the field."""
    found: dict[str, str] = {}
    for part in parts:
        if part.value is not None:
            found[part.custom_id] = part.value
        found |= inputs(part.components)
        if part.component is not None:
            found |= inputs((part.component,))
    return found
