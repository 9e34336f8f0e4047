"""ACP: any agent that speaks the Agent Client Protocol on stdin and stdout, as an engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pilothouse.core.engine import EngineSpec
    from pilothouse.engines.acp.spec import ENGINE

__all__ = ["ENGINE"]


def __getattr__(name: str) -> EngineSpec:
    """Make `ENGINE` on first access, so that a part of this package can be imported without the rest."""
    if name != "ENGINE":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from pilothouse.engines.acp.spec import ENGINE

    return ENGINE
