"""`PERMISSIONS.json`: the tools that a workspace leaves to Claude. Pure; the text of the file is handed in.

Rules: the file narrows what the gateway's configuration allows and never widens it. A file that cannot be understood
allows nothing, and says why; no file means no opinion. Tools of MCP servers do more than read: only the tier "full", or
their name in a list, leaves them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import msgspec
from msgspec import Struct

from pilothouse.engines.claude.config import FILE_TOOLS, HELPER_TOOLS
from pilothouse.engines.tool_calls import MCP_PREFIX
from pilothouse.engines.workspace_files import PERMISSIONS

NOTE_CHARS = 500

Tier = Literal["readonly", "standard", "full", "custom"]

# A sub-agent does work of its own, and is not part of reading.
_QUIET_HELPERS = tuple(tool for tool in HELPER_TOOLS if tool != "Task")
_READING = ("Read", "Glob", "Grep", "WebSearch", "WebFetch")
TIERS: dict[Tier, tuple[str, ...]] = {
    "readonly": (*_READING, *_QUIET_HELPERS),
    "standard": ("Edit", *_READING, *HELPER_TOOLS),
    "full": (*FILE_TOOLS, *HELPER_TOOLS),
}


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    tier: Tier
    tools: list[str] | None = None
    note: str = ""


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
            return f"{PERMISSIONS} of this workspace cannot be understood, so no tool is allowed."
        if self.servers is None or not tool.startswith(MCP_PREFIX):
            return ""
        named = any(tool == name or tool.startswith(f"{name}__") for name in self.servers)
        return "" if named else f"{PERMISSIONS} of this workspace does not leave {tool}."


_decoder = msgspec.json.Decoder(_File)


def read_permissions(text: str | bytes | None, configured: Sequence[str]) -> Permissions:
    """`text` is None if there is no file."""
    if text is None:
        return Permissions(tuple(configured))
    try:
        file = _decoder.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        return _closed(str(error))
    if (file.tier == "custom") != (file.tools is not None):
        return _closed('"tools" belongs to the tier "custom", and that tier needs it')
    wanted = TIERS[file.tier] if file.tools is None else file.tools
    left = tuple(tool for tool in configured if tool in set(wanted))
    servers = tuple(tool for tool in wanted if tool.startswith(MCP_PREFIX)) if file.tier != "full" else None
    return Permissions(left, file.note.strip()[:NOTE_CHARS], servers=servers)


def render_note(note: str) -> str:
    """Return the note as it is added to the prompt; empty if there is none."""
    return f"Rule of this workspace: {note}" if note else ""


def _closed(why: str) -> Permissions:
    tiers = ", ".join(get_args(Tier))
    problem = f"{PERMISSIONS} cannot be understood, so no tool is allowed: {why}. The tiers are {tiers}."
    return Permissions((), problem=problem, servers=())
