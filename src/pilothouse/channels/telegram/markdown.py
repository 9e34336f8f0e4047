"""Parses Markdown into blocks without loss: characters that are not markup stay text.

The parser is pulldown-cmark (through pyromark), whose time is linear for hostile input too. Three things that
CommonMark would drop from an agent's text are kept: `__init__.py` and `src/*.py` keep their marks, raw HTML is text,
and a line such as `[error]: failed`, a link definition to CommonMark, is text unless a link with a valid address uses it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from msgspec import Struct, field

from pilothouse.channels.telegram.styled import (
    Block,
    Code,
    Heading,
    Item,
    Items,
    Mark,
    Paragraph,
    Quote,
    Rule,
    Span,
    Spans,
    Table,
    is_valid_link,
    plain_text,
    text_spans,
)
from pilothouse.channels.text import Align

PASSES = 4
"""Escaping a definition may reveal another one."""
MAX_EVENTS = 10_000
"""The bound on parsing: 60 kB of ordinary text have fewer, and hostile marks cost time."""
_DEFINITION = re.compile(rb"^[ \t>*+\d.)-]*(?P<label>\[[^\]\n]+\]):", re.MULTILINE)

Parsed = list[tuple[Any, int, int]]
"""pulldown-cmark's events, each with its range of bytes in the source."""

_WORD = re.compile(rb"[A-Za-z0-9_]")
_NAME = re.compile(rb"\w+")

MAX_DEPTH = 12
"""The bound on nested lists, items and quotes; deeper content joins the container around it."""
LEVELS = {"items": 2, "item": 1, "quote": 1}
"""Levels that a container needs; a list includes its items."""

_MARKS: Mapping[str, Mark] = {"Emphasis": "italic", "Strong": "bold", "Strikethrough": "strikethrough"}
_ALIGNS: Mapping[str, Align] = {"None": "", "Left": "left", "Center": "center", "Right": "right"}
_LANGUAGE = re.compile(r"[\w+#.-]{1,24}(?![^\s:,])", re.ASCII)
_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)


class _Frame(Struct):
    """An open container and its content so far."""

    kind: str
    blocks: list[Block] = field(default_factory=list)
    items: list[Item] = field(default_factory=list)
    start: int | None = None
    checked: bool | None = None
    aligns: tuple[Align, ...] = ()
    rows: list[tuple[Spans, ...]] = field(default_factory=list)
    cells: list[Spans] = field(default_factory=list)


class _Link(Struct):
    url: str
    taken: str
    """The address for the spans; empty if Telegram would refuse it."""
    begins: int


def parse_markdown(text: str) -> tuple[Block, ...]:
    text, events = parse_events(text)
    reader = _Reader(text.encode())
    for event, start, end in events:
        reader.feed(event, start, end)
    return reader.blocks()


