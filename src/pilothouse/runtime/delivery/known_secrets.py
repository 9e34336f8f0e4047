"""Removes secrets that Pilothouse knows (tokens of bots, keys of engines) from everything that is about to be shown in a chat.

A model may print its environment, or read a file with a key in it. The whole text is searched each time that it is shown, so
it does not matter in how many pieces a secret arrived. What was asked keeps its hash: only what people see of it changes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

T = TypeVar("T", bound=Struct)
Redact = Callable[[str], str]
_RUN = frozenset(["line"])
"""The command behind a button: it is run, not shown."""


def without_secrets(value: T, redact: Redact) -> T:
    """Redact every text of a content or a view. Returns the value itself if nothing changes."""
    plain = msgspec.to_builtins(value)
    cleaned = _clean(plain, redact)
    return value if cleaned == plain else msgspec.convert(cleaned, type(value))


def _clean(value: Any, redact: Redact) -> Any:
    match value:
        case str():
            return redact(value)
        case dict():
            return {key: item if key in _RUN else _clean(item, redact) for key, item in value.items()}
        case list() | tuple():  # of the same type, or nothing would be equal to what it was
            return type(value)(_clean(item, redact) for item in value)
        case _:
            return value
