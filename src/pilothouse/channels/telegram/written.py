"""Writes messages back as Markdown: text with entities (`as_typed`) and rich messages (`rich_markdown`). Pure.

Telegram's apps turn `__init__`, backticks and fences into entities and drop the marks; a style chosen from a menu looks
the same. Telegram counts UTF-16 units. An entity that does not fit the text loses its marks, never a character.

Our own answers come back as rich messages (Bot API 10.3, https://core.telegram.org/bots/api#richmessage) when people
quote or forward them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from pilothouse.channels.telegram.wire import Entity

MAX_ENTITIES = 1000
"""Telegram accepts 100."""
BLOCKS = ("pre", "blockquote", "expandable_blockquote")
"""Entities that are written on lines of their own."""
_UNIT = 2
"""Bytes of one UTF-16 unit."""
_AROUND = {"bold": "**", "italic": "__", "strikethrough": "~~", "spoiler": "||"}
_LITERAL = ("code", "pre")
_TICKS = re.compile("`+")

MAX_DEPTH = 32
"""Telegram accepts 16 levels."""

_RICH_MARKS = {
    "bold": "**",
    "italic": "_",
    "strikethrough": "~~",
    "code": "`",
    "mathematical_expression": "$",
}
_MEDIA = {
    "animation": "animation",
    "audio": "audio",
    "document": "file",
    "photo": "picture",
    "video": "video",
    "voice_note": "voice message",
    "map": "map",
}
_WITHOUT_TEXT = frozenset({"anchor", "buttons", "thinking"})
"""Blocks without text of their own."""

_Block = Mapping[str, Any]


class _Span(Struct, frozen=True):
    """A range of characters. `more` is a link's address or a code block's language."""

    kind: str
    start: int
    end: int
    more: str = ""


def as_typed(text: str, entities: Sequence[Entity]) -> str:
    """Write the marks back that the app turned into entities."""
    return _write(text, 0, len(text), _merged(list(_spans(text, entities))))


def _spans(text: str, entities: Sequence[Entity]) -> Iterator[_Span]:
    telling = [one for one in entities if one.type in _WRITERS and (one.url or one.type != "text_link")]
    data = text.encode("utf-16-le", "surrogatepass") if telling else b""
    for one in telling[:MAX_ENTITIES]:
        start, end = one.offset * _UNIT, (one.offset + one.length) * _UNIT
        if 0 <= start < end <= len(data) and not _halves(data, start) and not _halves(data, end):
            first = len(_read(data[:start]))
            more = one.url if one.type == "text_link" else one.language
            yield _Span(one.type, first, first + len(_read(data[start:end])), more or "")


def _merged(spans: Sequence[_Span]) -> list[_Span]:
    """Merge parts of one range, which Telegram splits where another begins or ends within it."""
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
    """Write nested spans, sorted with the outermost first. One that crosses the end of another is split there."""
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
    """Put the marks exactly where they were: `2 ** 3 ** 4` was typed with the spaces inside."""
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
    """Write a link, with white space outside of it. An address as the label is not repeated."""
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
"""By kind, outer ones first. Underlining has no Markdown, and is not written."""
_ORDER = tuple(_WRITERS)


def _breaks(span: _Span, text: str) -> tuple[str, str]:
    """Return the line breaks that a block needs before and after it."""
    return (
        "\n" if span.start > 0 and text[span.start - 1] != "\n" else "",
        "\n" if span.end < len(text) and text[span.end] != "\n" else "",
    )


def _ticks(words: str, least: int) -> str:
    """Return a run of backticks that is longer than any within."""
    return "`" * max([least, *(len(run) + 1 for run in _TICKS.findall(words))])


def _halves(data: bytes, at: int) -> bool:
    """Tell whether a cut there would split a surrogate pair."""
    units = data[at - _UNIT : at + _UNIT]
    return len(units) == 2 * _UNIT and 0xD8 <= units[1] < 0xDC and 0xDC <= units[3] < 0xE0


def _read(data: bytes) -> str:
    return data.decode("utf-16-le", "surrogatepass")


def rich_markdown(rich: object) -> str:
    """Write a rich message as Markdown. An unknown block is read by its text; nothing raises."""
    return _blocks(_map(rich).get("blocks"), 0)


def _blocks(blocks: object, depth: int, gap: str = "\n\n") -> str:
    if depth > MAX_DEPTH:
        return ""
    return gap.join(filter(None, (_block(_map(one), depth) for one in _list(blocks))))


def _block(block: _Block, depth: int) -> str:
    kind = str(block.get("type"))
    if kind in _WITHOUT_TEXT:
        return ""
    if kind in _MEDIA:
        return "\n".join(filter(None, (f"[{_MEDIA[kind]}]", _caption(block.get("caption"), depth))))
    return _BLOCK_WRITERS.get(kind, _any_block)(block, depth).strip("\n")


def _any_block(block: _Block, depth: int) -> str:
    """Write any other block: its text, then the blocks in it."""
    parts = (
        _inline(block.get("summary"), depth),
        _inline(block.get("text"), depth),
        _blocks(block.get("blocks"), depth + 1),
        _caption(block.get("caption"), depth),
    )
    return "\n".join(filter(None, parts))


def _heading(block: _Block, depth: int) -> str:
    size = block.get("size")
    level = size if isinstance(size, int) and 1 <= size <= 6 else 1
    return f"{'#' * level} {_inline(block.get('text'), depth)}"


def _rich_code(block: _Block, depth: int) -> str:
    text = _plain(block.get("text"), depth).rstrip("\n")
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{block.get('language') or ''}\n{text}\n{fence}"


def _formula(block: _Block, _depth: int) -> str:
    return f"$${block.get('expression') or ''}$$"


def _divider(_block: _Block, _depth: int) -> str:
    return "---"


def _list_block(block: _Block, depth: int) -> str:
    return "\n".join(_item(_map(item), depth) for item in _list(block.get("items")))


def _item(item: _Block, depth: int) -> str:
    mark = "-" if item.get("value") is None else str(item.get("label") or f"{item['value']}.")
    if item.get("has_checkbox"):
        mark += " [x]" if item.get("is_checked") else " [ ]"
    return _indented(_blocks(item.get("blocks"), depth + 1, "\n"), f"{mark} ", "  ")


def _rich_quotation(block: _Block, depth: int) -> str:
    credit = _inline(block.get("credit"), depth)
    said = "\n".join(filter(None, (_any_block(block, depth), f"— {credit}" if credit else "")))
    return _indented(said, "> ", "> ")


def _table(block: _Block, depth: int) -> str:
    rows = [
        [_inline(_map(cell).get("text"), depth).replace("\n", " ").replace("|", r"\|") for cell in _list(row)]
        for row in _list(block.get("cells"))
    ]
    lines = [f"| {' | '.join(row)} |" for row in rows]
    if rows:
        lines.insert(1, "|" + " --- |" * max(1, len(rows[0])))
    return "\n".join([*lines, *filter(None, [_caption(block.get("caption"), depth)])])


_BLOCK_WRITERS: Mapping[str, Callable[[_Block, int], str]] = {
    "heading": _heading,
    "pre": _rich_code,
    "mathematical_expression": _formula,
    "divider": _divider,
    "list": _list_block,
    "blockquote": _rich_quotation,
    "expandable_blockquote": _rich_quotation,
    "pullquote": _rich_quotation,
    "table": _table,
}


def _caption(caption: object, depth: int) -> str:
    """Write a caption, which for a table is a plain text."""
    if isinstance(caption, dict) and "type" not in caption:
        parts = (_inline(caption.get("text"), depth), _inline(caption.get("credit"), depth))
        return "\n".join(filter(None, parts))
    return _inline(caption, depth)


def _inline(text: object, depth: int) -> str:
    return "".join(_rich_spans(text, depth, marked=True))


def _plain(text: object, depth: int) -> str:
    """Return the text without marks, for code."""
    return "".join(_rich_spans(text, depth, marked=False))


def _rich_spans(text: object, depth: int, *, marked: bool) -> Iterator[str]:
    if isinstance(text, str):
        yield text
    elif isinstance(text, list) and depth <= MAX_DEPTH:
        for one in text:
            yield from _rich_spans(one, depth + 1, marked=marked)
    elif isinstance(text, dict) and depth <= MAX_DEPTH:
        yield _rich_span(text, depth + 1, marked=marked)


def _rich_span(span: _Block, depth: int, *, marked: bool) -> str:
    kind = str(span.get("type"))
    held = next(
        (span[name] for name in ("text", "alternative_text", "expression", "button") if name in span), ""
    )
    words = "".join(_rich_spans(held, depth, marked=marked and kind != "code"))
    if not marked or not words.strip():
        return words
    if kind == "url" and isinstance(address := span.get("url"), str) and address != words:
        return f"[{words}]({address})"
    mark = _RICH_MARKS.get(kind, "")
    return f"{mark}{words}{mark}"


def _indented(text: str, first: str, rest: str) -> str:
    lines = text.split("\n")
    return "\n".join([first + lines[0], *((rest + line).rstrip() for line in lines[1:])]).rstrip()


def _map(value: object) -> _Block:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
