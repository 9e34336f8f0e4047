"""The list of figures. The bounds are the project's promises; each stands beside what measures it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bench.measuring import crowd, turn
from bench.measuring.table import Row

FIGURES: Mapping[str, Callable[[], list[Row]]] = {
    "turn": turn.measure,
    "crowd": crowd.measure,
}
