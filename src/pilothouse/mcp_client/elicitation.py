"""Questions that a server asks while one of its tools runs: a form with a few plain fields."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import mcp_types as types
from mcp.client.context import ClientRequestContext
from mcp.client.session import ElicitationFnT

Elicit = Callable[[str, str, Mapping[str, Any]], Awaitable[Mapping[str, Any] | None]]
"""Asks a person: the server's id, its words, and the schema of the form. None is a no. Fields left out get their defaults."""


def answer_with(server: str, elicit: Elicit) -> ElicitationFnT:
    """Return a callback for the SDK. A question that is no form, such as an address to open, is declined."""

    async def answer(context: ClientRequestContext, params: types.ElicitRequestParams) -> types.ElicitResult:
        if not isinstance(params, types.ElicitRequestFormParams):
            return types.ElicitResult(action="decline")
        given = await elicit(server, params.message, params.requested_schema)
        if given is None:
            return types.ElicitResult(action="decline")
        return types.ElicitResult(action="accept", content={**defaults_of(params.requested_schema), **given})

    return answer


def defaults_of(schema: Mapping[str, Any]) -> dict[str, Any]:
    fields = schema.get("properties")
    named = fields.items() if isinstance(fields, Mapping) else ()
    return {
        name: field["default"] for name, field in named if isinstance(field, Mapping) and "default" in field
    }
