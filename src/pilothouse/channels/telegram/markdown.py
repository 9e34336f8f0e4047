"""Lines such as `[error]: failed` are definitions of links to CommonMark, which drops them: here they stay text.

A definition is kept as one only if a link uses it and Telegram takes its address; each other gets a backslash.

When stars and underscores are no emphasis: in globs, names and sums, which CommonMark would take them out of.

Markdown to blocks, without loss: what is not markup stays text.

The parser is pulldown-cmark (through pyromark): its time is linear in hostile input too. Three things that CommonMark
would eat in the words of a coding agent are given back: `__init__.py` and `src/*.py` keep their marks, raw HTML is
text, and a line such as `[error]: failed`, a link's definition to CommonMark, is text unless a link uses it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from msgspec import Struct, field

from pilothouse.channels.tables import Align
from pilothouse.channels.telegram import styled
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
    bare,
    words,
)

PASSES = 4
MAX_EVENTS = 10_000
"""No more than this is read: 60 kB of what people write have less, and hostile marks cost time."""
_DEFINITION = re.compile(rb"^[ \t>*+\d.)-]*(?P<label>\[[^\]\n]+\]):", re.MULTILINE)

Parsed = list[tuple[Any, int, int]]
"""pulldown-cmark's events, each with the bytes of the source that it is about."""

_WORD = re.compile(rb"[A-Za-z0-9_]")
_NAME = re.compile(rb"\w+")

MAX_DEPTH = 12
"""Lists, their items and quotes within each other; what is deeper joins the one around it."""
LEVELS = {"items": 2, "item": 1, "quote": 1}
"""A list needs room for its items too."""

_MARKS: Mapping[str, Mark] = {"Emphasis": "italic", "Strong": "bold", "Strikethrough": "strikethrough"}
_ALIGNS: Mapping[str, Align] = {"None": "", "Left": "left", "Center": "center", "Right": "right"}
_LANGUAGE = re.compile(r"[\w+#.-]{1,24}(?![^\s:,])", re.ASCII)
_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)


def freed(text: str) -> tuple[str, Parsed]:
    """The text in which no definition hides words, and its events; one that is all marks is taken literally."""
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
    """Where definitions begin that are to be text, in bytes. Of two for one label Markdown would drop the second."""
    import pyromark

    defined = pyromark.reference_definitions(text, options=_options())
    if not defined:
        return []
    used = {_folded(event["Start"]["Link"]["id"]) for event, _, _ in events if _is_link(event)}
    kept = {_folded(label) for label, found in defined.items() if styled.takes(found["dest"])} & used
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


def literal(raw: bytes, start: int, end: int, tag: str) -> str:
    """The marks as text if `raw[start:end]` is no emphasis; empty if it is."""
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
    """`src/*.py, tests/*.py` and `**/x/**`, but not `**/etc/hosts**`."""
    if size == 1 and (before == b"/" or inner.endswith(b"/")):
        return True
    return inner.startswith(b"/") and inner.endswith(b"/")


def _is_within_word(inner: bytes, before: bytes, after: bytes) -> bool:
    """`2*3*4` and `x**2 + y**2`. Scripts without spaces set marks within words, so this is for ASCII alone."""
    opens = _WORD.match(before) and _WORD.match(inner[:1])
    return bool(opens or (_WORD.match(after) and _WORD.match(inner[-1:])))


def _says_something(inner: bytes) -> bool:
    return any(char.isalnum() for char in inner.decode(errors="replace")) or any(byte > 127 for byte in inner)


def parse_markdown(text: str) -> tuple[Block, ...]:
    text, events = freed(text)
    reader = _Reader(text.encode())
    for event, start, end in events:
        reader.feed(event, start, end)
    return reader.blocks()


class _Frame(Struct):
    """A container that is open: its kind, what it holds so far, and what closing it needs to know."""

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
    """The address that the spans carry: empty for one that Telegram refuses."""
    begins: int


class _Reader:
    """Events to blocks. No recursion, so that no nesting, however deep, breaks it."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._frames = [_Frame("document")]
        self._spans: list[Span] = []
        self._marks: list[Mark] = []
        self._literal: list[str] = []
        """For each open emphasis: what stands for it where it is none, else nothing."""
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
        """Cells beyond the head's would be dropped: they go into the last one."""
        frame = self._frames[-1]
        beyond = self._raw[self._cell_end : end].decode(errors="replace").strip("| \t\r\n>")
        if beyond and frame.cells:
            frame.cells[-1] = (*frame.cells[-1], Span(f" | {beyond}"))
        frame.rows.append(tuple(frame.cells))

    def _open_mark(self, tag: str, start: int, end: int) -> None:
        written = literal(self._raw, start, end, tag)
        self._literal.append(written)
        if written:
            self._add(written)
        else:
            self._marks.append(_MARKS[tag])

    def _close_mark(self) -> None:
        literal = self._literal.pop()
        if literal:
            self._add(literal)
        else:
            self._marks.pop()

    def _open_link(self, link: Mapping[str, Any]) -> None:
        url = link["dest_url"]
        # Telegram finds an address of mail by itself.
        taken = url if styled.takes(url) and link["link_type"] != "Email" else ""
        self._links.append(_Link(url, taken, len(self._spans)))
        self._spans.append(Span("", frozenset(), "\0"))  # so that the label joins nothing before it

    def _close_link(self) -> None:
        link = self._links[-1]
        del self._spans[link.begins]
        label = bare(self._spans[link.begins :])
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
            self._frames[-1].blocks.append(Paragraph(words(info)))
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
    """Without white space at either end."""
    kept = [span for span in spans if span.text]
    while kept and not kept[0].text.strip():
        del kept[0]
    while kept and not kept[-1].text.strip():
        del kept[-1]
    if kept:
        kept[0] = Span(kept[0].text.lstrip(), kept[0].marks, kept[0].url)
        kept[-1] = Span(kept[-1].text.rstrip(), kept[-1].marks, kept[-1].url)
    return tuple(kept)
