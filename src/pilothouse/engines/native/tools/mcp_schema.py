"""Schemas of tools of MCP servers, in the form that every model's API takes. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import chain, count
from typing import Any

REFUSED = frozenset({"allOf", "anyOf", "oneOf", "not", "enum", "$ref"})
"""Keys that the APIs of Anthropic or OpenAI refuse at the top of a tool's schema, and with them the whole request."""

_KEY = re.compile(r"[A-Za-z0-9_.-]{1,64}")
"""The keys of properties that Anthropic takes at the top of a tool's schema. With any other it refuses every request."""
_OTHER = re.compile(r"[^A-Za-z0-9_.-]")


def object_schema(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema in the form that every API takes: that of an object, without alternatives at its top."""
    if given.get("type") == "object" and REFUSED.isdisjoint(given):
        return given
    return _merged({**_pointed_at(given, given), **given}, given)


def with_plain_keys(given: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, str]]:
    """Rename the properties at the top whose keys are not taken. Return the schema, and the real key of each new one."""
    properties = _dict(given.get("properties"))
    plain = {key: key for key in properties if _KEY.fullmatch(key)}
    odd = [key for key in properties if key not in plain]
    for key in odd:
        name = _OTHER.sub("_", key)[:60] or "_"
        names = chain([name], (f"{name}_{number}" for number in count(2)))
        plain[key] = next(one for one in names if one not in plain.values())
    if not odd:
        return given, {}
    renamed = {plain[key]: _named(key, value) if key in odd else value for key, value in properties.items()}
    required = [plain.get(name, name) for name in _names(_list(given.get("required")))]
    return {**given, "properties": renamed, "required": required}, {plain[key]: key for key in odd}


def _named(key: str, value: Any) -> Any:
    """Return the schema of a renamed property, whose description tells its real key."""
    schema = _dict(value)
    return {**schema, "description": f"{key}: {schema['description']}" if "description" in schema else key}


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
