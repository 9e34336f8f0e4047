"""A struct out of plain values, field by field: one that has another shape than we know costs only itself.

Half a character in a line: a text that the CLI cut between the two halves of an emoji, or bytes that are no UTF-8.

JavaScript writes such a half as an escape that is no JSON to us, and the whole line would be lost for it.
"""

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
    """The struct, None where something that it needs is missing; and the fields that were left out."""
    kept: dict[str, Any] = {}
    strange: list[str] = []
    for info in msgspec.structs.fields(kind):
        if info.encode_name not in value or info.type is Raw:
            continue
        try:
            kept[info.name] = msgspec.convert(value[info.encode_name], info.type)
        except msgspec.ValidationError:
            strange.append(f"field {info.encode_name}")
    try:
        return kind(**kept), tuple(strange)
    except TypeError:
        return None, tuple(strange)


def mend(line: bytes) -> bytes:
    """The line with a replacement character for each half. One that has none comes back as it is."""
    whole = line.decode("utf-8", "replace").encode()
    return _ESCAPE.sub(_whole, whole)


def _whole(found: re.Match[bytes]) -> bytes:
    return rb"\ufffd" if found["half"] else found[0]
