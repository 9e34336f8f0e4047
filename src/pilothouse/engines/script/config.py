"""The section `[engines.script]`."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field


class ScriptConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """`command` is a program that speaks the protocol of docs/engines/script.md; without one, our player plays
    `script`, and without a script, the demo."""

    command: list[str] | None = None
    script: str | None = None
    process: Literal["shared", "per-session"] = "shared"
    stop_grace_s: float = 5.0
    """How long a turn may take to obey a stop before its process is ended."""
    open_s: float = 15.0
    """How long the process may take to start, and to open a session."""
    stall_s: float = 30.0
    """How long a turn that nobody reads may hold up the others of its process."""
    environment: list[str] = field(default_factory=list)
    """Names of variables that the process may see, besides the harmless ones that every child gets."""
