"""What is said, as Telegram messages: pure, `Content` to parts.

An answer is a rich message where the server has them and that shows it better, else text with entities, else, where
that would be too many messages, a file. Only the first message of an answer makes a sound.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from pilothouse.channels.packing import pack
from pilothouse.channels.telegram.asks import render_ask
from pilothouse.channels.telegram.blocks import Block, Paragraph, words
from pilothouse.channels.telegram.cut import cut, head
from pilothouse.channels.telegram.house_words import house_blocks
from pilothouse.channels.telegram.limits import AGAIN_ROOM, CAPTION, RICH_CHARS, TEXT
from pilothouse.channels.telegram.look import Look
from pilothouse.channels.telegram.markdown import parse_markdown
from pilothouse.channels.telegram.payload import File, Message, Payload, Rich
from pilothouse.channels.telegram.rich import gains, write_rich
from pilothouse.channels.telegram.styled import Styled, style_blocks
from pilothouse.channels.telegram.uploads import render_uploads
from pilothouse.channels.text import format_cost, is_visible
from pilothouse.core.message import Content, Part, clean_text
from pilothouse.core.outcome import Usage

NOTHING = "(no text)"
FILE_NAME = "answer.md"
WHOLE = "The whole answer is in the file."
PREVIEW_CHARS = 4000
_ROOM = TEXT - AGAIN_ROOM

Reader = Callable[[str], Sequence[Block]]


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
