"""A Markdown document as blocks, its form as text with entities, and that text cut into messages within Telegram's limits.

Such a message has no headings, lists or tables: a heading is bold, an item has a bullet, a table is set in monospace
columns or, if that is too wide for a phone, written row by row as "column: value".

A link that Telegram refuses would cost the whole message, so it becomes text. `is_valid_link` is stricter than
Telegram where a link could deceive: no user name before the host, no invisible characters, no `tg://user` (it pings).

A cut falls between blocks, else between lines, words, graphemes; nothing is lost. A style that is cut goes on in the next
message, a code block with its language. Beyond 100 entities, plain marks are dropped; links and code blocks never are.
Offsets are characters until the text is cut, then UTF-16 units.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Literal
from urllib.parse import urlsplit

from msgspec import Struct

from pilothouse.channels.telegram.payload import ENTITIES, URL_CHARS, Entity
from pilothouse.channels.text import (
    Align,
    grapheme_end,
    is_visible,
    longest,
    table_lines,
    table_width,
    utf16_units,
    word_end,
)

Mark = Literal["bold", "italic", "strikethrough", "code"]
_HOST = re.compile(r"[\w-]+(\.[\w-]+)+\.?")
_IPV6 = re.compile(r"[0-9a-f:]+")
_MAIL = re.compile(r"mailto:[\w.+-]+@[\w-]+(\.[\w-]+)+", re.IGNORECASE)
_TG = re.compile(r"tg://(?!user\b)[a-z]+\?[\w=&%.+-]+", re.IGNORECASE)
_BOLD: frozenset[Mark] = frozenset({"bold"})
BULLETS = "•◦▪"
RULE = "———"
TABLE_COLUMNS = 36
"""Columns of monospace text that fit on a phone; a wider table is written row by row."""
STEP = "  "
CHECKED: dict[bool, str] = {True: "☑ ", False: "☐ "}


_KEPT_FIRST = (
    "text_link",
    "pre",
    "blockquote",
    "expandable_blockquote",
    "code",
    "bold",
    "strikethrough",
    "italic",
)
_HARD = frozenset({"text_link", "pre"})
"""Styles that carry information beyond the text."""


class Span(Struct, frozen=True):
    """Text in one style. Its line breaks are visible."""

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
    """`folded`: only its first lines are shown until somebody taps it."""

    blocks: tuple[Block, ...]
    folded: bool = False


class Item(Struct, frozen=True):
    blocks: tuple[Block, ...]
    checked: bool | None = None


class Items(Struct, frozen=True):
    """A list; `start` is the number of the first item, or None for bullets."""

    items: tuple[Item, ...]
    start: int | None = None


class Table(Struct, frozen=True):
    aligns: tuple[Align, ...]
    head: tuple[Spans, ...]
    rows: tuple[tuple[Spans, ...], ...]


class Rule(Struct, frozen=True):
    pass


Block = Paragraph | Heading | Code | Quote | Items | Table | Rule


def text_spans(text: str, *marks: Mark) -> Spans:
    """Return literal text as spans."""
    return (Span(text, frozenset(marks)),) if text else ()


def plain_text(spans: Iterable[Span]) -> str:
    return "".join(span.text for span in spans)


def is_valid_link(url: str) -> bool:
    """Tell whether Telegram accepts the link. It refuses a host without dots, such as `localhost`."""
    if len(url) > URL_CHARS or not url.isprintable() or " " in url:
        return False
    if _MAIL.fullmatch(url) or _TG.fullmatch(url):
        return True
    return url.lower().startswith(("http://", "https://")) and _has_sound_host(url)


def _has_sound_host(url: str) -> bool:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return False
    if port == 0 or "@" in parts.netloc or "\\" in parts.netloc:
        return False
    return bool(_IPV6.fullmatch(host) if ":" in host else _HOST.fullmatch(host))


def table_blocks(table: Table, width: int = TABLE_COLUMNS) -> tuple[Block, ...]:
    """Return a table as monospace code or, if it is too wide or has links, row by row."""
    cells = [[" ".join(plain_text(cell).split()) for cell in row] for row in (table.head, *table.rows)]
    linked = any(span.url for row in (table.head, *table.rows) for cell in row for span in cell)
    if table_width(cells) <= width and not linked:
        return (Code("\n".join(table_lines(cells, table.aligns))),)
    return _row_items(table)


def _row_items(table: Table) -> tuple[Block, ...]:
    """Write each row as an item that begins with its first cell in bold. Empty cells are omitted, empty columns not."""
    empty = [not any(column) for column in zip(*table.rows, strict=True)] or [True] * len(table.head)
    rows = table.rows or (table.head,)
    items = tuple(Item((Paragraph(_row(table.head, row, empty)),)) for row in rows if any(row))
    return (Items(items),) if items else ()


def _row(head: tuple[Spans, ...], row: tuple[Spans, ...], empty: list[bool]) -> Spans:
    spans: list[Span] = []
    for number, (name, cell) in enumerate(zip(head, row, strict=True)):
        if not cell and not (name and empty[number]):
            continue
        label = text_spans(f"{plain_text(name)}: ") if name and cell != name else ()
        value = tuple(map(_bold, cell)) if not number else cell
        spans += [Span("\n" if spans else ""), *label, *(value or text_spans("–"))]
    return tuple(span for span in spans if span.text)


def _bold(span: Span) -> Span:
    return Span(span.text, span.marks | _BOLD, span.url)


class Style(Struct, frozen=True):
    type: str
    start: int
    end: int
    url: str = ""
    language: str = ""


class Styled(Struct, frozen=True):
    """`breaks` are the places between outermost blocks, the best ones to cut; `inner_breaks` are second best."""

    text: str
    styles: tuple[Style, ...] = ()
    breaks: tuple[int, ...] = ()
    inner_breaks: tuple[int, ...] = ()


def style_blocks(blocks: Sequence[Block]) -> Styled:
    writer = _Writer()
    writer.blocks(blocks, "", 0, compact=False)
    return Styled(
        "".join(writer.pieces), tuple(writer.styles), tuple(writer.breaks), tuple(writer.inner_breaks)
    )


class _Writer:
    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.styles: list[Style] = []
        self.breaks: list[int] = []
        self.inner_breaks: list[int] = []
        self._at = 0
        self._quoted = False

    def blocks(self, blocks: Sequence[Block], indent: str, depth: int, *, compact: bool) -> None:
        before: Block | None = None
        for block in blocks:
            if before is not None:
                close = compact or isinstance(before, Heading)
                self._write("\n" if close else "\n\n")
                if not isinstance(before, Heading):
                    (self.breaks if not depth and not self._quoted else self.inner_breaks).append(self._at)
                if indent and not isinstance(block, Code | Items):
                    self._write(indent)
            self._block(block, indent, depth)
            before = block

    def _block(self, block: Block, indent: str, depth: int) -> None:
        match block:
            case Paragraph(spans=spans):
                self._spans(spans, indent)
            case Heading(spans=spans):
                start = self._at
                self._spans(spans, indent, without="bold")
                self._style("bold", start)
            case Code(text=text, language=language):
                start = self._at
                self._write(text)
                self._style("pre", start, language=language)
            case Quote(blocks=inner, folded=folded):
                self._quote(inner, indent, depth, "expandable_blockquote" if folded else "blockquote")
            case Items():
                self._items(block, indent, depth)
            case Table():
                self.blocks(table_blocks(block), indent, depth, compact=bool(depth))
            case Rule():
                self._write(RULE)

    def _quote(self, inner: Sequence[Block], indent: str, depth: int, style: str) -> None:
        """Write a quote. Telegram's quotes do not nest, so an inner one is marked with a sign."""
        if self._quoted:
            self._write("» ")
            self.blocks(inner, indent + STEP, depth + 1, compact=True)
            return
        start, self._quoted = self._at, True
        self.blocks(inner, indent, depth, compact=False)
        self._quoted = False
        self._style(style, start)

    def _items(self, listed: Items, indent: str, depth: int) -> None:
        for number, item in enumerate(listed.items):
            if number:
                self._write("\n")
                self.inner_breaks.append(self._at)
            bullet = self._bullet(listed, item, number, depth)
            alone = bool(item.blocks) and isinstance(item.blocks[0], Code | Items)
            self._write(f"{indent}{bullet.rstrip()}\n" if alone else indent + bullet)
            self.blocks(item.blocks, indent + STEP, depth + 1, compact=True)

    def _bullet(self, listed: Items, item: Item, number: int, depth: int) -> str:
        if item.checked is not None:
            return CHECKED[item.checked]
        if listed.start is not None:
            return f"{listed.start + number}. "
        return f"{BULLETS[min(depth, len(BULLETS) - 1)]} "

    def _spans(self, spans: Spans, indent: str, *, without: str = "") -> None:
        for span in spans:
            start = self._at
            self._write(span.text.replace("\n", f"\n{indent}") if indent else span.text)
            self._span_styles(span, start, without)

    def _span_styles(self, span: Span, start: int, without: str) -> None:
        if span.url:
            self._style("text_link", start, url=span.url)
        if "code" in span.marks:
            # Telegram allows no other style in code, and no code in a link.
            if not span.url:
                self._style("code", start)
            return
        for mark in sorted(span.marks):
            if mark != without:
                self._style(mark, start)

    def _write(self, text: str) -> None:
        self.pieces.append(text)
        self._at += len(text)

    def _style(self, kind: str, start: int, *, url: str = "", language: str = "") -> None:
        """Add a style, or extend the same one that ends here."""
        if self._at == start:
            return
        if url or kind == "pre":
            self.styles.append(Style(kind, start, self._at, url, language))
            return
        for index in range(len(self.styles) - 1, max(-1, len(self.styles) - 5), -1):
            old = self.styles[index]
            if old.type == kind and old.end == start:
                self.styles[index] = Style(kind, old.start, self._at)
                return
        self.styles.append(Style(kind, start, self._at))