class _Reader:
    """Turns events into blocks, without recursion, so that deep nesting cannot break it."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._frames = [_Frame("document")]
        self._spans: list[Span] = []
        self._marks: list[Mark] = []
        self._literal: list[str] = []
        """For each open emphasis, its marks if they are literal, else an empty string."""
        self._links: list[_Link] = []
        self._code: list[str] | None = None
        self._info = ""
        self._cell_end = 0
        self._skipped = 0

    def blocks(self) -> tuple[Block, ...]:
        self._end_paragraph()
        return tuple(self._frames[0].blocks)

    def feed(self, event: Any, start: int, end: int) -> None:
        match event:
            case {"Start": tag}:
                self._open(tag, start, end)
            case {"End": tag}:
                self._close(tag, end)
            case {"Text": text}:
                self._text(text)
            case {"Code": text}:
                self._add(text, "code")
            case {"Html": html} | {"InlineHtml": html}:
                self._add("\n" if _BREAK.fullmatch(html.strip()) else html)
            case {"TaskListMarker": checked}:
                self._frames[-1].checked = checked
            case "SoftBreak" | "HardBreak":
                self._add("\n")
            case "Rule":
                self._end_paragraph()
                self._frames[-1].blocks.append(Rule())
            case _:
                self._add(self._raw[start:end].decode(errors="replace"))

    def _text(self, text: str) -> None:
        if self._code is not None:
            self._code.append(text)
        else:
            self._add(text)

    def _add(self, text: str, *marks: Mark) -> None:
        url = self._links[0].taken if self._links else ""
        look = frozenset((*self._marks, *marks))
        if self._spans and self._spans[-1].marks == look and self._spans[-1].url == url:
            self._spans[-1] = Span(self._spans[-1].text + text, look, url)
        elif text:
            self._spans.append(Span(text, look, url))

    def _open(self, tag: Any, start: int, end: int) -> None:
        match tag:
            case "Emphasis" | "Strong" | "Strikethrough":
                self._open_mark(tag, start, end)
            case {"Link": link} | {"Image": link}:
                self._open_link(link)
            case {"CodeBlock": kind}:
                self._end_paragraph()
                self._code = []
                self._info = kind["Fenced"] if isinstance(kind, dict) else ""
            case {"List": first}:
                self._push("items", start=first)
            case "Item":
                self._push("item")
            case {"BlockQuote": _}:
                self._push("quote")
            case {"Table": aligns}:
                self._push("table", aligns=tuple(_ALIGNS[align] for align in aligns))
            case "TableHead" | "TableRow":
                self._frames[-1].cells = []
            case "TableCell":
                self._spans = []
            case _:
                self._end_paragraph()

    def _close(self, tag: Any, end: int) -> None:
        match tag:
            case "Emphasis" | "Strong" | "Strikethrough":
                self._close_mark()
            case "Link" | "Image":
                self._close_link()
            case "CodeBlock":
                self._close_code()
            case {"Heading": level}:
                if spans := self._taken():
                    self._frames[-1].blocks.append(Heading(int(level[1]), spans))
            case {"List": _} | "Item" | {"BlockQuote": _}:
                self._pop("container")
            case "Table":
                self._pop("table")
            case "TableCell":
                self._frames[-1].cells.append(self._taken())
                self._cell_end = end
            case "TableHead" | "TableRow":
                self._close_row(end)
            case _:
                self._end_paragraph()

    def _close_row(self, end: int) -> None:
        """Append cells beyond the header's, which the parser drops, to the last cell."""
        frame = self._frames[-1]
        beyond = self._raw[self._cell_end : end].decode(errors="replace").strip("| \t\r\n>")
        if beyond and frame.cells:
            frame.cells[-1] = (*frame.cells[-1], Span(f" | {beyond}"))
        frame.rows.append(tuple(frame.cells))

    def _open_mark(self, tag: str, start: int, end: int) -> None:
        written = literal_marks(self._raw, start, end, tag)
        self._literal.append(written)
        if written:
            self._add(written)
        else:
            self._marks.append(_MARKS[tag])

    def _close_mark(self) -> None:
        literal_marks = self._literal.pop()
        if literal_marks:
            self._add(literal_marks)
        else:
            self._marks.pop()

    def _open_link(self, link: Mapping[str, Any]) -> None:
        url = link["dest_url"]
        # Telegram links mail addresses by itself.
        taken = url if is_valid_link(url) and link["link_type"] != "Email" else ""
        self._links.append(_Link(url, taken, len(self._spans)))
        self._spans.append(Span("", frozenset(), "\0"))  # keeps the label apart from the text before it

    def _close_link(self) -> None:
        link = self._links[-1]
        del self._spans[link.begins]
        label = plain_text(self._spans[link.begins :])
        if not label.strip():
            self._spans[link.begins :] = [Span(link.url or "image", frozenset(self._marks), link.taken)]
        elif not link.taken and len(self._links) == 1 and link.url not in ("", label, f"mailto:{label}"):
            self._add(f" ({link.url})")
        self._links.pop()

    def _close_code(self) -> None:
        text, self._code = "".join(self._code or ()), None
        info = self._info.strip()
        named = _LANGUAGE.match(info)
        language = named[0] if named else ""
        if info != language or not text.strip():
            self._frames[-1].blocks.append(Paragraph(text_spans(info)))
        self._frames[-1].blocks.append(Code(text.removesuffix("\n"), language))

    def _end_paragraph(self) -> None:
        if spans := self._taken():
            self._frames[-1].blocks.append(Paragraph(spans))

    def _taken(self) -> Spans:
        spans = _trimmed(self._spans)
        self._spans = []
        return spans

    def _push(self, kind: str, *, start: int | None = None, aligns: tuple[Align, ...] = ()) -> None:
        self._end_paragraph()
        if kind != "table" and len(self._frames) + LEVELS[kind] > MAX_DEPTH:
            self._skipped += 1
        else:
            self._frames.append(_Frame(kind, start=start, aligns=aligns))

    def _pop(self, kind: str) -> None:
        self._end_paragraph()
        if self._skipped and kind != "table":
            self._skipped -= 1
            return
        frame, around = self._frames.pop(), self._frames[-1]
        match frame.kind:
            case "table":
                head, *rows = frame.rows
                around.blocks.append(Table(frame.aligns, head, tuple(rows)))
            case "item":
                around.items.append(Item(tuple(frame.blocks), frame.checked))
            case "items":
                around.blocks.append(Items(tuple(frame.items), frame.start))
            case _:
                around.blocks.append(Quote(tuple(frame.blocks)))


