"""Translates a message of Discord's into what it means to us: said, edited, a thread's start, or nothing. Pure.

Embeds, polls and components are read from raw JSON, since bots often say nothing else; an odd part costs only itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct

from pilothouse.channels.discord.addresses import (
    Place,
    Us,
    author_of,
    is_command,
    is_for_us,
    is_heard,
    is_muted,
    is_reply_to,
    mentions,
)
from pilothouse.channels.discord.config import Heard
from pilothouse.channels.discord.wire import PLAIN, REPLY, THREAD_STARTER, File, Message, Snapped, sent_at
from pilothouse.core.message import Address, InboundMessage, MessageEdited

MOST_CHARS = 4000
MOST_EMBEDS = 10
MOST_FIELDS = 25
MOST_ANSWERS = 10
DEEPEST = 5
TEXT_DISPLAY = 10
WRITTEN = ("rich", "")
"""Embeds that a bot wrote; all other kinds are previews of links in the text."""


def shown_in(embeds: Any, components: Any, poll: Any, *, alone: bool) -> str:
    """Return embeds, components and poll as text. `alone`: the message has no text, so previews of links count too."""
    lines = [
        *(line for one in _list(embeds)[:MOST_EMBEDS] if _is_written(one) or alone for line in _embed(one)),
        *_texts(components),
        *_poll(poll),
    ]
    text = "\n".join(line for line in lines if line)
    return text if len(text) <= MOST_CHARS else text[:MOST_CHARS] + "…"


def _is_written(embed: Any) -> bool:
    return _text(embed, "type") in WRITTEN


def _embed(embed: Any) -> Iterator[str]:
    title, url = _text(embed, "title"), _text(embed, "url")
    yield _text(embed, "author", "name")
    yield f"{title} ({url})" if title and url else title or url
    yield _text(embed, "description")
    for field in _list(_get(embed, "fields"))[:MOST_FIELDS]:
        yield ": ".join(part for part in (_text(field, "name"), _text(field, "value")) if part)
    yield _text(embed, "footer", "text")


def _texts(components: Any, depth: int = 0) -> Iterator[str]:
    for one in _list(components) if depth < DEEPEST else ():
        if _get(one, "type") == TEXT_DISPLAY:
            yield _text(one, "content")
        yield from _texts(_get(one, "components"), depth + 1)


def _poll(poll: Any) -> Iterator[str]:
    if question := _text(poll, "question", "text"):
        yield f"[poll] {question}"
        for answer in _list(_get(poll, "answers"))[:MOST_ANSWERS]:
            yield f"- {_text(answer, 'poll_media', 'text') or _text(answer, 'poll_media', 'emoji', 'name')}"


def _get(raw: Any, name: str) -> Any:
    return raw.get(name) if isinstance(raw, dict) else None


def _list(raw: Any) -> list[Any]:
    return raw if isinstance(raw, list) else []


def _text(raw: Any, *path: str) -> str:
    for name in path:
        raw = _get(raw, name)
    return raw.strip() if isinstance(raw, str) else ""


QUOTED_CHARS = 2000
_MENTION = re.compile(r"<(?P<sign>@!?|@&|#)(?P<id>\d{1,20})>|<a?:(?P<emoji>\w{1,32}):\d{1,20}>")

_ASK = re.compile(r"^/ask\s+(?=\S)", re.IGNORECASE)


class Said(Struct, frozen=True):
    """A message for the desk, and files that are not fetched yet."""

    message: InboundMessage
    files: tuple[File, ...] = ()
    to_us: bool = True
    """It was said to us, and not merely overheard where we hear everything."""


class Changed(Struct, frozen=True):
    edit: MessageEdited


class Started(Struct, frozen=True):
    """The message that a thread was opened on: quoted with the thread's first message."""

    address: Address
    text: str


class Nothing(Struct, frozen=True):
    """An event that is ignored; `why` goes to the log."""

    why: str


Happening = Said | Changed | Started | Nothing


class Scene(Struct, frozen=True):
    """Everything needed to read a message."""

    place: Place
    us: Us
    heard: Heard
    bots: tuple[str, ...]
    channel_name: Callable[[str], str]
    role_name: Callable[[str], str]


def needs_roles(message: Message, scene: Scene) -> bool:
    """Must the author's roles be asked for? Messages in a history come without them."""
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
    """Files of the message that this one replies to, unless we sent it or this is a command."""
    answered = message.referenced_message if message.type == REPLY else None
    if answered is None or is_reply_to(message, scene.us) or is_command(text):
        return ()
    return files_of(answered)


def expects_a_word(message: Message, scene: Scene, roles: tuple[str, ...] | None = None) -> bool:
    """Does the author expect an answer: are they heard, and did they say it to us?"""
    return not _unheard(message, scene, roles) and _is_to_us(message, scene)


def _is_to_us(message: Message, scene: Scene) -> bool:
    alone = scene.place.direct or scene.heard.dedicated
    return alone or mentions(message, scene.us) or is_reply_to(message, scene.us)


def changed(message: Message, scene: Scene) -> Happening:
    """Read an update. Only an edit counts: previews and pins are updates too."""
    author = message.author
    if author is None or author.id == scene.us.id or message.edited_timestamp is None:
        return Nothing("an update that changes no words")
    by = author_of(author, message.member)
    return Changed(MessageEdited(scene.place.address, by, message.id, _asked(words_of(message, scene))))


def _asked(text: str) -> str:
    """`/ask TEXT` is a command in Discord's own menu; written as a message, it is TEXT."""
    return _ASK.sub("", text)


def _unheard(message: Message, scene: Scene, roles: tuple[str, ...] | None) -> str:
    """Return why the author is not heard; empty if they are."""
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
    """The text that a person reads, without our name."""
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
    """The files of a message, and of the messages that it forwards."""
    forwarded = (file for snapshot in message.message_snapshots for file in snapshot.message.attachments)
    return (*message.attachments, *forwarded)


def quote_of(answered: Message, scene: Scene) -> str | None:
    text = words_of(answered, scene)
    return (text if len(text) <= QUOTED_CHARS else text[:QUOTED_CHARS] + "…") or None


def readable(content: str, message: Message, scene: Scene) -> str:
    """Replace ids in mentions by names, and remove our own name."""
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
