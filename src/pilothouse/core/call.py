"""The call that an ask is about, in words that belong to no vendor. Each engine fills it in for its own tools.

Policy, previews and tool classes read a `Call` and never an engine's payload. `tool` is the engine's own name for the
tool: rules of the kind `tool` match it, and words in it such as `delete` make a call destructive. A call that its engine
cannot read is `unreadable`: no rule and no mode allows it, and it counts as destructive.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal
from urllib.parse import urlsplit

from msgspec import Struct, field

CallKind = Literal["command", "read", "change", "web", "mcp", "skill", "notes", "tool", "unreadable"]
"""`notes` only uses the engine's own notes, or commands that were allowed before; `tool` is any other tool."""

OWN_SERVER = "pilothouse"
"""The MCP server with Pilothouse's own tools, which decide themselves what they may do: no person is asked about a call."""
ASKED_TOOLS = frozenset({"schedule_task", "update_task", "resume_task", "watch_pull_request"})
"""Own tools that people are asked about, unless a rule allows them: they start turns later."""

CellMode = Literal["replace", "insert", "delete"]


class Replacement(Struct, frozen=True, omit_defaults=True):
    old: str
    new: str
    everywhere: bool = False


class Cell(Struct, frozen=True, omit_defaults=True):
    """A change to one cell of a notebook, which is found by its id or as `cell-N`; without an id, the first."""

    id: str = ""
    source: str = ""
    mode: CellMode = "replace"


class Change(Struct, frozen=True, omit_defaults=True):
    """The change to the file at `path`: replacements, a whole new content, a notebook's cell, or a finished diff."""

    path: str = ""
    replacements: tuple[Replacement, ...] = ()
    content: str | None = None
    cell: Cell | None = None
    diff: str | None = None
    shown: tuple[str, ...] = ()
    """Keys of the payload's `input` whose values a preview of this change shows completely."""


class Call(Struct, frozen=True, omit_defaults=True):
    kind: CallKind
    tool: str = ""
    cwd: str = ""
    """The folder of relative paths; empty if unknown."""
    command: str = ""
    paths: tuple[str, ...] = ()
    """The files and folders that are read or changed."""
    deep: bool = False
    """Everything below the paths may be read, too."""
    host: str = ""
    url: str = ""
    server: str = ""
    """The MCP server, and `server_tool` its tool."""
    server_tool: str = ""
    skill: str = ""
    change: Change | None = None
    """For the preview. A call of another kind may have one, if it looks like a change."""
    input: dict[str, Any] = field(default_factory=dict)
    """The input of a tool of an MCP server, or of any other tool."""
    shown: tuple[str, ...] = ()
    """Keys of the payload's `input` that this call names in full, or that change nothing about what runs."""


ReadCall = Callable[[Mapping[str, Any]], Call | None]
"""Reads the call that an ask's payload describes; None if it describes none, as for a question."""


def host_of(url: Any) -> str:
    """Return the host of a URL; empty if it is not one."""
    if not isinstance(url, str):
        return ""
    try:
        return (urlsplit(url if "://" in url else f"https://{url}").hostname or "").rstrip(".").lower()
    except ValueError:
        return ""
