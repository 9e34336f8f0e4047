"""An ask as a message with buttons: exactly what the house says about it.

What a person approves is shown as it is: only the fences that the house put around it are read as markup, and what could
hide or turn around a word is made visible. A question and a plan are an engine's prose, and read as Markdown.

The house's own words as blocks: in them only code is markup. Pure.

Attachments, each as one message of the kind that shows it best; one that Telegram cannot take is named instead.

What is said, as Telegram messages: pure, `Content` to parts.

An answer is a rich message where the server has them and that shows it better, else text with entities, else, where
that would be too many messages, a file. Only the first message of an answer makes a sound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from pilothouse.channels.choices import choices
from pilothouse.channels.literal import literals, phrases, reveal_hidden
from pilothouse.channels.parts import pack
from pilothouse.channels.telegram.cut import Formatted, cut, head
from pilothouse.channels.telegram.keyboard import is_numbered, keyboard
from pilothouse.channels.telegram.markdown import parse_markdown
from pilothouse.channels.telegram.payload import (
    AGAIN_ROOM,
    CAPTION,
    PHOTO_BYTES,
    RICH_CHARS,
    TEXT,
    UPLOAD_BYTES,
    File,
    Look,
    Message,
    Payload,
    Rich,
    Upload,
    UploadKind,
)
from pilothouse.channels.telegram.rich import gains, write_rich
from pilothouse.channels.telegram.styled import (
    Block,
    Code,
    Item,
    Items,
    Paragraph,
    Styled,
    style_blocks,
    words,
)
from pilothouse.channels.text import is_visible, utf16_units
from pilothouse.core.ask import Ask
from pilothouse.core.message import Attachment, Content, Part, clean_text
from pilothouse.core.outcome import Usage
from pilothouse.core.text import format_cost

TAIL_ROOM = 500
"""Kept free below a question for what is said about how to answer it."""
BODY_UNITS = TEXT - AGAIN_ROOM - TAIL_ROOM
SHORT_UNITS = 1500
ALSO_WORDS = "Or answer in your own words."
ONLY_WORDS = "Answer in your own words."
IN_REPLY = "Say it in a reply to this message."
"""In a group: with privacy mode, a bot hears nothing else that is said to nobody by name."""

_PHOTOS = frozenset({"image/jpeg", "image/png", "image/webp"})

NOTHING = "(no text)"
FILE_NAME = "answer.md"
WHOLE = "The whole answer is in the file."
PREVIEW_CHARS = 4000
_ROOM = TEXT - AGAIN_ROOM

Reader = Callable[[str], Sequence[Block]]


def render_ask(ask: Ask, look: Look, *, said: str = "") -> Sequence[File | Message]:
    """The question with its buttons, last; before it a file with all of it where that is too long for a message.

    `said` is what the house says about the ask: its title, and what stands around it.
    """
    blocks = [*_blocks(ask, said or ask.title), *_options(ask)]
    styled = style_blocks(blocks, look.table_width)
    parts = cut(styled, BODY_UNITS)
    if len(parts) == 1:
        return [_question(ask, parts[0])]
    name = f"{ask.id}.txt"
    note = Formatted(f"This is not all of it: read {name}. SHA-256 {ask.payload_hash[:12]}…")
    file = File(text=styled.text, name=name, caption="What is asked, whole.", silent=True)
    return [file, _question(ask, _joined(head(styled, SHORT_UNITS), note))]


def _question(ask: Ask, body: Formatted) -> Message:
    words_too = ALSO_WORDS if ask.free_text else ""
    how = words_too if choices(ask) else ONLY_WORDS
    found = _joined(body, Formatted(how))
    in_group = IN_REPLY if how else ""
    return Message(text=found.text, entities=found.entities, reply_markup=keyboard(ask), in_group=in_group)


def _joined(body: Formatted, tail: Formatted) -> Formatted:
    if not tail.text or not body.text:
        return body if body.text else tail
    start = utf16_units(body.text) + 2
    moved = (msgspec.structs.replace(entity, offset=entity.offset + start) for entity in tail.entities)
    return Formatted(f"{body.text}\n\n{tail.text}", (*body.entities, *moved))


def _blocks(ask: Ask, said: str) -> Iterator[Block]:
    said, title = reveal_hidden(said), reveal_hidden(ask.title).strip()
    before, _, after = said.partition(title) if title and title in said else ("", "", said)
    if before.strip():
        yield Paragraph(words(before.strip(), "italic"))
    if not title:
        yield from _literally(after)
        return
    if ask.kind == "approval":
        first, _, rest = title.partition("\n")
        yield Paragraph((*words(first, "bold"), *words(f"\n{rest}" if rest else "")))
    else:
        yield from parse_markdown(title)
    if title in said:
        yield from _literally(after)


def _literally(text: str) -> Iterator[Block]:
    for found in literals(text):
        yield Paragraph(words(found.text)) if found.language is None else Code(found.text, found.language)


def _options(ask: Ask) -> Iterator[Block]:
    if ask.options and is_numbered(ask):
        yield Items(tuple(Item((Paragraph(words(reveal_hidden(o.label))),)) for o in ask.options), 1)


def house_blocks(text: str) -> tuple[Block, ...]:
    return tuple(
        _paragraph(found.text) if found.language is None else Code(found.text, found.language)
        for found in literals(text)
    )


def _paragraph(text: str) -> Paragraph:
    spans = (words(one.text, "code") if one.is_code else words(one.text) for one in phrases(text))
    return Paragraph(tuple(span for found in spans for span in found))


def render_uploads(attachments: tuple[Attachment, ...]) -> Iterator[tuple[Upload | Message, Attachment]]:
    for file in attachments:
        if file.size > UPLOAD_BYTES:
            size, most = file.size / 1_000_000, UPLOAD_BYTES // 1_000_000
            text = (
                f"{clean_text(file.name)} ({size:.0f} MB) is too large to send here: {most} MB is the most."
            )
            yield Message(text=text), file
        else:
            yield Upload(text="", kind=kind_of(file)), file


def kind_of(file: Attachment) -> UploadKind:
    """A picture that Telegram may shrink, or the file as it is."""
    media_type = file.media_type.partition(";")[0].strip().lower()
    return "photo" if media_type in _PHOTOS and file.size <= PHOTO_BYTES else "document"


def render(content: Content, look: Look) -> tuple[Part, ...]:
    about: dict[str, Any] = {"kind": content.kind, "turn_id": content.turn_id or ""}
    uploads = [(upload, (file,)) for upload, file in render_uploads(content.attachments)]
    if content.ask is not None:
        about["ask_id"] = content.ask.id
        above = [pack(replace(payload, silent=True), files, about) for payload, files in uploads]
        return (*above, *(pack(said, (), about) for said in render_ask(content.ask, look, said=content.text)))
    text = clean_text(content.text)
    if not is_visible(text) and not uploads:
        text = NOTHING
    payloads = (
        [(payload, ()) for payload in render_text(text, look, content.usage, _reader(content))]
        if is_visible(text)
        else []
    )
    first, *rest = [*payloads, *uploads]
    quiet = _is_quiet(content)
    said = [(replace(first[0], silent=quiet, reply_to=content.reply_to or ""), first[1])]
    said += [(replace(payload, silent=True), files) for payload, files in rest]
    return tuple(pack(payload, files, about) for payload, files in said)


def render_text(
    text: str, look: Look, usage: Usage | None = None, read: Reader = parse_markdown
) -> Sequence[Payload]:
    """As one message, as several, or as a file."""
    if len(text) > look.parts * TEXT and len(text) > RICH_CHARS * 2:
        return [_file(text, look, usage, read)]
    cost = _cost_line(usage)
    blocks = (*read(text), *((Paragraph(words(cost, "italic")),) if cost else ()))
    styled = style_blocks(blocks, look.table_width)
    if look.rich and (rich := _rich(blocks, styled)):
        return [rich]
    parts = cut(styled, _ROOM)
    if len(parts) > look.parts:
        return [_file(text, look, usage, read)]
    return [Message(text=part.text, entities=part.entities) for part in parts] or [Message(text=NOTHING)]


def _rich(blocks: Sequence[Block], styled: Styled) -> Rich | None:
    if not gains(blocks) and len(styled.text) <= _ROOM // 2:
        return None
    found = write_rich(blocks)
    if found is None or not is_visible(styled.text):
        return None
    return Rich(text=styled.text, html=found.html, is_rtl=found.is_rtl)


def _reader(content: Content) -> Reader:
    return parse_markdown if content.is_markdown else house_blocks


def _file(text: str, look: Look, usage: Usage | None, read: Reader) -> File:
    """The beginning is the caption, so that people see at once whether they want to open it."""
    below = "\n\n".join(filter(None, (WHOLE, _cost_line(usage))))
    room = CAPTION - AGAIN_ROOM - len(below) - 2
    beginning = head(style_blocks(read(text[:PREVIEW_CHARS]), look.table_width), room)
    caption = f"{beginning.text}\n\n{below}" if beginning.text else below
    return File(text=text, name=FILE_NAME, caption=caption, caption_entities=beginning.entities)


def _cost_line(usage: Usage | None) -> str:
    if usage is None:
        return ""
    told = (
        format_cost(usage.cost_usd) if usage.cost_usd is not None else "",
        f"{_short(usage.input_tokens)} in" if usage.input_tokens else "",
        f"{_short(usage.output_tokens)} out" if usage.output_tokens else "",
    )
    return " · ".join(filter(None, told))


def _short(tokens: int) -> str:
    return str(tokens) if tokens < 1000 else f"{tokens / 1000:.1f}k"


def _is_quiet(content: Content) -> bool:
    """A receipt makes no sound; how a turn ended does."""
    return content.kind == "reply" or (content.kind == "notice" and content.turn_id is None)
