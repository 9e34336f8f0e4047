"""An engine driven by a small script file: the demo, the tests' engine, and the model for an engine of your own.

`ENGINE` is made on first access: the player, a program of its own, lives in this package too and must start without
loading Pilothouse.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pilothouse.core.engine import EngineSpec
    from pilothouse.engines.script.spec import ENGINE

__all__ = ["ENGINE"]


def __getattr__(name: str) -> EngineSpec:
    if name != "ENGINE":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from pilothouse.engines.script.spec import ENGINE

    return ENGINE
