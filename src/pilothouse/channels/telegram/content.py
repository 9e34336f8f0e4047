"""Reads one message: its conversation, its author, whether it is for us, its text and its files. Pure; nothing is fetched here.

Every message in a private chat is for us. In a group our commands are, unless they name another bot, and so are
replies to us. A command that we do not know belongs to another bot, unless it names us.

Content without text (a place, a contact, a sticker) becomes a line in brackets. File names are made safe here: a
name is never a path.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from pilothouse.channels.parts import safe_name
from pilothouse.channels.telegram.payload import DOWNLOAD_BYTES
from pilothouse.channels.telegram.wire import Chat, Checklist, Entity, FileRef, Me, Message, User
from pilothouse.channels.telegram.written import as_typed, rich_markdown
from pilothouse.core.channel import MenuCommand
from pilothouse.core.ids import ChannelId, UserId
from pilothouse.core.message import Address, Author
from pilothouse.core.text import first_line
from pilothouse.core.trigger import IMMEDIATE_COMMANDS, Trigger, matches_trigger

TELEGRAM = ChannelId("telegram")
NAMELESS = "Somebody"
_COMMAND = re.compile(r"/(?P<name>[A-Za-z0-9_]{1,32})(?:@(?P<bot>[A-Za-z0-9_]{3,32}))?(?=\s|$)")
START = "start"
"""The text of Telegram's own button, which `receive` translates. It is not a Pilothouse command."""


class Bot(Struct, frozen=True):
    """Our account and the names of our commands."""

    me: Me
    commands: frozenset[str]


def bot_with(me: Me, commands: Iterable[MenuCommand]) -> Bot:
    names = (name for command in commands for name in (command.name, *command.aliases))
    return Bot(me, frozenset({START, *names}))


def address_of(message: Message) -> Address:
    """Return the conversation's address. A forum topic is one; a thread of replies, which has a number too, is not."""
    thread = (
        str(message.message_thread_id) if message.is_topic_message and message.message_thread_id else None
    )
    return Address(TELEGRAM, str(message.chat.id), thread)


def group_address(chat_id: int) -> Address:
    """Return the address of the whole group, without a topic."""
    return Address(TELEGRAM, str(chat_id))


def chat_of(address: Address) -> tuple[int, int | None]:
    """Return the numbers of the chat and the topic."""
    return int(address.place), int(address.thread) if address.thread else None


def author_of(message: Message) -> Author | None:
    """Return the author: a person, or a group or channel that posts as itself. None if there is neither."""
    if message.sender_chat is not None:
        return Author(UserId(f"{TELEGRAM}:{message.sender_chat.id}"), chat_name(message.sender_chat))
    return person(message.from_) if message.from_ is not None else None


def is_anonymous_admin(message: Message) -> bool:
    """Tell whether an anonymous administrator wrote it: all of them have the group's id."""
    sender, chat = message.sender_chat, message.chat
    return sender is not None and sender.id == chat.id and chat.type in ("group", "supergroup")


def person(user: User) -> Author:
    return Author(UserId(f"{TELEGRAM}:{user.id}"), user_name(user), user.is_bot)


def user_name(user: User) -> str:
    full = " ".join(part for part in (user.first_name, user.last_name) if part)
    return full.strip() or user.username or NAMELESS


def chat_name(chat: Chat) -> str:
    full = " ".join(part for part in (chat.first_name, chat.last_name) if part)
    return chat.title or full.strip() or chat.username or str(chat.id)


def is_for_us(message: Message, bot: Bot, trigger: Trigger) -> bool:
    me, text, private = bot.me, message.text or message.caption or "", message.chat.type == "private"
    if found := _COMMAND.match(text):
        if named := found["bot"]:
            return named.lower() == (me.username or "").lower()
        return private or found["name"].lower() in bot.commands or _mentions(message, text, me)
    if private:
        return True
    mentioned, answered = _mentions(message, text, me), is_reply_to(message, me)
    return matches_trigger(trigger, text, mentioned=mentioned, answered=answered)


def may_answer(message: Message) -> bool:
    """Tell whether this is text to nobody in particular, so that it may answer a question to its sender."""
    words = bool(message.text) and message.forward_origin is None and message.via_bot is None
    named = any(entity.type in ("mention", "text_mention") for entity in message.entities)
    return words and not named and replied_to(message) is None and not is_command(message)


def is_command(message: Message) -> bool:
    return command_units(message) > 0


def command_units(message: Message) -> int:
    """Return the length of the command name at the beginning, or 0."""
    found = _COMMAND.match(message.text or message.caption or "")
    return found.end() if found else 0


def overtakes(message: Message) -> bool:
    """Tell whether this command acts on, or reports, what runs. A forwarded command does not count."""
    found = _COMMAND.match(message.text or "")
    return (
        found is not None and found["name"].lower() in IMMEDIATE_COMMANDS and message.forward_origin is None
    )


def is_reply_to(message: Message, me: Me) -> bool:
    """Tell whether it replies to one of our messages."""
    answered = replied_to(message)
    return answered is not None and answered.from_ is not None and answered.from_.id == me.id


def replied_to(message: Message) -> Message | None:
    """Return the message that it replies to. In a topic, every message has its first one there: that is no reply."""
    answered = message.reply_to_message
    if answered is None or (message.is_topic_message and answered.message_id == message.message_thread_id):
        return None
    return answered


