"""The section `[engines.script]`."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field


class ScriptConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """`command` is a program that speaks the protocol of docs/engines/script.md. Without one, the player plays `script`,
    or the demo."""

    command: list[str] | None = None
    script: str | None = None
    process: Literal["shared", "per-session"] = "shared"
    stop_grace_s: float = 5.0
    """Time for a turn to obey a stop before its process is ended."""
    open_s: float = 15.0
    """Time for the process to start, and to open a session."""
    stall_s: float = 30.0
    """Time that an unread turn may hold up the other turns of its process."""
    environment: list[str] = field(default_factory=list)
    """Names of further variables that the process may see."""
