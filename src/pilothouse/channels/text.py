"""Text for people: split into parts that fit a platform's limit, shown literally, or set as a table. Pure. Shared by every channel.

Splitting Markdown: the joined bodies of all pieces are the text. A cut falls between paragraphs, else lines, else words,
else graphemes. A cut within a fence closes it and opens it again, in a quote or a list too; an open fence is closed at the end.

Literal text: in what people approve, only our own fences are markup, and characters that could hide or reverse a word are
made visible: people must see what they approve. In our other texts code within a line is markup too, and nothing else: they
quote names and messages of people.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from msgspec import Struct

from pilothouse.core.text import escape_char

Measure = Callable[[str], int]
"""A platform's length of a text. It must be additive: `measure(a + b) == measure(a) + measure(b)`."""
SMALLEST_LIMIT = 16
_LEAD = r"(?:[ \t]*(?:>|(?:[-*+]|[0-9]{1,9}[.)])(?=[ \t])))*[ \t]*"
"""Marks of quotes and list items that may precede a fence."""
_FENCE = re.compile(rf"^(?P<lead>{_LEAD})(?P<marks>`{{3,}}(?=[^`]*$)|~{{3,}})(?P<info>.*)$")
_QUOTE = re.compile(r"[ \t]*>")
_BULLET = re.compile(r"[^>\t]")
_LINE = re.compile(r"[^\n]*\n|[^\n]+\Z")
_ZWJ = "\N{ZERO WIDTH JOINER}"


_OWN_FENCE = re.compile(r"(?P<marks>`{3,})(?P<language>[\w+#.-]*)")
_TURNING = re.compile("[\u202a-\u202e\u2066-\u2069]")
"""Characters that reverse what follows. The other hidden ones occur in names of people and in emoji."""
_CODE = re.compile(r"`([^`\n]+)`")
Align = Literal["", "left", "center", "right"]
GAP = "  "


def utf16_units(text: str) -> int:
    """Counts as Telegram and Discord do."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def is_visible(text: str) -> bool:
    """Returns false for white space and control characters: platforms refuse such a message."""
    return any(not char.isspace() and unicodedata.category(char) not in ("Cc", "Cf") for char in text)


class Piece(Struct, frozen=True):
    """A slice of the text, with the fence lines added around it."""

    body: str
    before: str = ""
    after: str = ""

    @property
    def text(self) -> str:
        return self.before + self.body + self.after


def split(text: str, limit: int, measure: Measure = utf16_units) -> list[str]:
    """Returns the parts to send, each within `limit`, without those of white space only."""
    return [piece.text for piece in split_pieces(text, limit, measure) if piece.body.strip()]


def split_pieces(text: str, limit: int, measure: Measure = utf16_units) -> list[Piece]:
    if limit < SMALLEST_LIMIT:
        raise ValueError(f"a limit of {limit} is too small to split text; use at least {SMALLEST_LIMIT}")
    return list(_Splitter(text, limit, measure).pieces())


class Fence(Struct, frozen=True):
    """The line that opens a block of code. `lead` precedes it when it is opened again: bullets in it are blanks."""

    lead: str
    marks: str
    info: str = ""

    @property
    def depth(self) -> int:
        """The number of quotes around it."""
        return self.lead.count(">")

    def closed_by(self, line: str) -> bool:
        inner = _quoted(line, self.depth)
        return (
            inner is not None
            and inner.strip().startswith(self.marks)
            and not inner.strip().strip(self.marks[0])
        )


class Line(Struct, frozen=True):
    """`fence` is the one open after this line; `edge` says whether the line opens or closes one."""

    start: int
    end: int
    fence: Fence | None
    edge: str = ""


class _Cut(Struct, frozen=True):
    at: int
    fence: Fence | None
    rank: int
    """0 between paragraphs, 1 between lines, 2 between lines of code, 3 beside a fence's own line."""


