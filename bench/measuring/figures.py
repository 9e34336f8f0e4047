"""The list of figures. The bounds are the project's promises; each stands beside what measures it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bench.measuring import asks, crowd, discord, history, idle, policy, search, starts, telegram, tools, turn
from bench.measuring.table import Row

FIGURES: Mapping[str, Callable[[], list[Row]]] = {
    "version": starts.measure_version,
    "run": starts.measure_run,
    "imports": starts.measure_imports,
    "up": starts.measure_up,
    "turn": turn.measure,
    "policy": policy.measure,
    "crowd": crowd.measure,
    "history": history.measure,
    "search": search.measure,
    "asks": asks.measure,
    "tools": tools.measure,
    "idle": idle.measure,
    "telegram": telegram.measure,
    "discord": discord.measure,
}
