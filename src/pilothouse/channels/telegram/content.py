"""Extracts the text of a message and the files that come with it. Pure; nothing is fetched here.

Content without text (a place, a contact, a sticker) becomes a line in brackets. File names are made safe here: a
name is never a path.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from pilothouse.channels.parts import safe_name
from pilothouse.channels.telegram.addresses import chat_name, command_units, user_name
from pilothouse.channels.telegram.payload import DOWNLOAD_BYTES
from pilothouse.channels.telegram.wire import Checklist, Entity, FileRef, Message
from pilothouse.channels.telegram.written import as_typed, rich_markdown


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
    return f"[forwarded from {name or 'somebody'}]"


def _typed_text(message: Message) -> str:
    if message.text or message.caption:
        return as_typed(message.text or message.caption or "", _kept_entities(message))
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
