"""Judges a value by the types of a vendor's SDK, strictly: a key that a `TypedDict` does not have is a problem.

Pydantic would accept unknown keys of nested types, and read `Iterable` lazily.
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, NotRequired, Required, Union, get_args, get_origin

from typing_extensions import ReadOnly, get_type_hints, is_typeddict

_WRAPPERS = (Annotated, NotRequired, ReadOnly, Required)
_PLAIN = (str, int, float, bool)


def problems(value: Any, kind: Any, at: str = "request") -> list[str]:
    """Say what does not fit; empty if everything does."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in _WRAPPERS:
        return problems(value, inner[0], at)
    if origin in (Union, types.UnionType):
        return min((problems(value, one, at) for one in inner), key=_weight)
    if origin is Literal:
        return [] if value in inner else [f"{at}: {value!r} is none of {inner}"]
    if is_typeddict(kind):
        return list(_of_table(value, kind, at))
    if origin is not None and issubclass(origin, Mapping):
        return list(_of_mapping(value, inner[1], at))
    if origin is not None:
        return list(_of_list(value, inner[0], at))
    if kind in (Any, object) or (kind in (None, type(None)) and value is None):
        return []
    if kind in _PLAIN and (type(value) is kind or (kind is float and type(value) is int)):
        return []
    return [f"{at}: {value!r:.60} is no {kind}"]


def _weight(found: list[str]) -> tuple[bool, bool, int]:
    """Of the members of a union, the one that was meant has the same `type`."""
    return bool(found), any(".type: " in one for one in found), len(found)


def _of_table(value: Any, kind: Any, at: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{at}: {value!r:.60} is no {kind.__name__}"
        return
    hints = get_type_hints(kind, include_extras=True)
    more = getattr(kind, "__extra_items__", None)
    for key in kind.__required_keys__ - value.keys():
        yield f"{at}: {kind.__name__} has no {key!r}"
    for key, one in value.items():
        if key in hints:
            yield from problems(one, hints[key], f"{at}.{key}")
        elif more is not object:
            yield f"{at}: {kind.__name__} knows no {key!r}"


def _of_mapping(value: Any, kind: Any, at: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{at}: {value!r:.60} is no table"
        return
    for key, one in value.items():
        yield from problems(one, kind, f"{at}.{key}")


def _of_list(value: Any, kind: Any, at: str) -> Iterator[str]:
    if not isinstance(value, list):
        yield f"{at}: {value!r:.60} is no list"
        return
    for number, one in enumerate(value):
        yield from problems(one, kind, f"{at}[{number}]")
