"""The protocol as JSON schemas and as tables, both generated from its types."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, get_args

import msgspec
from msgspec import NODEFAULT, Struct
from msgspec import inspect as types

from pilothouse.channels.rpc.events import AgentEvent
from pilothouse.channels.rpc.protocol import (
    CLIENT_NOTIFICATIONS,
    ERRORS,
    NOTIFICATIONS,
    PROTOCOL_VERSION,
    REQUESTS,
    UI_REQUESTS,
    Method,
)

SECTIONS: tuple[tuple[str, Sequence[Method]], ...] = (
    ("requests", REQUESTS),
    ("client_notifications", CLIENT_NOTIFICATIONS),
    ("notifications", NOTIFICATIONS),
    ("ui_requests", UI_REQUESTS),
)
REF = "#/$defs/{name}"
AGENT_EVENTS = frozenset(get_args(AgentEvent))
"""Events have a table of their own."""


def make_schema() -> dict[str, Any]:
    """Return one JSON document: for each method the schemas of its params and result."""
    methods = [method for _, rows in SECTIONS for method in rows]
    structs = dict.fromkeys(kind for one in methods for kind in (one.params, one.result) if kind is not None)
    refs, defs = msgspec.json.schema_components(tuple(structs), ref_template=REF)
    by_type = dict(zip(structs, refs, strict=True))

    def row(method: Method) -> dict[str, Any]:
        told: dict[str, Any] = {"description": method.text, "params": by_type[method.params]}
        return told if method.result is None else told | {"result": by_type[method.result]}

    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Pilothouse RPC",
        "protocol_version": PROTOCOL_VERSION,
        **{section: {one.name: row(one) for one in rows} for section, rows in SECTIONS},
        "errors": {str(code): text for code, text in ERRORS.items()},
        "$defs": dict(sorted(defs.items())),
    }


def schema_text() -> str:
    return msgspec.json.format(msgspec.json.encode(make_schema()), indent=2).decode()


def render_tables() -> str:
    """Return the Markdown tables of docs/rpc.md."""
    titles = {
        "requests": "Requests of the client",
        "client_notifications": "Notifications of the client",
        "notifications": "Notifications of the server",
        "ui_requests": "Requests of the server",
    }
    parts = [_methods(titles[section], rows) for section, rows in SECTIONS]
    return "\n\n".join([*parts, _values(), _events(), _errors()]) + "\n"


def _values() -> str:
    """List the objects inside of parameters and results, each where it is first used."""
    found: dict[type[Struct], str] = {}
    for _, rows in SECTIONS:
        for one in rows:
            for kind in (one.params, one.result):
                _find_values(kind, one.name, found)
    head = "### Objects in them\n\n| object | fields |\n|---|---|"
    lines = [f"| {_place(kind, place)} | {_fields(kind)} |" for kind, place in found.items()]
    return "\n".join([head, *lines])


def _place(kind: type[Struct], place: str) -> str:
    info = types.type_info(kind)
    tag = getattr(info, "tag", None)
    return f"`{place}` with `{info.tag_field}` `{tag}`" if tag else f"`{place}`"  # pyrefly: ignore


def _find_values(kind: type[Struct] | None, place: str, found: dict[type[Struct], str]) -> None:
    for one in msgspec.structs.fields(kind) if kind is not None else ():
        for inner in _structs(types.type_info(one.type)):
            if inner not in found and inner not in AGENT_EVENTS:
                found[inner] = f"{place} {one.name}"
                _find_values(inner, found[inner], found)


def _structs(info: Any) -> Iterator[type[Struct]]:
    """Find the structs in a type: in a union, a list or the values of a table too."""
    if isinstance(info, types.StructType):
        yield info.cls
    for name in ("types", "item_type", "value_type"):
        inner = getattr(info, name, None)
        for one in inner if isinstance(inner, tuple) else (inner,):
            if one is not None:
                yield from _structs(one)


def _methods(title: str, rows: Sequence[Method]) -> str:
    head = f"### {title}\n\n| method | params | result | |\n|---|---|---|---|"
    lines = [
        f"| `{one.name}` | {_fields(one.params)} | {_fields(one.result) if one.result else '–'} | {one.text} |"
        for one in rows
    ]
    return "\n".join([head, *lines])


def _events() -> str:
    lines = ["### Events\n", "| `event.type` | fields |", "|---|---|"]
    kinds = types.multi_type_info([AgentEvent])[0].types  # pyrefly: ignore
    return "\n".join([*lines, *(f"| `{kind.tag}` | {_fields(kind.cls)} |" for kind in kinds)])


def _errors() -> str:
    lines = ["### Errors\n", "| code | meaning |", "|---|---|"]
    return "\n".join([*lines, *(f"| {code} | {text} |" for code, text in ERRORS.items())])


def _fields(kind: type[Struct]) -> str:
    return ", ".join(_words(kind)) or "–"


def _words(kind: type[Struct]) -> Iterator[str]:
    for one in msgspec.structs.fields(kind):
        needed = one.default is NODEFAULT and one.default_factory is NODEFAULT
        yield f"`{one.name}`" if needed else f"`{one.name}?`"
