"""What is said, as Discord messages: pure, `Content` to parts.

An answer is plain Markdown, as it would stand in a terminal, in one message or some; where that would be too many it
is a file with its beginning above it. Files hang on the last message. Only the first message makes a sound.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

from msgspec.structs import replace

from pilothouse.channels.discord.asks import render_ask, render_closed
from pilothouse.channels.discord.limits import FILES, FILES_ROOM, REQUEST_BYTES, TARGET, TEXT
from pilothouse.channels.discord.look import Look
from pilothouse.channels.discord.markdown import cut, house_words, to_discord
from pilothouse.channels.discord.payload import Document, Message
from pilothouse.channels.discord.uploads import Upload, render_uploads
from pilothouse.channels.parts import pack
from pilothouse.channels.text import format_cost, is_visible
from pilothouse.core.message import Attachment, Content, Part, clean_text
from pilothouse.core.outcome import Usage

NOTHING = "(no text)"
FILE_NAME = "answer.md"
HEAD = 1200
HEAD_CHARS = 4000


def render(content: Content, look: Look | None = None) -> tuple[Part, ...]:
    look = look or Look()
    about: dict[str, Any] = {"kind": content.kind, "turn_id": content.turn_id or ""}
    if content.ask is not None:
        about["ask_id"] = content.ask.id
    uploads = render_uploads(content.attachments)
    *above, last = _messages(content, look, with_files=bool(uploads))
    messages = [(message, ()) for message in above] + list(_with_files(last, uploads))
    first = replace(messages[0][0], silent=_is_quiet(content), reply_to=content.reply_to or "")
    said = [
        (first, messages[0][1]),
        *((replace(message, silent=True), files) for message, files in messages[1:]),
    ]
    return tuple(pack(message, files, about) for message, files in said)


def render_text(
    text: str, look: Look, usage: Usage | None = None, *, limit: int = TARGET, markdown: bool = True
) -> Sequence[Message]:
    """As one message, as several, or as a file."""
    if len(text) > look.parts * TEXT:
        return [_file(text, look, usage, markdown=markdown)]
    parts = cut(_written(text, look, markdown=markdown) + _usage_line(usage), limit)
    if len(parts) > look.parts:
        return [_file(text, look, usage, markdown=markdown)]
    return [Message(text=part) for part in parts] or [Message(text=NOTHING)]


def _messages(content: Content, look: Look, *, with_files: bool) -> Sequence[Message]:
    if content.ask is not None and content.kind != "closed":
        return [render_ask(content.ask, look, said=content.text)]
    text = clean_text(content.text)
    if not is_visible(text):
        return [Message(text="" if with_files else NOTHING)]
    markdown, limit = content.is_markdown, TARGET - FILES_ROOM if with_files else TARGET
    if content.kind == "closed":
        return [render_closed(_written(text, look, markdown=markdown))]
    return render_text(text, look, content.usage, limit=limit, markdown=markdown)


def _written(text: str, look: Look, *, markdown: bool) -> str:
    return to_discord(text, look.table_width) if markdown else house_words(text)


def _with_files(last: Message, waiting: list[Upload]) -> Iterator[tuple[Message, tuple[Attachment, ...]]]:
    message = last
    while message is last or waiting:
        count = _fitting(message, waiting)
        found, waiting = waiting[:count], waiting[count:]
        yield (
            replace(message, names=tuple(upload.name for upload in found)),
            tuple(upload.file for upload in found),
        )
        message = Message(text="")


def _fitting(message: Message, waiting: list[Upload]) -> int:
    """How many go with this message. One that is too much for any goes alone: it may fit, and else it is named."""
    room = REQUEST_BYTES - sum(len(document.text.encode()) for document in message.documents)
    sizes = accumulate(upload.file.size for upload in waiting[: FILES - len(message.documents)])
    count = sum(size <= room for size in sizes)
    return count or (0 if message.documents else 1)


def _file(text: str, look: Look, usage: Usage | None, *, markdown: bool) -> Message:
    """The beginning stands above it, so that people see at once whether they want to open it."""
    beginning = cut(_written(text[:HEAD_CHARS], look, markdown=markdown), HEAD)
    whole = f"… The whole answer, {len(text):,} characters, is in {FILE_NAME}."
    above = f"{beginning[0]}\n\n{whole}" if beginning else whole
    return Message(text=above + _usage_line(usage), documents=(Document(FILE_NAME, text),))


def _usage_line(usage: Usage | None) -> str:
    if usage is None:
        return ""
    steps = f"{usage.steps} step{'' if usage.steps == 1 else 's'}" if usage.steps else ""
    cost = format_cost(usage.cost_usd) if usage.cost_usd is not None else ""
    line = " · ".join(filter(None, (steps, cost)))
    return f"\n-# {line}" if line else ""


def _is_quiet(content: Content) -> bool:
    """A receipt makes no sound; how a turn ended does."""
    return content.kind == "reply" or (content.kind == "notice" and content.turn_id is None)
