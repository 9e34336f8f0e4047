"""What a person typed, of what their app made of it: the marks that it took away, and the addresses that hide behind words. Pure.

Telegram's apps turn `__init__`, backticks and fences into entities, and drop the marks; what was chosen from a menu is told
alike. Telegram counts in UTF-16 units. An entity that does not fit the text is passed over: it costs its marks, never a
character of the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from pilothouse.channels.telegram.wire import Entity

MOST = 1000
"""Telegram itself takes 100."""
BLOCKS = ("pre", "blockquote", "expandable_blockquote")
"""What is written on lines of its own."""
_UNIT = 2
"""Bytes of one UTF-16 unit."""
_AROUND = {"bold": "**", "italic": "__", "strikethrough": "~~", "spoiler": "||"}
_LITERAL = ("code", "pre")
_TICKS = re.compile("`+")


class _Span(Struct, frozen=True):
    """Of characters. `more` is a link's address, or a block's language."""

    kind: str
    start: int
    end: int
    more: str = ""


def as_typed(text: str, entities: Sequence[Entity]) -> str:
    return _write(text, 0, len(text), _merged(list(_spans(text, entities))))


def _spans(text: str, entities: Sequence[Entity]) -> Iterator[_Span]:
    telling = [one for one in entities if one.type in _WRITERS and (one.url or one.type != "text_link")]
    data = text.encode("utf-16-le", "surrogatepass") if telling else b""
    for one in telling[:MOST]:
        start, end = one.offset * _UNIT, (one.offset + one.length) * _UNIT
        if 0 <= start < end <= len(data) and not _halves(data, start) and not _halves(data, end):
            first = len(_read(data[:start]))
            more = one.url if one.type == "text_link" else one.language
            yield _Span(one.type, first, first + len(_read(data[start:end])), more or "")


def _merged(spans: Sequence[_Span]) -> list[_Span]:
    """Telegram tells of one stretch in parts, where another begins or ends within it."""
    whole: list[_Span] = []
    for span in sorted(spans, key=lambda one: (one.kind, one.more, one.start)):
        last = whole[-1] if whole else None
        if last and (last.kind, last.more) == (span.kind, span.more) and span.start <= last.end:
            whole[-1] = replace(last, end=max(last.end, span.end))
        else:
            whole.append(span)
    return sorted(whole, key=_outermost)


def _outermost(span: _Span) -> tuple[int, int, int]:
    return span.start, -span.end, _ORDER.index(span.kind)


def _write(text: str, start: int, end: int, spans: Sequence[_Span]) -> str:
    """What crosses the end of another is cut in two there. `spans` are sorted, the outermost first."""
    pieces: list[str] = []
    while spans:
        outer, *others = spans
        inside = [
            replace(one, end=min(one.end, outer.end))
            for one in others
            if one.start < outer.end and one.kind != outer.kind and outer.kind not in _LITERAL
        ]
        words = _write(text, outer.start, outer.end, inside)
        pieces += [text[start : outer.start], _WRITERS[outer.kind](words, outer, text)]
        start = outer.end
        beyond = [replace(one, start=max(one.start, start)) for one in others if one.end > start]
        spans = sorted(beyond, key=_outermost)
    return "".join([*pieces, text[start:end]])


def _marked(words: str, span: _Span, _text: str) -> str:
    """Exactly where they stood: `2 ** 3 ** 4` was typed with the spaces inside."""
    return f"{_AROUND[span.kind]}{words}{_AROUND[span.kind]}"


def _code(words: str, _span: _Span, _text: str, least: int = 1) -> str:
    ticks = _ticks(words, least)
    pad = " " if words.startswith("`") or words.endswith("`") else ""
    return f"{ticks}{pad}{words}{pad}{ticks}"


def _pre(words: str, span: _Span, text: str) -> str:
    before, after = _breaks(span, text)
    if not words.strip():
        return words
    if (before or after) and "\n" not in words and not span.more:
        return _code(words, span, text, 3)  # typed within a line
    fence = _ticks(words, 3)
    language = span.more if span.more.isprintable() and not re.search(r"[\s`]", span.more) else ""
    last = "" if words.endswith("\n") else "\n"
    return f"{before}{fence}{language}\n{words}{last}{fence}{after}"


def _quotation(words: str, span: _Span, text: str) -> str:
    before, after = _breaks(span, text)
    said = words.rstrip("\n")
    lines = "\n".join(f"> {line}" for line in said.split("\n"))
    return f"{before}{lines}{words[len(said) :]}{after}" if said else words


def _link(words: str, span: _Span, _text: str) -> str:
    """The space around the words stays outside; an address that says itself is not said twice."""
    label, address = words.strip(), span.more
    if label in (address, address.removesuffix("/")):
        return words
    target = f"<{address}>" if any(mark in address for mark in " ()") else address
    if not label:
        return f"{words}<{address}>"
    before, _, after = words.partition(label)
    return f"{before}[{label}]({target}){after}"


_WRITERS: Mapping[str, Callable[[str, _Span, str], str]] = {
    "blockquote": _quotation,
    "expandable_blockquote": _quotation,
    "text_link": _link,
    **dict.fromkeys(_AROUND, _marked),
    "code": _code,
    "pre": _pre,
}
"""By kind, the outer of two that stand at the same place first. Underlining says nothing, and is not written."""
_ORDER = tuple(_WRITERS)


def _breaks(span: _Span, text: str) -> tuple[str, str]:
    """What a block needs before and behind it, to stand on lines of its own."""
    return (
        "\n" if span.start > 0 and text[span.start - 1] != "\n" else "",
        "\n" if span.end < len(text) and text[span.end] != "\n" else "",
    )


def _ticks(words: str, least: int) -> str:
    """A run that is longer than any within."""
    return "`" * max([least, *(len(run) + 1 for run in _TICKS.findall(words))])


def _halves(data: bytes, at: int) -> bool:
    """Whether a cut there would part the two units of one character."""
    units = data[at - _UNIT : at + _UNIT]
    return len(units) == 2 * _UNIT and 0xD8 <= units[1] < 0xDC and 0xDC <= units[3] < 0xE0


def _read(data: bytes) -> str:
    return data.decode("utf-16-le", "surrogatepass")
