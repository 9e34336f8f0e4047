"""Reads JSON that does not quite have the expected shape, so that a vendor's change costs one field and not the line."""

from __future__ import annotations

import re
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct

S = TypeVar("S", bound=Struct)

_ESCAPE: re.Pattern[bytes] = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<half>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)


def read_fields(value: dict[str, Any], kind: type[S]) -> tuple[S | None, tuple[str, ...]]:
    """Return the struct, or None where a required field is missing, and the names of the fields that were dropped."""
    kept: dict[str, Any] = {}
    dropped: list[str] = []
    for info in msgspec.structs.fields(kind):
        if info.encode_name not in value or info.type is Raw:
            continue
        try:
            kept[info.name] = msgspec.convert(value[info.encode_name], info.type)
        except msgspec.ValidationError:
            dropped.append(f"field {info.encode_name}")
    try:
        return kind(**kept), tuple(dropped)
    except TypeError:
        return None, tuple(dropped)


def repair_surrogates(line: bytes) -> bytes:
    """Replace lone surrogate escapes and bytes that are not UTF-8 by the replacement character.

    JavaScript writes a text that was cut inside an emoji with half of a surrogate pair, which JSON decoders refuse.
    """
    return _ESCAPE.sub(_replacement, line.decode("utf-8", "replace").encode())


def _replacement(found: re.Match[bytes]) -> bytes:
    return rb"\ufffd" if found["half"] else found[0]
