"""When stars and underscores are no emphasis: in globs, names and sums, which CommonMark would take them out of."""

from __future__ import annotations

import re

_WORD = re.compile(rb"[A-Za-z0-9_]")
_NAME = re.compile(rb"\w+")


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
