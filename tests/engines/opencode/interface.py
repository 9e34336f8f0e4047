"""What the engine uses of OpenCode's interface, and a look into the server's own description (`GET /doc`) for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

SESSION = "/session/{sessionID}"
READ = (
    *("/global/health", "/global/event", "/config", "/config/providers", "/experimental/tool/ids", "/agent"),
    *("/mcp", "/command", "/session/status", "/experimental/session", "/permission", "/question"),
    *(SESSION, f"{SESSION}/message"),
)
SENT: Mapping[tuple[str, str], frozenset[str]] = {
    ("post", "/session"): frozenset({"title", "permission"}),
    ("patch", SESSION): frozenset({"title", "permission"}),
    ("post", f"{SESSION}/prompt_async"): frozenset(
        {"messageID", "parts", "model", "system", "agent", "variant"}
    ),
    ("post", f"{SESSION}/command"): frozenset(
        {"messageID", "parts", "model", "agent", "variant", "command", "arguments"}
    ),
    ("post", f"{SESSION}/fork"): frozenset({"messageID"}),
    ("post", f"{SESSION}/abort"): frozenset(),
    ("post", "/permission/{requestID}/reply"): frozenset({"reply", "message"}),
    ("post", "/question/{requestID}/reply"): frozenset({"answers"}),
    ("post", "/question/{requestID}/reject"): frozenset(),
    ("post", "/mcp"): frozenset({"name", "config"}),
    ("post", "/mcp/{name}/disconnect"): frozenset(),
    ("post", "/global/dispose"): frozenset(),
}
"""The fields of each request's body."""


def missing(document: Mapping[str, Any]) -> list[str]:
    """Return the routes and fields that the server does not describe."""
    paths = document["paths"]
    routes = [("get", path) for path in READ] + list(SENT)
    lost = [f"{method} {path}" for method, path in routes if method not in paths.get(path, {})]
    fields = [
        f"{method} {path}: {name}"
        for (method, path), names in SENT.items()
        for name in sorted(names - set(_body_fields(document, paths.get(path, {}).get(method, {}))))
    ]
    return lost + fields


def _body_fields(document: Mapping[str, Any], route: Mapping[str, Any]) -> Iterator[str]:
    body = route.get("requestBody", {}).get("content", {}).get("application/json", {})
    yield from _properties(document, body.get("schema", {}))


def _properties(document: Mapping[str, Any], schema: Mapping[str, Any]) -> Iterator[str]:
    if named := schema.get("$ref"):
        schema = document["components"]["schemas"][str(named).rpartition("/")[2]]
    yield from schema.get("properties", {})
    for key in ("anyOf", "oneOf", "allOf"):
        for part in schema.get(key, ()):
            yield from _properties(document, part)
