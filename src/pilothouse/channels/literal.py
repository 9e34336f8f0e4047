"""What people approve, as it is: the lines that the house wrote, and the blocks that it fenced. Shared by every channel.

Only the house's own fences are read as markup, and what could hide or turn around a word is made visible: nobody
approves what they cannot read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from pilothouse.core.message import clean_text

_FENCE = re.compile(r"(?P<marks>`{3,})(?P<language>[\w+#.-]*)")
_HIDDEN = re.compile("[\u00ad\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]")


class Literal(Struct, frozen=True):
    """Lines to be shown letter by letter; `language` is None outside a block of code."""

    text: str
    language: str | None = None


def plainly(text: str) -> str:
    return _HIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", clean_text(text))


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
