"""A Markdown document as values: what both looks of a message, entities and rich HTML, are written from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from pilothouse.channels.columns import Align

Mark = Literal["bold", "italic", "strikethrough", "code"]


class Span(Struct, frozen=True):
    """Text in one look. A line break in it is a break that people see."""

    text: str
    marks: frozenset[Mark] = frozenset()
    url: str = ""


Spans = tuple[Span, ...]


class Paragraph(Struct, frozen=True):
    spans: Spans


class Heading(Struct, frozen=True):
    level: int
    spans: Spans


class Code(Struct, frozen=True):
    text: str
    language: str = ""


class Quote(Struct, frozen=True):
    blocks: tuple[Block, ...]


class Item(Struct, frozen=True):
    blocks: tuple[Block, ...]
    checked: bool | None = None


class Items(Struct, frozen=True):
    """A list; `start` is the number of the first item, None where they have bullets."""

    items: tuple[Item, ...]
    start: int | None = None


class Table(Struct, frozen=True):
    aligns: tuple[Align, ...]
    head: tuple[Spans, ...]
    rows: tuple[tuple[Spans, ...], ...]


class Rule(Struct, frozen=True):
    pass


Block = Paragraph | Heading | Code | Quote | Items | Table | Rule


def words(text: str, *marks: Mark) -> Spans:
    """Literal text: nothing in it is markup."""
    return (Span(text, frozenset(marks)),) if text else ()


def bare(spans: Iterable[Span]) -> str:
    return "".join(span.text for span in spans)