def without_our_name(text: str, me: Me) -> str:
    """Turn `/stop@our_bot now` into `/stop now`."""
    found = _COMMAND.match(text)
    if found is None or not found["bot"] or found["bot"].lower() != (me.username or "").lower():
        return text
    return f"/{found['name']}{text[found.end() :]}"


def _mentions(message: Message, text: str, me: Me) -> bool:
    name = f"@{me.username or ''}".lower()
    return any(
        (entity.type == "mention" and _slice(text, entity).lower() == name)
        or (entity.type == "text_mention" and entity.user is not None and entity.user.id == me.id)
        for entity in (*message.entities, *message.caption_entities)
    )


def _slice(text: str, entity: Entity) -> str:
    data = text.encode("utf-16-le", "surrogatepass")
    return data[entity.offset * 2 : (entity.offset + entity.length) * 2].decode("utf-16-le", "replace")


class WantedFile(Struct, frozen=True):
    """A file at Telegram's server; `size` is the announced size, if any."""

    file_id: str
    name: str
    media_type: str
    size: int | None = None


def text_of(message: Message) -> str:
    """Return the text as it was typed, below lines for other content."""
    said = [*_bracketed(message), *filter(None, [_typed_text(message)])]
    # Without anything readable, the sender is told instead.
    lost = [f"[{kind_name(kind)}, which I cannot read]" for kind in message.unread] if said else []
    return "\n".join([*said, *lost])


def kind_name(kind: str) -> str:
    """Return Telegram's name for a kind of content in plain words."""
    return kind.replace("_", " ")


def files_of(message: Message) -> tuple[WantedFile, ...]:
    return tuple(_files(message))


def file_names(files: Sequence[WantedFile]) -> str:
    return "\n".join(f"[{file.name}]" for file in files)


def forward_line(message: Message) -> str:
    """Return a line with the origin of a forward, or an empty string."""
    origin = message.forward_origin
    if origin is None:
        return ""
    user, chat = origin.sender_user, origin.sender_chat or origin.chat
    name = user_name(user) if user else chat_name(chat) if chat else origin.sender_user_name
    name = first_line(name or "somebody").replace("]", ")")  # people choose it: it must not end the line
    return f"[forwarded from {name}]"


def _typed_text(message: Message) -> str:
    if message.text or message.caption:
        text, entities = message.text or message.caption or "", _kept_entities(message)
        return as_typed(text, entities) if entities else text
    return rich_markdown(message.rich_message)


def _kept_entities(message: Message) -> Sequence[Entity]:
    """Return the entities to write as Markdown. In a command, a name that was copied as code is just the name."""
    entities = message.entities if message.text else message.caption_entities
    name = command_units(message)
    return [one for one in entities if one.offset >= name and one.type != "code"] if name else entities


def _bracketed(message: Message) -> Iterator[str]:
    if venue := message.venue:
        place = ", ".join(part for part in (venue.title, venue.address) if part)
        yield f"[place: {place} ({venue.location.latitude:g}, {venue.location.longitude:g})]"
    elif location := message.location:
        yield f"[location: {location.latitude:g}, {location.longitude:g}]"
    if contact := message.contact:
        name = " ".join(part for part in (contact.first_name, contact.last_name) if part)
        yield f"[contact: {name}, {contact.phone_number}]"
    if poll := message.poll:
        yield f"[poll: {poll.question} ({' / '.join(option.text for option in poll.options)})]"
    if message.checklist:
        yield from _checklist(message.checklist)
    if game := message.game:
        yield f"[game: {': '.join(filter(None, (game.title, game.description)))}]"
        yield from filter(None, [game.text])
    if dice := message.dice:
        yield f"[{dice.emoji} shows {dice.value}]"
    if sticker := message.sticker:
        yield f"[sticker {sticker.emoji or ''}".rstrip() + "]"
    if voice := message.voice:
        yield f"[voice message of {voice.duration or 0} s: voice-{message.message_id}.ogg]"
    if note := message.video_note:
        yield f"[video message of {note.duration or 0} s: video-{message.message_id}.mp4]"


def _checklist(checklist: Checklist) -> Iterator[str]:
    yield f"[checklist: {as_typed(checklist.title, checklist.title_entities)}]"
    for task in checklist.tasks:
        yield f"- [{'x' if task.completion_date else ' '}] {as_typed(task.text, task.text_entities)}"


def _files(message: Message) -> Iterator[WantedFile]:
    number = message.message_id
    if message.photo:
        fitting = [size for size in message.photo if (size.file_size or 0) <= DOWNLOAD_BYTES]
        largest = max(fitting or message.photo, key=lambda size: size.width * size.height)
        yield WantedFile(largest.file_id, f"photo-{number}.jpg", "image/jpeg", largest.file_size)
    # An animation comes with a document of the same content, for older programs.
    document = None if message.animation else message.document
    for file, name, media_type in (
        (message.animation, f"animation-{number}.mp4", "video/mp4"),
        (document, f"file-{number}", "application/octet-stream"),
        (message.video, f"video-{number}.mp4", "video/mp4"),
        (message.audio, f"audio-{number}.mp3", "audio/mpeg"),
    ):
        if file is not None:
            yield _wanted(file, safe_name(file.file_name or "", name), media_type)
    if message.voice:
        yield _wanted(message.voice, f"voice-{number}.ogg", "audio/ogg")
    if message.video_note:
        yield _wanted(message.video_note, f"video-{number}.mp4", "video/mp4")


def _wanted(file: FileRef, name: str, media_type: str) -> WantedFile:
    return WantedFile(file.file_id, name, file.mime_type or media_type, file.file_size)