class _Splitter:
    def __init__(self, text: str, limit: int, measure: Measure) -> None:
        self.text = text
        self.limit = limit
        self.measure = measure
        self.lines = list(scan_lines(text))

    def pieces(self) -> Iterator[Piece]:
        at, fence, first = 0, None, 0
        while at < len(self.text):
            before = self._reopened(fence)
            if before and fence and at > self.lines[first].start:
                before += fence.lead  # the rest of a line stays in its quote
            cut = self._cut(at, first, fence, self.limit - self.measure(before))
            body = self.text[at : cut.at]
            yield Piece(body, before, self._closed(cut.fence, body))
            at, fence = cut.at, cut.fence
            while first < len(self.lines) and self.lines[first].end <= at:
                first += 1

    def _cut(self, at: int, first: int, fence: Fence | None, room: int) -> _Cut:
        """Finds the best end for a piece that begins at `at`, in line `first`."""
        cuts: list[_Cut] = []
        start, left, state = at, room, fence
        for index in range(first, len(self.lines)):
            line = self.lines[index]
            size = self._size(start, line.end, left)
            if size > left:
                cut = None if line.edge else self._in_line(start, line.end, state, left)
                break
            closes = self.measure(self._closed(line.fence, self.text[line.start : line.end])) <= left - size
            if line.end == len(self.text):
                if closes:
                    return _Cut(line.end, line.fence, 0)
                cut = None if line.edge else self._in_line(start, line.end, state, left)
                break
            left -= size
            if closes:
                cuts.append(_Cut(line.end, line.fence, self._rank(index)))
            start, state = line.end, line.fence
        else:
            raise AssertionError("the last line either fits or does not")
        cut = self._best(cuts, at, room) or cut or max(cuts, key=lambda c: (c.rank < 3, c.at), default=None)
        return cut or self._in_line(at, self.lines[first].end, fence, room) or _Cut(at + 1, fence, 2)

    def _size(self, start: int, end: int, left: int) -> int:
        """Measures a slice, without reading all of a huge line that cannot fit."""
        if end - start > left and (size := self.measure(self.text[start : start + left + 1])) > left:
            return size
        return self.measure(self.text[start:end])

    def _in_line(self, start: int, end: int, fence: Fence | None, room: int) -> _Cut | None:
        room -= self.measure(self._closed(fence, "x"))
        size = longest(self.text, start, end, room, self.measure) if room > 0 else 0
        if not size:
            return None
        line = self.text[start : min(end, start + size + 1)]
        return _Cut(start + (word_end(line, size) or grapheme_end(line, size)), fence, 2)

    def _rank(self, index: int) -> int:
        line, following = self.lines[index], self.lines[index + 1]
        if line.edge == "opens" or following.edge == "closes":
            return 3
        if line.fence:
            return 2
        blank = not self.text[line.start : line.end].strip()
        return 0 if blank or line.edge == "closes" else 1

    def _best(self, cuts: list[_Cut], at: int, room: int) -> _Cut | None:
        """Returns the last cut of the best rank that fills the piece well enough."""
        for rank, share in ((0, 2), (1, 3), (2, 3)):
            fitting = [cut for cut in cuts if cut.rank == rank]
            if fitting and self.measure(self.text[at : fitting[-1].at]) * share >= room:
                return fitting[-1]
        return None

    def _reopened(self, fence: Fence | None) -> str:
        """Returns the opening line; without its language if that is too long, empty if it is still too long."""
        if fence is None:
            return ""
        bare = fence.lead + fence.marks
        for opening in (bare + fence.info, bare):
            if self.measure(f"{opening}\n{fence.lead}\n{bare}") * 2 <= self.limit:
                return f"{opening}\n"
        return ""

    def _closed(self, fence: Fence | None, body: str) -> str:
        if fence is None or not self._reopened(fence):
            return ""
        closing = fence.lead + fence.marks
        return closing if body.endswith("\n") else f"\n{closing}"


def scan_lines(text: str) -> Iterator[Line]:
    fence: Fence | None = None
    for match in _LINE.finditer(text):
        content, edge = match[0].rstrip("\n"), ""
        if fence and _quoted(content, fence.depth) is None:
            fence = None  # the end of the quote ends the block
        if fence and fence.closed_by(content):
            fence, edge = None, "closes"
        elif not fence and (found := parse_fence(content)):
            fence, edge = found, "opens"
        yield Line(match.start(), match.end(), fence, edge)


def parse_fence(line: str) -> Fence | None:
    found = _FENCE.match(line)
    return Fence(_BULLET.sub(" ", found["lead"]), found["marks"], found["info"]) if found else None


def _quoted(line: str, depth: int) -> str | None:
    """Returns the line without `depth` quote marks; None if it has fewer."""
    at = 0
    for _ in range(depth):
        mark = _QUOTE.match(line, at)
        if mark is None:
            return None
        at = mark.end()
    return line[at:]


