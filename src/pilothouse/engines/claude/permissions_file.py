"""`PERMISSIONS.json` as the tools that a workspace leaves to Claude."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from pilothouse.engines.claude.config import FILE_TOOLS, HELPER_TOOLS
from pilothouse.engines.permissions_file import UNUSABLE, Tier, names_tool, parse_permissions
from pilothouse.engines.tool_calls import MCP_PREFIX, OWN_TOOLS
from pilothouse.engines.workspace_files import PERMISSIONS, Unreadable

# A sub-agent does work of its own, and is not part of reading.
_QUIET_HELPERS = tuple(tool for tool in HELPER_TOOLS if tool != "Task")
_READING = ("Read", "Glob", "Grep", "WebSearch", "WebFetch")
TIERS: dict[Tier, tuple[str, ...]] = {
    "readonly": (*_READING, *_QUIET_HELPERS),
    "standard": ("Edit", *_READING, *HELPER_TOOLS),
    "full": (*FILE_TOOLS, *HELPER_TOOLS),
}


class Permissions(Struct, frozen=True):
    """`tools` are in the order of the configuration. `servers` are tools of MCP servers, as `mcp__server__tool`, or as
    `mcp__server` for all of one; None if the file leaves them all. `problem` tells people why no tool is allowed."""

    tools: tuple[str, ...]
    note: str = ""
    problem: str = ""
    servers: tuple[str, ...] | None = None

    @property
    def without_servers(self) -> bool:
        return self.servers is not None and not self.servers

    def forbids(self, tool: str) -> str:
        """Return why a call is denied, whatever a rule says; empty if it is not. Built-in tools are left out by `--tools`."""
        if self.problem:
            return UNUSABLE
        if self.servers is None or not tool.startswith(MCP_PREFIX) or tool.startswith(OWN_TOOLS):
            return ""
        return (
            ""
            if names_tool(self.servers, tool)
            else f"{PERMISSIONS} of this workspace does not allow {tool}."
        )


def read_permissions(text: str | bytes | Unreadable | None, configured: Sequence[str]) -> Permissions:
    """`text` is None if there is no file."""
    if text is None:
        return Permissions(tuple(configured))
    file = parse_permissions(text)
    if file.problem:
        return Permissions((), problem=file.problem, servers=())
    wanted = file.tools if file.tier == "custom" else TIERS[file.tier]
    left = tuple(tool for tool in configured if tool in set(wanted))
    servers = tuple(tool for tool in wanted if tool.startswith(MCP_PREFIX)) if file.tier != "full" else None
    return Permissions(left, file.note, servers=servers)
