"""Forms of MCP servers (elicitation) as questions: one for each property of the schema. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pilothouse.core.ask import Decision, Option
from pilothouse.engines.requests import numbered_options

DONE = "Done"
YES_NO = ("Yes", "No")

Schema = dict[str, Any]
Question = tuple[str, dict[str, Any], tuple[Option, ...]]
"""A title, a payload, and options."""


def ask_form(params: dict[str, Any]) -> list[Question]:
    """Return the questions of a form, or the one of a page to visit; empty for a mode that is not understood."""
    message, mode = str(params.get("message") or ""), params.get("mode")
    if mode == "url":
        url = str(params.get("url") or "")
        return [(f"{message}\n{url}", {"message": message, "url": url}, (Option("1", DONE),))]
    if mode != "form":
        return []
    properties = _properties(params)
    if not properties:
        return [(message, {"message": message}, (Option("1", DONE),))]
    return [
        (
            _title(message, name, schema, alone=len(properties) == 1),
            {"message": message, name: schema},
            _options(schema),
        )
        for name, schema in properties.items()
    ]


def answer_form(params: dict[str, Any], decisions: Sequence[Decision]) -> dict[str, Any] | None:
    """Return the content of an accepted form, from the decisions in the order of its questions."""
    if params.get("mode") == "url":
        return None
    properties = _properties(params)
    pairs = zip(properties.items(), decisions, strict=False)
    return {name: _value(schema, decision) for (name, schema), decision in pairs}


def _properties(params: dict[str, Any]) -> dict[str, Schema]:
    schema = params.get("requestedSchema")
    properties = schema.get("properties") if isinstance(schema, dict) else None
    found = properties.items() if isinstance(properties, dict) else ()
    return {str(name): one for name, one in found if isinstance(one, dict)}


def _title(message: str, name: str, schema: Schema, *, alone: bool) -> str:
    words = str(schema.get("title") or schema.get("description") or name)
    return message if alone and message else f"{message}\n{words}".strip()


def _options(schema: Schema) -> tuple[Option, ...]:
    labels = YES_NO if schema.get("type") == "boolean" else [label for label, _ in _choices(schema)]
    return numbered_options(labels)


def _choices(schema: Schema) -> list[tuple[str, Any]]:
    """Return labels and values of an enumeration, in any of the three ways in which MCP writes one."""
    titled = schema.get("oneOf") or schema.get("anyOf")
    if isinstance(titled, list):
        consts = [one for one in titled if isinstance(one, dict) and "const" in one]
        return [(str(one.get("title") or one["const"]), one["const"]) for one in consts]
    values = schema.get("enum")
    if isinstance(values, list):
        names = schema.get("enumNames")
        labels = names if isinstance(names, list) and len(names) == len(values) else values
        return [(str(label), value) for label, value in zip(labels, values, strict=True)]
    items = schema.get("items")
    return _choices(items) if isinstance(items, dict) else []


def _value(schema: Schema, decision: Decision) -> Any:
    chosen = [int(key) - 1 for key in decision.options if key.isdecimal()]
    if schema.get("type") == "boolean":
        return chosen == [0] if chosen else decision.text.strip().lower() in ("yes", "true", "1")
    choices = _choices(schema)
    picked = [choices[n][1] for n in chosen if 0 <= n < len(choices)]
    if schema.get("type") == "array":
        return [*picked, *([decision.text] if decision.text else [])]
    if picked:
        return picked[0]
    return _number(decision.text) if schema.get("type") in ("number", "integer") else decision.text


def _number(text: str) -> Any:
    try:
        number = float(text)
    except ValueError:
        return text
    return int(number) if number.is_integer() else number
