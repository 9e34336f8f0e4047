"""Finds the texts in the input of a tool that is judged by its name, for rules that deny or ask."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

MAX_TEXTS = 1000
MAX_CHARS = 200_000
"""Characters of all texts together."""


class InputTexts(Struct, frozen=True):
    texts: tuple[str, ...]
    cut: bool
    """Truncated: no match in `texts` proves nothing."""


def find_texts(given: Any) -> InputTexts:
    found: list[str] = []
    pending, room = [given], MAX_CHARS
    while pending and len(found) < MAX_TEXTS and room >= 0:
        match pending.pop():
            case str() as text:
                found.append(text[:room])
                room -= len(text)
            case Mapping() as inner:
                pending.extend(inner.values())
            case list() as items:
                pending.extend(items)
            case _:
                pass
    return InputTexts(tuple(found), bool(pending) or room < 0)
