"""The tokens and the price of one turn: the sum of its requests to the model, those of sub-agents too.

OpenCode computes the price by list prices, so it is an estimate. A model without a price costs 0 there, which says nothing.
"""

from __future__ import annotations

from pilothouse.core.outcome import Usage
from pilothouse.engines.opencode.wire_parts import StepFinish


class TurnUsage:
    def __init__(self) -> None:
        self._steps: dict[str, StepFinish] = {}
        """By the part's id: one that is read again counts once."""

    def take(self, step: StepFinish) -> Usage:
        self._steps[step.id] = step
        return self._sum()

    @property
    def total(self) -> Usage | None:
        return self._sum() if self._steps else None

    def _sum(self) -> Usage:
        steps = self._steps.values()
        cost = sum(step.cost for step in steps)
        return Usage(
            cost_usd=round(cost, 9) if cost else None,
            input_tokens=sum(step.tokens.input for step in steps),
            output_tokens=sum(step.tokens.output + step.tokens.reasoning for step in steps),
            cache_read_tokens=sum(step.tokens.cache.read for step in steps),
            cache_write_tokens=sum(step.tokens.cache.write for step in steps),
            steps=len(steps),
            estimated=True if cost else None,
        )
