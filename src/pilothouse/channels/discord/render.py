"""Renders content as Discord messages: answers, asks and files. Pure.

An answer is plain Markdown in one message or several; one that would take too many is a file with its beginning above it.
Files come with the last message, and only the first message makes a sound. An ask is one message: the text to approve
stands in a block of code that nothing in it can end, with hidden characters made visible; questions and plans are
Markdown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from pilothouse.channels.discord.buttons import ask_rows, command_rows, is_listed
from pilothouse.channels.discord.markdown import app_text, code, cut, escaped, to_discord
from pilothouse.channels.discord.payload import (
    FILES,
    FILES_ROOM,
    REQUEST_BYTES,
    TARGET,
    TEXT,
    Document,
    Look,
    Message,
)
from pilothouse.channels.parts import pack, sent_name
from pilothouse.channels.progress import done_lines
from pilothouse.channels.text import clip, is_visible, utf16_units
from pilothouse.core.ask import Ask
from pilothouse.core.ask_view import headline
from pilothouse.core.message import Attachment, Content, DoneStep, Part, clean_text
from pilothouse.core.outcome import Usage
from pilothouse.core.text import format_cost, reveal_hidden

HEAD = 1200
"""Units shown of an ask or answer that is too long for a message; a file has all of it."""


def render_ask(ask: Ask, look: Look, *, said: str = "") -> Message:
    """`said` is our text about the ask: its title, and the lines around it."""
    said = reveal_hidden(said or headline(ask))
    text = "\n".join(_blocks(ask, said, look)).strip("\n") or "…"
    if utf16_units(text) <= TARGET - FILES_ROOM:
        return Message(text=text, rows=ask_rows(ask))
    name = f"{ask.id}.txt"
    note = f"**This is not all of it: read {name}.** SHA-256 {ask.payload_hash[:12]}…"
    whole = "\n".join((said, *_options(ask)))
    return Message(
        text=f"{(cut(text, HEAD) or ['…'])[0].rstrip()}\n{note}",
        rows=ask_rows(ask),
        documents=(Document(name, whole),),
    )


def render_closed(text: str) -> Message:
    """Render the line that replaces a settled ask, in one message."""
    parts = cut(text, TARGET - 2)
    return Message(text=parts[0] + (" …" if len(parts) > 1 else "") if parts else "…")


def _blocks(ask: Ask, said: str, look: Look) -> Iterator[str]:
    head = reveal_hidden(headline(ask)).strip()
    is_known = bool(head) and head in said  # else it is a message of an older version
    before, _, after = said.partition(head) if is_known else ("", "", said)
    if before.strip():
        yield f"*{escaped(' '.join(before.split()))}*"
    if is_known:
        yield app_text(head) if ask.kind == "approval" else to_discord(head, look.table_width)
    if after.strip():
        yield app_text(after)
    if is_listed(ask):
        yield from map(escaped, _options(ask))


def _options(ask: Ask) -> list[str]:
    return [
        f"{number}. {clip(' '.join(reveal_hidden(option.label).split()), 1000)}"
        for number, option in enumerate(ask.options, 1)
    ]


_ENDINGS = {
    "image/png": "png",
    "image/jpeg": "jpg",
    "image/gif": "gif",
    "image/webp": "webp",
}


class Upload(Struct, frozen=True):
    name: str
    file: Attachment


def render_uploads(attachments: Iterable[Attachment]) -> list[Upload]:
    """The same bytes twice are one file; two files of one name have two names."""
    once = {file.blob: file for file in reversed(list(attachments))}
    files = list(reversed(once.values()))
    taken: set[str] = set()
    return [Upload(_free(name, taken), file) for name, file in zip(_names(files), files, strict=True)]


def _names(files: list[Attachment]) -> Iterator[str]:
    pictures = 0
    for file in files:
        ending = _ENDINGS.get(file.media_type.partition(";")[0].strip().lower())
        pictures += ending is not None
        yield f"image-{pictures}.{ending}" if ending else sent_name(file.name, "file")


def _free(name: str, taken: set[str]) -> str:
    stem, dot, ending = name.rpartition(".") if "." in name[1:] else (name, "", "")
    found, number = name, 1
    while found.lower() in taken:
        number += 1
        found = f"{stem}-{number}{dot}{ending}"
    taken.add(found.lower())
    return found


NOTHING = "(no text)"
FILE_NAME = "answer.md"
HEAD_CHARS = 4000
STEPS = 5
"""Lines in the list of steps below an answer."""


def render(content: Content, look: Look | None = None) -> tuple[Part, ...]:
    look = look or Look()
    about: dict[str, Any] = {"kind": content.kind, "turn_id": content.turn_id or ""}
    if content.ask is not None:
        about["ask_id"] = content.ask.id
    uploads = render_uploads(content.attachments)
    *above, last = _messages(content, look, with_files=bool(uploads))
    last = replace(last, rows=last.rows or command_rows(content.buttons))
    messages = [(message, ()) for message in above] + list(_with_files(last, uploads))
    first = replace(messages[0][0], silent=_is_quiet(content), reply_to=content.reply_to or "")
    said = [
        (first, messages[0][1]),
        *((replace(message, silent=True), files) for message, files in messages[1:]),
    ]
    return tuple(pack(message, files, about) for message, files in said)


def render_text(
    text: str,
    look: Look,
    usage: Usage | None = None,
    *,
    limit: int = TARGET,
    markdown: bool = True,
    steps: Sequence[DoneStep] = (),
) -> Sequence[Message]:
    """Render a text as one message, as several, or as a file."""
    if len(text) > look.parts * TEXT:
        return [_file(text, look, usage, markdown=markdown)]
    below = (_steps_lines(steps) if look.steps else "") + _usage_line(usage)
    parts = cut(_written(text, look, markdown=markdown) + below, limit)
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
    return render_text(text, look, content.usage, limit=limit, markdown=markdown, steps=content.steps)


def _written(text: str, look: Look, *, markdown: bool) -> str:
    return to_discord(text, look.table_width) if markdown else app_text(text)


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
    """Return how many go with this message. One that is too large for any goes alone: it may fit, and else it is named."""
    room = REQUEST_BYTES - sum(len(document.text.encode()) for document in message.documents)
    sizes = accumulate(upload.file.size for upload in waiting[: FILES - len(message.documents)])
    count = sum(size <= room for size in sizes)
    return count or (0 if message.documents else 1)


def _file(text: str, look: Look, usage: Usage | None, *, markdown: bool) -> Message:
    """Render a text as a file, with its beginning above it."""
    beginning = cut(_written(text[:HEAD_CHARS], look, markdown=markdown), HEAD)
    whole = f"… The whole answer, {len(text):,} characters, is in {FILE_NAME}."
    above = f"{beginning[0]}\n\n{whole}" if beginning else whole
    return Message(text=above + _usage_line(usage), documents=(Document(FILE_NAME, text),))


def _steps_lines(steps: Sequence[DoneStep]) -> str:
    """List the steps in small print: Discord has no way to fold them."""
    lines, more = done_lines(steps, STEPS)
    told = [f"{step.mark} {code(step.label) if step.is_code else escaped(step.label)}" for step in lines]
    told += [f"… and {more} more"] if more else []
    return "".join(f"\n-# {line}" for line in told)


def _usage_line(usage: Usage | None) -> str:
    cost = format_cost(usage)
    return f"\n-# {cost}" if cost else ""


def _is_quiet(content: Content) -> bool:
    """Is it sent silently? Receipts are; the end of a turn is not."""
    return content.kind == "reply" or (content.kind == "notice" and content.turn_id is None)
