"""What one turn cost. The CLI's totals are the session's, carried on even across a resume."""

from __future__ import annotations

from pilothouse.core.outcome import Usage
from pilothouse.engines.claude.wire import ModelUsage, Result, Tokens


class Spending:
    """`resumed`: the session had cost something before this process, and nobody told us how much."""

    def __init__(self, *, resumed: bool = False) -> None:
        self._total: float | None = None if resumed else 0.0
        self.spent_usd = 0.0

    def settle(self, result: Result) -> Usage:
        usage = self._usage(result)
        self.spent_usd += usage.cost_usd or 0.0
        return usage

    def _usage(self, result: Result) -> Usage:
        before, self._total = self._total, result.total_cost_usd
        since = result.model_usage_since_last_result
        if since is not None:
            return _of_models(list(since.values()), result.num_turns)
        return _of_turn(result.usage or Tokens(), _difference(before, self._total), result.num_turns)


def _of_models(models: list[ModelUsage], steps: int | None) -> Usage:
    return Usage(
        cost_usd=round(sum((model.cost_usd for model in models), 0.0), 9),
        input_tokens=sum(model.input_tokens for model in models),
        output_tokens=sum(model.output_tokens for model in models),
        cache_read_tokens=sum(model.cache_read_input_tokens for model in models),
        cache_write_tokens=sum(model.cache_creation_input_tokens for model in models),
        steps=steps,
    )


def _of_turn(told: Tokens, cost: float | None, steps: int | None) -> Usage:
    return Usage(
        cost_usd=cost,
        input_tokens=told.input_tokens,
        output_tokens=told.output_tokens,
        cache_read_tokens=told.cache_read_input_tokens,
        cache_write_tokens=told.cache_creation_input_tokens,
        steps=steps,
    )


def _difference(before: float | None, now: float | None) -> float | None:
    """After a `/clear` the total begins anew, and so falls."""
    if before is None or now is None:
        return None
    return round(now - before if now >= before else now, 9)
