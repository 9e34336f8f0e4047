"""Pilothouse's own agent: with an API key and nothing else it answers, reads, edits, runs and plans.

`ENGINE` is made on first access, so that naming the package loads nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pilothouse.core.engine import EngineSpec
    from pilothouse.engines.native.spec import ENGINE

__all__ = ["ENGINE"]


def __getattr__(name: str) -> EngineSpec:
    if name != "ENGINE":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from pilothouse.engines.native.spec import ENGINE

    return ENGINE
