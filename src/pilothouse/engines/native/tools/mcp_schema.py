"""Schemas of tools of MCP servers, in the form that every model's API takes. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

REFUSED = frozenset({"allOf", "anyOf", "oneOf", "not", "enum", "$ref"})
"""Keys that the APIs of Anthropic or OpenAI refuse at the top of a tool's schema, and with them the whole request."""


def object_schema(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema in the form that every API takes: that of an object, without alternatives at its top."""
    if given.get("type") == "object" and REFUSED.isdisjoint(given):
        return given
    return _merged({**_pointed_at(given, given), **given}, given)


def _merged(given: Mapping[str, Any], root: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the alternatives: the result takes the properties of all of them, and wants those that are always wanted."""
    kept = {key: value for key, value in given.items() if key not in REFUSED}
    properties, required = dict(_dict(given.get("properties"))), list(_list(given.get("required")))
    for key in ("allOf", "anyOf", "oneOf"):
        parts = [
            _merged({**_pointed_at(part, root), **part}, {}) for part in _list(given.get(key)) if _dict(part)
        ]
        for part in parts:
            properties = {**part["properties"], **properties}
            required += part["required"] if key == "allOf" else ()
    return {**kept, "type": "object", "properties": properties, "required": _names(required)}


def _pointed_at(given: Mapping[str, Any], root: Mapping[str, Any]) -> dict[str, Any]:
    """Return the definition that a schema refers to; empty if it does not."""
    section, _, name = str(given.get("$ref", "")).removeprefix("#/").partition("/")
    return _dict(_dict(root.get(section)).get(name)) if section in ("$defs", "definitions") else {}


def _names(values: list[Any]) -> list[str]:
    return list(dict.fromkeys(name for name in values if isinstance(name, str)))


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
