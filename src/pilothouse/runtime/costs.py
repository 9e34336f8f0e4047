"""Pure: where money went, in words and sums. What an engine did not tell is counted, never guessed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Literal

from msgspec import Struct

from pilothouse.core.budget import Spent, Standing
from pilothouse.core.text import dollars

By = Literal["cause", "conversation", "workspace", "engine", "day"]

_KEYS: Mapping[By, Callable[[Spent], str]] = {
    "cause": lambda spent: spent.cause,
    "conversation": lambda spent: spent.conversation_id,
    "workspace": lambda spent: spent.workspace,
    "engine": lambda spent: spent.engine,
    "day": lambda spent: spent.day,
}


class CostLine(Struct, frozen=True):
    name: str
    turns: int
    cost_usd: float
    untold: int
    """Turns whose engine did not say what they cost: they are not in `cost_usd`."""
    assumed_usd: float
    """What was held against the budget for those."""


def sum_up(rows: Iterable[Spent], by: By) -> list[CostLine]:
    """The dearest first; days in their order."""
    sums: dict[str, CostLine] = {}
    for row in rows:
        name = _KEYS[by](row)
        sums[name] = _plus(sums.get(name, CostLine(name, 0, 0.0, 0, 0.0)), row)
    if by == "day":
        return sorted(sums.values(), key=lambda line: line.name)
    return sorted(sums.values(), key=lambda line: (-line.cost_usd, line.name))


def total(rows: Iterable[Spent]) -> CostLine:
    line = CostLine("total", 0, 0.0, 0, 0.0)
    for row in rows:
        line = _plus(line, row)
    return line


def _plus(line: CostLine, row: Spent) -> CostLine:
    return CostLine(
        line.name,
        line.turns + row.turns,
        line.cost_usd + row.cost_usd,
        line.untold + row.untold,
        line.assumed_usd + row.assumed_usd,
    )


def line_words(line: CostLine) -> str:
    told = f"{dollars(line.cost_usd)} in {line.turns} turn{'' if line.turns == 1 else 's'}"
    return f"{told}, {line.untold} not told" if line.untold else told


def standing_words(standing: Standing) -> str:
    told = f"{dollars(standing.used_usd)} of {dollars(standing.limit_usd)}"
    notes = [
        f"{dollars(standing.reserved_usd)} reserved" if standing.reserved_usd else "",
        f"{dollars(standing.assumed_usd)} assumed" if standing.assumed_usd else "",
        f"{dollars(standing.raised_usd)} of it allowed today" if standing.raised_usd else "",
    ]
    said = ", ".join(filter(None, notes))
    return f"{told} ({said})" if said else told
