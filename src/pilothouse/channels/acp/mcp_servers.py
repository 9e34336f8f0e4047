"""MCP servers that an editor sends with a session: read, checked, and named as rules know them.

One bad entry refuses the request, because a session that lacks tools without a word would be worse. Other characters than those of
a name are replaced by `-`; an engine and the rules know the server by that name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import ValidationError, convert

from pilothouse.channels.acp.wire import McpEntry
from pilothouse.channels.request_errors import INVALID_PARAMS, RequestError
from pilothouse.core.mcp import ID_CHARS, McpServer, id_problem

MOST_SERVERS = 50
BAD = "The MCP server {name!r} cannot be used: {why}."
_OTHER = re.compile(r"[^A-Za-z0-9]+")


def read_servers(entries: Sequence[McpEntry]) -> dict[str, McpServer]:
    """Return the servers by their names. Raises `RequestError` with the first entry that is wrong."""
    if len(entries) > MOST_SERVERS:
        text = f"There are {len(entries)} MCP servers; at most {MOST_SERVERS} can be used in a session."
        raise RequestError(INVALID_PARAMS, text)
    found: dict[str, McpServer] = {}
    for entry in entries:
        id = server_id(entry.name)
        if problem := id_problem(id):
            raise _bad(entry, f"its name {problem}")
        if id in found:
            raise _bad(entry, "another one has the same name")
        found[id] = _read(entry)
    return found


def server_id(name: str) -> str:
    """Return the name by which engines and rules know a server. A name that can stay stays."""
    return name if not id_problem(name) else _OTHER.sub("-", name).strip("-")[:ID_CHARS]


def _read(entry: McpEntry) -> McpServer:
    if entry.type == "stdio":
        env = {one.name: one.value for one in entry.env}
        given = {"command": entry.command, "args": entry.args, "env": env}
    elif entry.type == "http":
        if not entry.url.startswith(("http://", "https://")):
            raise _bad(entry, f"{entry.url[:100]!r} is not an address with http:// or https://")
        given = {"url": entry.url, "headers": {one.name: one.value for one in entry.headers}}
    else:
        raise _bad(entry, f"its type {entry.type[:50]!r} is not supported; use a program (stdio) or http")
    try:
        return convert(given, McpServer)
    except ValidationError as error:
        raise _bad(entry, str(error)) from error


def _bad(entry: McpEntry, why: str) -> RequestError:
    return RequestError(INVALID_PARAMS, BAD.format(name=entry.name[:100], why=why))
