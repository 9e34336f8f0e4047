"""What a rich message says, as Markdown: our own answers come back that way when people quote or forward them. Pure.

A block or a text of a kind that we do not know is read by what it holds, and nothing that stands there raises. Bot API
10.3, https://core.telegram.org/bots/api#richmessage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

DEEPEST = 32
"""Telegram itself takes 16 levels."""

_AROUND = {"bold": "**", "italic": "_", "strikethrough": "~~", "code": "`", "mathematical_expression": "$"}
_MEDIA = {
    "animation": "animation",
    "audio": "audio",
    "document": "file",
    "photo": "picture",
    "video": "video",
    "voice_note": "voice message",
    "map": "map",
}
_SILENT = frozenset({"anchor", "buttons", "thinking"})
"""They say nothing by themselves."""

Block = Mapping[str, Any]


def rich_words(rich: object) -> str:
    return _blocks(_map(rich).get("blocks"), 0)


def _blocks(blocks: object, depth: int, gap: str = "\n\n") -> str:
    if depth > DEEPEST:
        return ""
    return gap.join(filter(None, (_block(_map(one), depth) for one in _list(blocks))))


def _block(block: Block, depth: int) -> str:
    kind = str(block.get("type"))
    if kind in _SILENT:
        return ""
    if kind in _MEDIA:
        return "\n".join(filter(None, (f"[{_MEDIA[kind]}]", _caption(block.get("caption"), depth))))
    return _WRITERS.get(kind, _any)(block, depth).strip("\n")


def _any(block: Block, depth: int) -> str:
    """A paragraph, a footer, a collage, and whatever comes to be: its words, then what it holds."""
    parts = (
        _inline(block.get("summary"), depth),
        _inline(block.get("text"), depth),
        _blocks(block.get("blocks"), depth + 1),
        _caption(block.get("caption"), depth),
    )
    return "\n".join(filter(None, parts))


def _heading(block: Block, depth: int) -> str:
    size = block.get("size")
    level = size if isinstance(size, int) and 1 <= size <= 6 else 1
    return f"{'#' * level} {_inline(block.get('text'), depth)}"


def _pre(block: Block, depth: int) -> str:
    text = _plain(block.get("text"), depth).rstrip("\n")
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{block.get('language') or ''}\n{text}\n{fence}"


def _formula(block: Block, _depth: int) -> str:
    return f"$${block.get('expression') or ''}$$"


def _divider(_block: Block, _depth: int) -> str:
    return "---"


def _list_block(block: Block, depth: int) -> str:
    return "\n".join(_item(_map(item), depth) for item in _list(block.get("items")))


def _item(item: Block, depth: int) -> str:
    mark = "-" if item.get("value") is None else str(item.get("label") or f"{item['value']}.")
    if item.get("has_checkbox"):
        mark += " [x]" if item.get("is_checked") else " [ ]"
    return _indented(_blocks(item.get("blocks"), depth + 1, "\n"), f"{mark} ", "  ")


def _quotation(block: Block, depth: int) -> str:
    credit = _inline(block.get("credit"), depth)
    said = "\n".join(filter(None, (_any(block, depth), f"— {credit}" if credit else "")))
    return _indented(said, "> ", "> ")


def _table(block: Block, depth: int) -> str:
    rows = [
        [_inline(_map(cell).get("text"), depth).replace("\n", " ").replace("|", r"\|") for cell in _list(row)]
        for row in _list(block.get("cells"))
    ]
    lines = [f"| {' | '.join(row)} |" for row in rows]
    if rows:
        lines.insert(1, "|" + " --- |" * max(1, len(rows[0])))
    return "\n".join([*lines, *filter(None, [_caption(block.get("caption"), depth)])])


_WRITERS: Mapping[str, Callable[[Block, int], str]] = {
    "heading": _heading,
    "pre": _pre,
    "mathematical_expression": _formula,
    "divider": _divider,
    "list": _list_block,
    "blockquote": _quotation,
    "expandable_blockquote": _quotation,
    "pullquote": _quotation,
    "table": _table,
}


def _caption(caption: object, depth: int) -> str:
    """Of a table it is a text by itself."""
    if isinstance(caption, dict) and "type" not in caption:
        parts = (_inline(caption.get("text"), depth), _inline(caption.get("credit"), depth))
        return "\n".join(filter(None, parts))
    return _inline(caption, depth)


def _inline(text: object, depth: int) -> str:
    return "".join(_spans(text, depth, marked=True))


def _plain(text: object, depth: int) -> str:
    """Without marks: in code they would be characters of it."""
    return "".join(_spans(text, depth, marked=False))


def _spans(text: object, depth: int, *, marked: bool) -> Iterator[str]:
    if isinstance(text, str):
        yield text
    elif isinstance(text, list) and depth <= DEEPEST:
        for one in text:
            yield from _spans(one, depth + 1, marked=marked)
    elif isinstance(text, dict) and depth <= DEEPEST:
        yield _span(text, depth + 1, marked=marked)


def _span(span: Block, depth: int, *, marked: bool) -> str:
    kind = str(span.get("type"))
    held = next(
        (span[name] for name in ("text", "alternative_text", "expression", "button") if name in span), ""
    )
    words = "".join(_spans(held, depth, marked=marked and kind != "code"))
    if not marked or not words.strip():
        return words
    if kind == "url" and isinstance(address := span.get("url"), str) and address != words:
        return f"[{words}]({address})"
    mark = _AROUND.get(kind, "")
    return f"{mark}{words}{mark}"


def _indented(text: str, first: str, rest: str) -> str:
    lines = text.split("\n")
    return "\n".join([first + lines[0], *((rest + line).rstrip() for line in lines[1:])]).rstrip()


def _map(value: object) -> Block:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