def longest(text: str, start: int, end: int, room: int, measure: Measure) -> int:
    """Counts the characters of `text[start:end]` that fit into `room`."""
    size = end - start
    high = min(size, room)
    while high < size and measure(text[start : start + high]) <= room:
        high = min(size, high * 2)
    low = 0
    while low < high:
        middle = (low + high + 1) // 2
        fits = measure(text[start : start + middle]) <= room
        low, high = (middle, high) if fits else (low, middle - 1)
    return low


def word_end(text: str, end: int) -> int:
    """Returns the position after the last space that leaves the piece at least a third full; 0 if there is none."""
    space = max(text.rfind(" ", 0, end), text.rfind("\t", 0, end))
    return space + 1 if (space + 1) * 3 >= end else 0


def clip(text: str, limit: int, measure: Measure = utf16_units) -> str:
    """Cuts to `limit`, marked with an ellipsis."""
    if measure(text) <= limit:
        return text
    size = longest(text, 0, len(text), limit - 1, measure)
    return f"{text[: grapheme_end(text, size)].rstrip()}…"


def grapheme_end(text: str, end: int) -> int:
    """Returns `end`, or a position a little before it, that splits no grapheme."""
    for at in range(end, max(end - 32, 0), -1):
        if at == len(text) or not _joined(text, at):
            return at
    return end


def _joined(text: str, at: int) -> bool:
    here, before = text[at], text[at - 1]
    extends = unicodedata.combining(here) or unicodedata.category(here) in ("Mn", "Me", "Mc")
    if extends or _ZWJ in (here, before) or "\U0001f3fb" <= here <= "\U0001f3ff":
        return True
    if _is_flag(here) and _is_flag(before):
        start = at
        while start and _is_flag(text[start - 1]) and at - start < 32:
            start -= 1
        return (at - start) % 2 == 1
    return before == "\r" and here == "\n"


def _is_flag(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"


class LiteralText(Struct, frozen=True):
    """Lines to be shown letter by letter; `language` is None outside a block of code."""

    text: str
    language: str | None = None


class Phrase(Struct, frozen=True):
    """Letters as they are, or code within a line."""

    text: str
    is_code: bool = False


def phrases(text: str) -> Iterator[Phrase]:
    """Splits a paragraph of our own text into plain text and code."""
    for n, piece in enumerate(_CODE.split(_TURNING.sub(escape_char, text))):
        if piece:
            yield Phrase(piece, is_code=n % 2 == 1)


def literals(text: str) -> Iterator[LiteralText]:
    """Splits text into paragraphs and fenced blocks; a fence is closed by the same marks alone on a line."""
    lines = iter(text.strip("\n").split("\n"))
    plain: list[str] = []
    for line in lines:
        fence = _OWN_FENCE.fullmatch(line)
        if fence is None:
            plain.append(line)
            continue
        yield from _paragraph(plain)
        plain = []
        inner: list[str] = []
        for code in lines:
            if code == fence["marks"]:
                break
            inner.append(code)
        yield LiteralText("\n".join(inner).rstrip("\n"), fence["language"])
    yield from _paragraph(plain)


def _paragraph(lines: list[str]) -> Iterator[LiteralText]:
    if text := "\n".join(lines).strip():
        yield LiteralText(text)


def table_width(cells: Sequence[Sequence[str]]) -> int:
    widths = _widths(cells)
    return sum(widths) + len(GAP) * (len(widths) - 1)


def table_lines(cells: Sequence[Sequence[str]], aligns: Sequence[Align]) -> Iterator[str]:
    """Yields the lines; the first row is the head, with a rule below it."""
    widths = _widths(cells)
    for number, row in enumerate(cells):
        padded = (_pad(text, width, align) for text, width, align in zip(row, widths, aligns, strict=True))
        yield GAP.join(padded).rstrip()
        if not number:
            yield GAP.join("─" * width for width in widths)


def columns(text: str) -> int:
    """Counts the columns of monospaced text."""
    if text.isascii():
        return len(text)
    return sum(_char_columns(char) for char in text)


def _widths(cells: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(columns, column)) for column in zip(*cells, strict=True)]


def _pad(text: str, width: int, align: Align) -> str:
    room = " " * (width - columns(text))
    if align == "center":
        half = len(room) // 2
        return room[:half] + text + room[half:]
    return room + text if align == "right" else text + room


def _char_columns(char: str) -> int:
    if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
