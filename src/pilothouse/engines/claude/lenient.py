"""A struct out of plain values, field by field: one that has another shape than we know costs only itself."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct

S = TypeVar("S", bound=Struct)


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
