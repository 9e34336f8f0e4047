"""Schemas of tools of MCP servers as they go to a model: always of an object, with no alternatives at the top."""

from __future__ import annotations

from typing import Any

import mcp_types as types
import pytest

from pilothouse.engines.native.tools.mcp_schema import object_schema, with_plain_keys
from pilothouse.mcp_client.result import OPEN_SCHEMA, read_tools

A = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
B = {
    "type": "object",
    "properties": {"b": {"anyOf": [{"type": "integer"}, {"type": "null"}]}},
    "required": ["b"],
}
BOTH = {**A["properties"], **B["properties"]}


def schema_of(given: dict[str, Any]) -> dict[str, Any]:
    (tool,) = read_tools("shop", [types.Tool(name="look", input_schema=given)])
    return dict(object_schema(tool.schema))


@pytest.mark.parametrize("given", [A, B, {**A, "$defs": {"x": B}, "additionalProperties": False}])
def test_a_schema_of_an_object_is_kept_as_it_is(given: dict[str, Any]) -> None:
    assert schema_of(given) == given


@pytest.mark.parametrize(
    ("given", "properties", "required"),
    [
        ({"properties": A["properties"], "required": ["a"]}, A["properties"], ["a"]),
        ({"type": "object", "oneOf": [A, B]}, BOTH, []),
        ({"anyOf": [A, B]}, BOTH, []),
        ({"type": "object", "allOf": [A, B]}, BOTH, ["a", "b"]),
        ({**A, "oneOf": [{"required": ["a"]}, B, True]}, BOTH, ["a"]),
        ({"anyOf": [{"allOf": [A]}, {"oneOf": [B]}]}, BOTH, []),
        ({"$ref": "#/$defs/A", "$defs": {"A": A}}, A["properties"], ["a"]),
        ({"oneOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}], "$defs": {"A": A, "B": B}}, BOTH, []),
        ({"anyOf": [{"$ref": "#/$defs/A"}], "$defs": {"A": {"anyOf": [{"$ref": "#/$defs/A"}]}}}, {}, []),
        ({**A, "required": ["a", {}, "a"], "anyOf": []}, A["properties"], ["a"]),
        ({"type": "object", "not": {"required": ["a"]}, "enum": [{}], "oneOf": "x"}, {}, []),
        ({}, {}, []),
    ],
)
def test_alternatives_at_the_top_are_merged(
    given: dict[str, Any], properties: dict[str, Any], required: list[str]
) -> None:
    schema = schema_of(given)
    assert schema["type"] == "object" and {"oneOf", "anyOf", "allOf", "not", "enum", "$ref"}.isdisjoint(
        schema
    )
    assert (schema["properties"], schema["required"]) == (properties, required)
    assert schema.get("$defs") == given.get("$defs")


@pytest.mark.parametrize("given", [{"type": "string"}, {**A, "description": "x" * 64_000}])
def test_what_is_no_object_or_too_large_becomes_an_open_schema(given: dict[str, Any]) -> None:
    assert schema_of(given) == OPEN_SCHEMA


def test_keys_of_properties_are_renamed_to_what_every_api_takes() -> None:
    long = "x" * 65
    keys = ["plain.key-1", "$top", "_top", "@top", "日本", "", long]
    given = {
        "type": "object",
        "properties": {key: {"description": "Rows."} for key in keys},
        "required": ["$top", "_top"],
    }
    schema, real = with_plain_keys(given)
    names = list(schema["properties"])
    assert names == ["plain.key-1", "_top_2", "_top", "_top_3", "__", "_", "x" * 60]
    assert [real.get(name, name) for name in names] == keys
    assert schema["required"] == ["_top_2", "_top"]
    assert schema["properties"]["_top_2"] == {"description": "$top: Rows."}
    assert schema["properties"]["_top"] == {"description": "Rows."}


@pytest.mark.parametrize("given", [A, {"type": "object"}, {"type": "object", "properties": []}])
def test_a_schema_with_plain_keys_is_kept(given: dict[str, Any]) -> None:
    assert with_plain_keys(given) == (given, {})
