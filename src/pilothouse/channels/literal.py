"""What the house says, as it is: its lines, and the blocks that it fenced. Shared by every channel.

Of what people approve only the house's own fences are read as markup, and what could hide or turn around a word is made
visible: nobody approves what they cannot read. Of its other words code within a line is markup, too, and nothing else: they
name people and what those typed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from pilothouse.core.message import clean_text

_FENCE = re.compile(r"(?P<marks>`{3,})(?P<language>[\w+#.-]*)")
_HIDDEN = re.compile("[\u00ad\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]")

_TURNING = re.compile("[\u202a-\u202e\u2066-\u2069]")
"""What turns around whatever follows it. The others stand in names: of people, and of emoji."""
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
    """A paragraph of the house's words."""
    for n, piece in enumerate(_CODE.split(_TURNING.sub(_escape, text))):
        if piece:
            yield Phrase(piece, is_code=n % 2 == 1)


def plainly(text: str) -> str:
    return _HIDDEN.sub(_escape, clean_text(text))


def _escape(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


def literals(text: str) -> Iterator[Literal]:
    """Lines as they are, but for the fences around blocks: each is closed by its own marks alone on a line."""
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