class Formatted(Struct, frozen=True):
    text: str
    entities: tuple[Entity, ...] = ()


def cut(styled: Styled, limit: int) -> list[Formatted]:
    """Return the messages in order, without invisible ones."""
    pieces = (_formatted(styled, start, end) for start, end in _pieces(styled, limit))
    return [piece for piece in pieces if is_visible(piece.text)]


def head(styled: Styled, limit: int) -> Formatted:
    """Return as much of the beginning as fits, with an ellipsis if there is more."""
    parts = cut(styled, limit)
    if len(parts) <= 1:
        return parts[0] if parts else Formatted("")
    first = cut(styled, limit - 2)[0]
    return Formatted(f"{first.text} …", first.entities)


def _pieces(styled: Styled, limit: int) -> Iterator[tuple[int, int]]:
    text, at = styled.text, 0
    hard = [style.start for style in styled.styles if style.type in _HARD]
    while at < len(text):
        end = at + longest(text, at, len(text), limit, utf16_units)
        within = bisect_left(hard, at)
        if bisect_left(hard, end) - within >= ENTITIES:
            end = hard[within + ENTITIES - 1]
        if end < len(text):
            end = _best(styled, at, end)
        yield at, end
        at = end


def _best(styled: Styled, at: int, end: int) -> int:
    """Return the last good place to cut that does not leave the message too empty."""
    size = end - at
    for places in (styled.breaks, styled.inner_breaks):
        found = bisect_right(places, end) - 1
        if found >= 0 and (places[found] - at) * 2 >= size:
            return places[found]
    line = styled.text.rfind("\n", at, end) + 1
    if (line - at) * 3 >= size:
        return line
    window = styled.text[at : end + 1]
    return at + (word_end(window, size) or grapheme_end(window, size))


