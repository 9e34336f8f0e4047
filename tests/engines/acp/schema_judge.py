"""A judge of messages by the JSON schema that the protocol's own SDK ships."""

from __future__ import annotations

import json
from typing import Any

from tests.engines.acp.real import SCHEMA

Schema = dict[str, Any]
TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "null": (type(None),),
}


def load_schema() -> Schema:
    folder = SCHEMA.path() / "@agentclientprotocol" / "sdk" / "schema" / "v1"
    return json.loads((folder / "schema.json").read_text())


def is_valid(root: Schema, schema: Schema, value: Any) -> bool:
    """A small judge of JSON Schema: the words that this schema uses."""
    if "$ref" in schema and not is_valid(root, root["$defs"][schema["$ref"].rpartition("/")[2]], value):
        return False
    kinds = schema.get("type", [])
    wanted = [one for kind in ([kinds] if isinstance(kinds, str) else kinds) for one in TYPES[kind]]
    if wanted and not isinstance(value, tuple(wanted)):
        return False
    if "const" in schema and value != schema["const"]:
        return False
    for word, test in (("allOf", all), ("anyOf", any), ("oneOf", any)):
        if word in schema and not test(is_valid(root, one, value) for one in schema[word]):
            return False
    if "not" in schema and is_valid(root, schema["not"], value):
        return False
    if isinstance(value, list) and "items" in schema:
        return all(is_valid(root, schema["items"], one) for one in value)
    if not isinstance(value, dict):
        return True
    named = schema.get("properties", {})
    present = all(key in value for key in schema.get("required", []))
    return present and all(is_valid(root, named[key], one) for key, one in value.items() if key in named)


def definition(root: Schema, method: str, *, reply: bool) -> Schema:
    ends = ("Response",) if reply else ("Request", "Notification")
    return next(
        one for name, one in root["$defs"].items() if one.get("x-method") == method and name.endswith(ends)
    )


def unknown_keys(root: Schema, method: str, params: dict[str, Any]) -> set[str]:
    found = definition(root, method, reply=False)
    kinds = [*found.get("anyOf", []), found]
    return set(params) - {key for kind in kinds for key in kind.get("properties", {})}
