"""Whether a message is meant for us, and whether its author is heard. In a private chat every message is for us."""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct

from pilothouse.channels.discord.addressing import Place
from pilothouse.channels.discord.config import Heard
from pilothouse.channels.discord.wire import THREAD_STARTER, Message
from pilothouse.core.trigger import IMMEDIATE_COMMANDS, matches_trigger

_COMMAND = re.compile(r"\s*(?:<@[!&]?\d{1,20}>\s*)?/(?P<name>\w+)(?:\s|$)")


class Us(Struct, frozen=True):
    """Who we are: our own id, and the role that Discord made for us in a server."""

    id: str
    roles: frozenset[str] = frozenset()


def is_for_us(message: Message, us: Us, heard: Heard, place: Place) -> bool:
    if place.direct:
        return True
    mentioned, answered = mentions(message, us), is_reply_to(message, us)
    return matches_trigger(heard.trigger, message.content, mentioned=mentioned, answered=answered)


def mentions(message: Message, us: Us) -> bool:
    """By name, in its words: whoever answers us mentions us too, and `@everyone` is nobody."""
    if re.search(rf"<@!?{us.id}>", message.content):
        return True
    return any(role in us.roles for role in message.mention_roles)


def is_reply_to(message: Message, us: Us) -> bool:
    answered = message.referenced_message
    return (
        message.type != THREAD_STARTER
        and answered is not None
        and answered.author is not None
        and answered.author.id == us.id
    )


def is_heard(author: str, roles: tuple[str, ...], heard: Heard, *, direct: bool) -> bool:
    """Whether the lists name them. In private nobody has a role, so only the list of people counts there."""
    if is_muted(heard, direct=direct):
        return False
    if direct or not heard.roles:
        return not heard.users or author in heard.users
    return author in heard.users or any(role in heard.roles for role in roles)


def is_muted(heard: Heard, *, direct: bool) -> bool:
    """Whether nobody at all is heard there. A list of channels says nothing of private chats, a dedicated one does."""
    return heard.muted and (heard.dedicated or not direct)


def is_command(content: str) -> bool:
    return _COMMAND.match(content) is not None


def overtakes(message: dict[str, Any]) -> bool:
    """A raw message that is a command which acts on what runs, or tells of it."""
    content = message.get("content")
    found = _COMMAND.match(content) if isinstance(content, str) else None
    return found is not None and found["name"].lower() in IMMEDIATE_COMMANDS
