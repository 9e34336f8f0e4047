"""`PERMISSIONS.json`: what a workspace leaves to an agent. Pure; the text of the file is handed in.

Rules: the file narrows what the gateway's configuration allows and never widens it. A file that cannot be read or understood
allows nothing, and says why; no file means no opinion. Tools of MCP servers do more than read: only the tier "full", or
their name in a list, leaves them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, get_args

import msgspec
from msgspec import Struct

from pilothouse.core.ask import Ask
from pilothouse.core.call import OWN_SERVER, Call, CallKind
from pilothouse.core.engine import Judge
from pilothouse.core.policy import Ruling, Site
from pilothouse.engines.tool_calls import MCP_PREFIX
from pilothouse.engines.workspace_files import PERMISSIONS, Unreadable

NOTE_CHARS = 500
NOT_READ = f"{PERMISSIONS} cannot be read, so no tool is allowed: {{why}}."
UNUSABLE = f"{PERMISSIONS} of this workspace cannot be used, so no tool is allowed."

Tier = Literal["readonly", "standard", "full", "custom"]

_KINDS: Mapping[Tier, tuple[CallKind, ...]] = {
    "readonly": ("read", "web", "notes"),
    "standard": ("read", "web", "notes", "change"),
    "custom": (),
}
_NAMES: Mapping[CallKind, tuple[str, ...]] = {
    "command": ("Bash",),
    "read": ("Read",),
    "change": ("Edit", "Write"),
    "web": ("WebFetch", "WebSearch"),
}
"""Names in a list that leave a kind of call, for every engine."""


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    tier: Tier
    tools: list[str] | None = None
    note: str = ""


class PermissionsFile(Struct, frozen=True):
    """`tools` belong to the tier "custom". `problem` tells people why no tool is allowed."""

    tier: Tier = "full"
    tools: tuple[str, ...] = ()
    note: str = ""
    problem: str = ""

    def forbids(self, call: Call | None) -> str:
        """Return why a call is denied, before any rule is asked; empty if it is not."""
        if self.problem:
            return UNUSABLE
        if call is None or self.tier == "full" or call.kind in _KINDS[self.tier] or _is_own(call):
            return ""
        if names_tool(self.tools, call.tool) or set(_NAMES.get(call.kind, ())) & set(self.tools):
            return ""
        return f"{PERMISSIONS} of this workspace does not allow {call.tool or call.kind}."


def _is_own(call: Call) -> bool:
    """True for Pilothouse's own tools, which no tier takes away."""
    return call.kind == "mcp" and call.server == OWN_SERVER


_decoder = msgspec.json.Decoder(_File)


def parse_permissions(text: str | bytes | Unreadable | None) -> PermissionsFile:
    """`text` is None if there is no file."""
    if text is None:
        return PermissionsFile()
    if isinstance(text, Unreadable):
        return PermissionsFile("custom", problem=NOT_READ.format(why=text.why))
    try:
        file = _decoder.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        return _closed(str(error))
    if (file.tier == "custom") != (file.tools is not None):
        return _closed('"tools" belongs to the tier "custom", and that tier needs it')
    return PermissionsFile(file.tier, tuple(file.tools or ()), file.note.strip()[:NOTE_CHARS])


def judge_within(allowed: PermissionsFile, judge: Judge) -> Judge:
    """Return a judge that denies what the file forbids, and asks the given one about everything else."""

    async def judge_call(ask: Ask, site: Site) -> Ruling:
        why = allowed.forbids(ask.call)
        return Ruling("deny", why) if why else await judge(ask, site)

    return judge_call


def names_tool(names: Sequence[str], tool: str) -> bool:
    """Tell whether a list names a tool; `mcp__server` names all tools of one server."""
    return any(
        tool == name or (name.startswith(MCP_PREFIX) and tool.startswith(f"{name}__")) for name in names
    )


def render_note(note: str) -> str:
    """Return the note as it is added to the prompt; empty if there is none."""
    return f"Rule of this workspace: {note}" if note else ""


def _closed(why: str) -> PermissionsFile:
    tiers = ", ".join(get_args(Tier))
    problem = f"{PERMISSIONS} cannot be understood, so no tool is allowed: {why}. The tiers are {tiers}."
    return PermissionsFile("custom", problem=problem)
