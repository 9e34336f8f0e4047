"""`PERMISSIONS.json`: which tools a workspace leaves to Claude. Pure; whoever reads the file hands its text in.

Rules: it narrows what the gateway's configuration allows and never widens it; a file that cannot be understood allows
nothing, and says why; no file at all means no opinion. What a server of MCP brings is no tool that only reads: it is
left by the tier "full", and by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import msgspec
from msgspec import Struct

from pilothouse.core.call import MCP_PREFIX
from pilothouse.engines.claude.config import FILE_TOOLS, HELPER_TOOLS
from pilothouse.engines.workspace_files import PERMISSIONS

NOTE_CHARS = 500

Tier = Literal["readonly", "standard", "full", "custom"]

# A sub-agent is work of its own, and no part of reading.
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
    """`tools` in the order of the configuration. `servers` are the tools of MCP, `mcp__server__tool` or all of one with
    `mcp__server`; None where the file leaves them all. `problem` is for the chat: it says why there are none."""

    tools: tuple[str, ...]
    note: str = ""
    problem: str = ""
    servers: tuple[str, ...] | None = None

    @property
    def without_servers(self) -> bool:
        return self.servers is not None and not self.servers

    def forbids(self, tool: str) -> str:
        """Why a call may not be made, whatever a rule says; empty if it may. Our own tools are not there to be called."""
        if self.problem:
            return f"{PERMISSIONS} of this workspace cannot be understood, so no tool is allowed."
        if self.servers is None or not tool.startswith(MCP_PREFIX):
            return ""
        named = any(tool == name or tool.startswith(f"{name}__") for name in self.servers)
        return "" if named else f"{PERMISSIONS} of this workspace does not leave {tool}."


_decoder = msgspec.json.Decoder(_File)


def read_permissions(text: str | bytes | None, configured: Sequence[str]) -> Permissions:
    """`text` is None where there is no file."""
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
    """How the note stands in the prompt; empty if there is none."""
    return f"Rule of this workspace: {note}" if note else ""


def _closed(why: str) -> Permissions:
    tiers = ", ".join(get_args(Tier))
    problem = f"{PERMISSIONS} cannot be understood, so no tool is allowed: {why}. The tiers are {tiers}."
    return Permissions((), problem=problem, servers=())