def _formatted(styled: Styled, start: int, end: int) -> Formatted:
    while start < end and styled.text[start] == "\n":
        start += 1
    text = styled.text[start:end].rstrip()
    kept = [clipped for style in styled.styles if (clipped := _clipped(style, text, start))]
    if len(kept) > ENTITIES:
        kept = sorted(kept, key=lambda style: (_KEPT_FIRST.index(style.type), style.start))[:ENTITIES]
    kept.sort(key=lambda style: (style.start, -style.end))
    return Formatted(text, tuple(_entities(text, kept)))


def _clipped(style: Style, text: str, start: int) -> Style | None:
    """Clip the style to this message, without white space at its ends. Code keeps its indentation."""
    first, last = max(style.start - start, 0), min(style.end - start, len(text))
    if first >= last:
        return None
    inner = text[first:last]
    last -= len(inner) - len(inner.rstrip())
    if style.type != "pre":
        first += len(inner) - len(inner.lstrip())
    return Style(style.type, first, last, style.url, style.language) if first < last else None


def _entities(text: str, styles: Sequence[Style]) -> Iterator[Entity]:
    if not styles:
        return
    wide = max(text) > "\uffff"
    units = [0, *accumulate(1 + (char > "\uffff") for char in text)] if wide else range(len(text) + 1)
    for style in styles:
        offset = units[style.start]
        yield Entity(style.type, offset, units[style.end] - offset, style.url, style.language)
