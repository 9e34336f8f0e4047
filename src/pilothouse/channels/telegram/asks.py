"""An ask as a message with buttons: exactly what the house says about it.

What a person approves is shown as it is: only the fences that the house put around it are read as markup, and what could
hide or turn around a word is made visible. A question and a plan are an engine's prose, and read as Markdown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from pilothouse.channels.choices import choices
from pilothouse.channels.literal import literals, plainly
from pilothouse.channels.telegram.blocks import Block, Code, Item, Items, Paragraph, words
from pilothouse.channels.telegram.choices import is_numbered, keyboard
from pilothouse.channels.telegram.cut import Formatted, cut, head
from pilothouse.channels.telegram.limits import AGAIN_ROOM, TEXT
from pilothouse.channels.telegram.look import Look
from pilothouse.channels.telegram.markdown import parse_markdown
from pilothouse.channels.telegram.payload import File, Message
from pilothouse.channels.telegram.styled import style_blocks
from pilothouse.channels.text import utf16_units
from pilothouse.core.ask import Ask

TAIL_ROOM = 500
"""Kept free below a question for what is said about how to answer it."""
BODY_UNITS = TEXT - AGAIN_ROOM - TAIL_ROOM
SHORT_UNITS = 1500
ALSO_WORDS = "Or answer in your own words."
ONLY_WORDS = "Answer in your own words."
IN_REPLY = "Say it in a reply to this message."
"""In a group: with privacy mode, a bot hears nothing else that is said to nobody by name."""


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
    said, title = plainly(said), plainly(ask.title).strip()
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
        yield Items(tuple(Item((Paragraph(words(plainly(o.label))),)) for o in ask.options), 1)
