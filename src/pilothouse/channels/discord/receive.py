"""What an event means to us. Pure: `translate` gives one happening for one event, and decides nothing twice."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from msgspec import Struct

from pilothouse.channels.discord.addressing import Place, author_of
from pilothouse.channels.discord.config import Heard
from pilothouse.channels.discord.embeds import shown_in
from pilothouse.channels.discord.trigger import (
    Us,
    is_command,
    is_for_us,
    is_heard,
    is_muted,
    is_reply_to,
    mentions,
)
from pilothouse.channels.discord.wire import PLAIN, REPLY, THREAD_STARTER, File, Message, Snapped, sent_at
from pilothouse.core.message import Address, InboundMessage, MessageEdited

QUOTED_CHARS = 2000
_MENTION = re.compile(r"<(?P<sign>@!?|@&|#)(?P<id>\d{1,20})>|<a?:(?P<emoji>\w{1,32}):\d{1,20}>")

_ASK = re.compile(r"^/ask\s+(?=\S)", re.IGNORECASE)


class Said(Struct, frozen=True):
    """A message for the desk. Its files, and those of what it answers, are still at Discord's."""

    message: InboundMessage
    files: tuple[File, ...] = ()
    to_us: bool = True
    """Whether it was said to us, and not merely overheard where we hear everything."""


class Changed(Struct, frozen=True):
    edit: MessageEdited


class Started(Struct, frozen=True):
    """What a thread hangs on: the words that its first message answers."""

    address: Address
    text: str


class Nothing(Struct, frozen=True):
    """Not for us. `why` goes to the log."""

    why: str


Happening = Said | Changed | Started | Nothing


class Scene(Struct, frozen=True):
    """All that one must know to read a message."""

    place: Place
    us: Us
    heard: Heard
    bots: tuple[str, ...]
    channel_name: Callable[[str], str]
    role_name: Callable[[str], str]


def needs_roles(message: Message, scene: Scene) -> bool:
    """Whether somebody must be asked for their roles: the past is told without them."""
    wanted = bool(scene.heard.roles) and not scene.place.direct
    author = message.author
    return (
        wanted
        and message.member is None
        and author is not None
        and author.id not in (*scene.heard.users, scene.us.id)
    )


def said(message: Message, scene: Scene, roles: tuple[str, ...] | None = None) -> Happening:
    """`roles` are the author's, where the message itself does not tell them."""
    author = message.author
    if message.type == THREAD_STARTER:
        answered = message.referenced_message
        return Started(scene.place.address, words_of(answered, scene)[:QUOTED_CHARS] if answered else "")
    if message.type not in (PLAIN, REPLY) or author is None:
        return Nothing("a system message")
    if why := _unheard(message, scene, roles):
        return Nothing(why)
    if not is_for_us(message, scene.us, scene.heard, scene.place):
        return Nothing("not for us")
    files = files_of(message)
    text = _asked(words_of(message, scene))
    if not text and not files and not mentions(message, scene.us):
        return Nothing("it says nothing")
    answered = message.referenced_message if message.type == REPLY else None
    inbound = InboundMessage(
        scene.place.address,
        author_of(author, message.member),
        message.id,
        text,
        reply_to=None if answered is None else answered.id,
        quoted=None if answered is None else quote_of(answered, scene),
        private=scene.place.direct,
        source="discord",
        sent_at=sent_at(message.id),
    )
    return Said(inbound, (*files, *_answered_files(message, text, scene)), _is_to_us(message, scene))


def _answered_files(message: Message, text: str, scene: Scene) -> tuple[File, ...]:
    """Whoever asks about a picture answers it. What we sent ourselves is known already, and a command needs none."""
    answered = message.referenced_message if message.type == REPLY else None
    if answered is None or is_reply_to(message, scene.us) or is_command(text):
        return ()
    return files_of(answered)


def expects_a_word(message: Message, scene: Scene, roles: tuple[str, ...] | None = None) -> bool:
    """Whether its author is heard, and said it to us: such a one wonders where an answer stays."""
    return not _unheard(message, scene, roles) and _is_to_us(message, scene)


def _is_to_us(message: Message, scene: Scene) -> bool:
    alone = scene.place.direct or scene.heard.dedicated
    return alone or mentions(message, scene.us) or is_reply_to(message, scene.us)


def changed(message: Message, scene: Scene) -> Happening:
    """A link that got its preview, or a message that was pinned, is told as an update too; only an edit is news."""
    author = message.author
    if author is None or author.id == scene.us.id or message.edited_timestamp is None:
        return Nothing("an update that changes no words")
    by = author_of(author, message.member)
    return Changed(MessageEdited(scene.place.address, by, message.id, _asked(words_of(message, scene))))


def _asked(text: str) -> str:
    """`/ask TEXT` is a command in Discord's own menu; written as a message, it is TEXT."""
    return _ASK.sub("", text)


def _unheard(message: Message, scene: Scene, roles: tuple[str, ...] | None) -> str:
    """Why its author is not heard at all; empty if they are."""
    author = message.author
    if author is None or author.id == scene.us.id:
        return "we said it"
    if author.bot or message.webhook_id is not None:
        if not {author.id, message.webhook_id} & set(scene.bots):
            return "a bot said it"
        if is_muted(scene.heard, direct=scene.place.direct):
            return "not on the list"
        return "" if mentions(message, scene.us) else "a bot that does not mention us"
    held = message.member.roles if message.member is not None else roles or ()
    return "" if is_heard(author.id, held, scene.heard, direct=scene.place.direct) else "not on the list"


def words_of(message: Message, scene: Scene) -> str:
    """What a person reads of it, without our name."""
    lines = [*_lines(message, message, scene)]
    for snapshot in message.message_snapshots:
        forwarded = "\n".join(_lines(snapshot.message, message, scene))
        lines.append(f"[forwarded] {forwarded}".rstrip())
    text = "\n".join(lines)
    return text or "\n".join(f"[{file.filename}]" for file in files_of(message))


def _lines(one: Message | Snapped, message: Message, scene: Scene) -> Iterator[str]:
    words = readable(one.content, message, scene)
    shown = shown_in(one.embeds, one.components, one.poll, alone=not words)
    stickers = (f"[sticker: {sticker.name}]" for sticker in one.sticker_items)
    yield from (line for line in (words, readable(shown, message, scene), *stickers) if line)


def files_of(message: Message) -> tuple[File, ...]:
    """Its own, and those of what it forwards."""
    forwarded = (file for snapshot in message.message_snapshots for file in snapshot.message.attachments)
    return (*message.attachments, *forwarded)


def quote_of(answered: Message, scene: Scene) -> str | None:
    text = words_of(answered, scene)
    return (text if len(text) <= QUOTED_CHARS else text[:QUOTED_CHARS] + "…") or None


def readable(content: str, message: Message, scene: Scene) -> str:
    """With names instead of ids, and without our own."""
    people = {user.id: user.name for user in message.mentions}

    def name(found: re.Match[str]) -> str:
        sign, id = found["sign"], found["id"]
        if found["emoji"]:
            return f":{found['emoji']}:"
        if sign == "#":
            return f"#{scene.channel_name(id)}"
        return f"@{scene.role_name(id)}" if sign == "@&" else f"@{people.get(id, 'somebody')}"

    ours = "|".join([f"@!?{scene.us.id}", *(f"@&{role}" for role in sorted(scene.us.roles))])
    return _MENTION.sub(name, re.sub(rf"<(?:{ours})>[ \t]*", "", content)).strip()
