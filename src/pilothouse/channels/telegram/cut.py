"""Cuts styled text into messages within Telegram's limits, without loss.

A cut falls between blocks, else between lines, words, graphemes. A style that is cut goes on in the next message, a
code block with its language. Beyond 100 entities, plain marks are dropped; links and code blocks never are.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

from msgspec import Struct

from pilothouse.channels.telegram.payload import ENTITIES, Entity
from pilothouse.channels.telegram.styled import Style, Styled
from pilothouse.channels.text import grapheme_end, is_visible, longest, utf16_units, word_end

_KEPT_FIRST = ("text_link", "pre", "blockquote", "code", "bold", "strikethrough", "italic")
_HARD = frozenset({"text_link", "pre"})
"""Styles that carry information beyond the text."""


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