def _trimmed(spans: Iterable[Span]) -> Spans:
    """Strip white space at both ends."""
    kept = [span for span in spans if span.text]
    while kept and not kept[0].text.strip():
        del kept[0]
    while kept and not kept[-1].text.strip():
        del kept[-1]
    if kept:
        kept[0] = Span(kept[0].text.lstrip(), kept[0].marks, kept[0].url)
        kept[-1] = Span(kept[-1].text.rstrip(), kept[-1].marks, kept[-1].url)
    return tuple(kept)


def parse_events(text: str) -> tuple[str, Parsed]:
    """Escape definitions that no link uses, and return the text with its events. Text over the bound stays literal."""
    for _ in range(PASSES):
        events = _events(text)
        if len(events) > MAX_EVENTS:
            break
        hiding = _hiding(text, events) if "]:" in text else []
        if not hiding:
            return text, events
        raw, last = text.encode(), 0
        pieces: list[bytes] = []
        for at in hiding:
            pieces += [raw[last:at], b"\\"]
            last = at
        text = b"".join([*pieces, raw[last:]]).decode()
    return text, [({"Text": text}, 0, 0)]


def _events(text: str) -> Parsed:
    import pyromark

    found = pyromark.events_with_range(text, options=_options(), merge_text=True)
    return [(event, where["start"], where["end"]) for event, where in islice(found, MAX_EVENTS + 1)]


def _options() -> Any:
    from pyromark import Options

    return Options.ENABLE_TABLES | Options.ENABLE_STRIKETHROUGH | Options.ENABLE_TASKLISTS


def _hiding(text: str, events: Parsed) -> list[int]:
    """Return the byte offsets of definitions to escape. Of two for one label CommonMark would drop the second."""
    import pyromark

    defined = pyromark.reference_definitions(text, options=_options())
    if not defined:
        return []
    used = {_folded(event["Start"]["Link"]["id"]) for event, _, _ in events if _is_link(event)}
    kept = {_folded(label) for label, found in defined.items() if is_valid_link(found["dest"])} & used
    places = {found["span"]["start"] for label, found in defined.items() if _folded(label) not in kept}
    code = [(start, end) for event, start, end in events if _is_code(event)]
    for match in _DEFINITION.finditer(text.encode()):
        label, at = _folded(match["label"][1:-1].decode(errors="replace")), match.start("label")
        if label in kept:
            kept.discard(label)
        elif not any(start <= at < end for start, end in code):
            places.add(at)
    return sorted(places)


def _is_link(event: Any) -> bool:
    tag = event.get("Start") if isinstance(event, dict) else None
    return isinstance(tag, dict) and "Link" in tag


def _is_code(event: Any) -> bool:
    if not isinstance(event, dict):
        return False
    tag = event.get("Start")
    return "Code" in event or "Html" in event or (isinstance(tag, dict) and "CodeBlock" in tag)


def _folded(label: str) -> str:
    return " ".join(label.split()).casefold()


def literal_marks(raw: bytes, start: int, end: int, tag: str) -> str:
    """Return the marks as text if `raw[start:end]` is a glob, a name or a sum; empty if it is emphasis."""
    size = 1 if tag == "Emphasis" else 2
    marks, inner = raw[start : start + size], raw[start + size : end - size]
    if marks.startswith(b"~"):
        return ""
    before, after = raw[start - 1 : start], raw[end : end + 1]
    if marks.startswith(b"*"):
        found = _is_glob(inner, before, size) or _is_within_word(inner, before, after)
    else:
        found = size == 2 and _NAME.fullmatch(inner) is not None
    return marks.decode() if found or not _says_something(inner) else ""


def _is_glob(inner: bytes, before: bytes, size: int) -> bool:
    """Match `src/*.py, tests/*.py` and `**/x/**`, but not `**/etc/hosts**`."""
    if size == 1 and (before == b"/" or inner.endswith(b"/")):
        return True
    return inner.startswith(b"/") and inner.endswith(b"/")


def _is_within_word(inner: bytes, before: bytes, after: bytes) -> bool:
    """Match `2*3*4` and `x**2 + y**2`. ASCII only: scripts without spaces set marks within words."""
    opens = _WORD.match(before) and _WORD.match(inner[:1])
    return bool(opens or (_WORD.match(after) and _WORD.match(inner[-1:])))


def _says_something(inner: bytes) -> bool:
    return any(char.isalnum() for char in inner.decode(errors="replace")) or any(byte > 127 for byte in inner)
