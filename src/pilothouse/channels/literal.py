"""Pilothouse's own texts, shown literally. Shared by every channel.

In what people approve, only our own fences are markup, and characters that could hide or reverse a word are made
visible: people must see what they approve. In our other texts code within a line is markup too, and nothing else: they
quote names and messages of people.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from pilothouse.core.message import clean_text

_FENCE = re.compile(r"(?P<marks>`{3,})(?P<language>[\w+#.-]*)")
_HIDDEN = re.compile("[\u00ad\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]")

_TURNING = re.compile("[\u202a-\u202e\u2066-\u2069]")
"""Characters that reverse what follows. The other hidden ones occur in names of people and in emoji."""
_CODE = re.compile(r"`([^`\n]+)`")


class Literal(Struct, frozen=True):
    """Lines to be shown letter by letter; `language` is None outside a block of code."""

    text: str
    language: str | None = None


class Phrase(Struct, frozen=True):
    """Letters as they are, or code within a line."""

    text: str
    is_code: bool = False


def phrases(text: str) -> Iterator[Phrase]:
    """Splits a paragraph of our own text into plain text and code."""
    for n, piece in enumerate(_CODE.split(_TURNING.sub(_escape, text))):
        if piece:
            yield Phrase(piece, is_code=n % 2 == 1)


def reveal_hidden(text: str) -> str:
    return _HIDDEN.sub(_escape, clean_text(text))


def _escape(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


def literals(text: str) -> Iterator[Literal]:
    """Splits text into paragraphs and fenced blocks; a fence is closed by the same marks alone on a line."""
    lines = iter(text.strip("\n").split("\n"))
    plain: list[str] = []
    for line in lines:
        fence = _FENCE.fullmatch(line)
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
        yield Literal("\n".join(inner).rstrip("\n"), fence["language"])
    yield from _paragraph(plain)


def _paragraph(lines: list[str]) -> Iterator[Literal]:
    if text := "\n".join(lines).strip():
        yield Literal(text)
