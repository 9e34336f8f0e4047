"""`[mcp.servers.ID]`, in the configuration and in a workspace's own file."""

from __future__ import annotations

from pilothouse.config.decode import Reader
from pilothouse.config.problems import Problem
from pilothouse.config.sources import below, dotted
from pilothouse.core.mcp import McpServer, id_problem

AT = ("mcp", "servers")
MOST = 50
"""Servers in one file."""


def read_servers(reader: Reader) -> dict[str, McpServer]:
    """Read every server; problems are collected in the reader, and secrets are noted there."""
    reader.warn_unknown(("mcp",), ("servers",))
    if not reader.expect_table(("mcp",)) or not reader.expect_table(AT):
        return {}
    found: dict[str, McpServer] = {}
    leaves = below(reader.leaves, AT)
    for id in dict.fromkeys(key[0] for key in leaves if key):
        source = next(leaf.source for key, leaf in leaves.items() if key[:1] == (id,))
        if why := id_problem(id):
            reader.problems.append(Problem(source, dotted((*AT, id)), why))
        elif (server := reader.read(McpServer, (*AT, id))) is not None:
            reader.secrets.update(server.secrets)
            found[id] = server
    if len(found) > MOST:
        reader.problems.append(Problem(reader.default_source, dotted(AT), f"has more than {MOST} servers"))
    return found
