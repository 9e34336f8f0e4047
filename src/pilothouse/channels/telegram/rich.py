"""Writes blocks as a rich message (Bot API 10.1), with headings, lists and tables, within the limits of rich messages.

It is written in Telegram's HTML dialect, where every character of a text is literal. Telegram's Markdown is not used:
there `$5 and $10` is a formula, `a || b` hides text and `<int>` is a tag.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from html import escape

from pilothouse.channels.telegram.payload import (
    RICH_BLOCKS,
    RICH_CHARS,
    RICH_COLUMNS,
    RICH_DEPTH,
    RichMessage,
)
from pilothouse.channels.telegram.styled import (
    Block,
    Code,
    Heading,
    Item,
    Items,
    Paragraph,
    Quote,
    Rule,
    Span,
    Spans,
    Table,
    table_blocks,
)

_TAGS = {"bold": "b", "italic": "i", "strikethrough": "s", "code": "code"}


def is_better_rich(blocks: Sequence[Block]) -> bool:
    """Tell whether a rich message shows these blocks better than entities do."""
    return any(isinstance(block, Heading | Items | Table | Rule) for block in blocks)


def write_rich(blocks: Sequence[Block]) -> RichMessage | None:
    """Write the blocks; None if that breaks a limit of rich messages."""
    writer = _Writer()
    writer.write(blocks, 1)
    if writer.chars > RICH_CHARS or writer.count > RICH_BLOCKS or writer.depth > RICH_DEPTH:
        return None
    return RichMessage("".join(writer.pieces), writer.is_rtl)


class _Writer:
    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.chars = 0
        self.count = 0
        self.depth = 0
        self.is_rtl = False
        self._seen_letter = False

    def write(self, blocks: Sequence[Block], depth: int) -> None:
        for block in blocks:
            self._block(block, depth)

    def _block(self, block: Block, depth: int) -> None:
        self._enter(depth)
        match block:
            case Paragraph(spans=spans):
                self._element("p", spans, depth)
            case Heading(level=level, spans=spans):
                self._element(f"h{level}", spans, depth)
            case Code():
                self._code(block)
            case Quote(blocks=inner):
                self._tag("<blockquote>")
                self.write(inner, depth + 1)
                self._tag("</blockquote>")
            case Items():
                self._items(block, depth)
            case Table(head=head) if len(head) > RICH_COLUMNS:
                self.write(table_blocks(block, width=0), depth)
            case Table():
                self._table(block, depth)
            case Rule():
                self._tag("<hr/>")

    def _code(self, code: Code) -> None:
        named = f' class="language-{escape(code.language)}"' if code.language else ""
        self._tag(f"<pre><code{named}>")
        self._text(code.text, breaks=False)
        self._tag("</code></pre>")

    def _items(self, listed: Items, depth: int) -> None:
        start = "" if listed.start in (None, 1) else f' start="{listed.start}"'
        name = "ul" if listed.start is None else "ol"
        self._tag(f"<{name}{start}>")
        for item in listed.items:
            self._item(item, depth + 1)
        self._tag(f"</{name}>")

    def _item(self, item: Item, depth: int) -> None:
        self._enter(depth)
        self._tag("<li>")
        if item.checked is not None:
            self._tag(f'<input type="checkbox"{" checked" if item.checked else ""}>')
        blocks = item.blocks
        if blocks and isinstance(blocks[0], Paragraph):
            self._spans(blocks[0].spans, depth)
            blocks = blocks[1:]
        self.write(blocks, depth + 1)
        self._tag("</li>")

    def _table(self, table: Table, depth: int) -> None:
        self._tag("<table bordered>")
        for number, row in enumerate((table.head, *table.rows)):
            self._enter(depth + 1)
            self._tag("<tr>")
            for cell, align in zip(row, table.aligns, strict=True):
                name = "td" if number else "th"
                self._tag(f'<{name} align="{align}">' if align else f"<{name}>")
                self._spans(cell, depth + 1)
                self._tag(f"</{name}>")
            self._tag("</tr>")
        self._tag("</table>")

    def _element(self, name: str, spans: Spans, depth: int) -> None:
        self._tag(f"<{name}>")
        self._spans(spans, depth)
        self._tag(f"</{name}>")

    def _spans(self, spans: Spans, depth: int) -> None:
        for span in spans:
            self._span(span, depth)

    def _span(self, span: Span, depth: int) -> None:
        tags = [_TAGS[mark] for mark in sorted(span.marks, reverse=True)]
        self.depth = max(self.depth, depth + len(tags) + bool(span.url))
        if span.url:
            self._tag(f'<a href="{escape(span.url)}">')
        self._tag("".join(f"<{tag}>" for tag in tags))
        self._text(span.text, breaks=True)
        self._tag("".join(f"</{tag}>" for tag in reversed(tags)))
        if span.url:
            self._tag("</a>")

    def _enter(self, depth: int) -> None:
        self.count += 1
        self.depth = max(self.depth, depth)

    def _text(self, text: str, *, breaks: bool) -> None:
        self.chars += len(text)
        if not self._seen_letter:
            self._look_for_letter(text)
        # Telegram knows few named entities, but all numeric ones.
        written = escape(text)
        self.pieces.append(written.replace("\n", "<br>") if breaks else written)

    def _look_for_letter(self, text: str) -> None:
        for char in text:
            way = unicodedata.bidirectional(char)
            if way in ("L", "R", "AL"):
                self._seen_letter, self.is_rtl = True, way != "L"
                return

    def _tag(self, tag: str) -> None:
        self.pieces.append(tag)
