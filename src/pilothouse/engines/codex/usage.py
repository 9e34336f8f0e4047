"""The tokens of one turn, and what they would cost at the API's list prices.

Codex counts a whole thread, also across processes. The first count in a turn says how much its last request used, so the
rest was there before the turn. A subscription is billed otherwise: the price is an estimate. A model that is not listed
has none.
"""

from __future__ import annotations

from collections.abc import Mapping

from pilothouse.core.outcome import Usage
from pilothouse.engines.codex.config import Price
from pilothouse.engines.codex.wire import TokenCount, TokenUsage

MILLION = 1_000_000

PRICES: Mapping[str, Price] = {
    "gpt-6-astra": Price(10.0, 1.0, 50.0, 12.5),
    "gpt-6.1-sol": Price(2.0, 0.1, 10.0, 2.5),
    "gpt-6.1-terra": Price(1.0, 0.05, 5.0, 1.25),
    "gpt-6-sol": Price(2.0, 0.2, 10.0, 2.5),
    "gpt-6-luna": Price(0.1, 0.01, 0.5, 0.125),
    "gpt-5.6-sol": Price(4.0, 0.4, 20.0),
    "gpt-5.6-terra": Price(2.0, 0.2, 12.0),
    "gpt-5.6-luna": Price(0.2, 0.02, 1.2),
    "gpt-5.5": Price(5.0, 0.5, 30.0),
    "gpt-5.4": Price(2.5, 0.25, 15.0),
    "gpt-5.4-mini": Price(0.75, 0.075, 4.5),
    "gpt-5.3-codex": Price(1.75, 0.175, 14.0),
}
"""List prices of November 2026, for requests of up to 272,000 tokens."""


class TurnUsage:
    """Counts one turn of a model. `prices` adds to the list, or replaces what is in it."""

    def __init__(self, model: str, prices: Mapping[str, Price] = PRICES) -> None:
        self._price = prices.get(model)
        self._before: TokenCount | None = None
        self._now = TokenCount()
        self._steps = 0
        self._context: tuple[int, int] | None = None
        """Tokens of the conversation, and those that fit into the window."""

    def take(self, told: TokenUsage) -> Usage:
        if self._before is None:
            self._before = _minus(told.total, told.last)
        self._now = _minus(told.total, self._before)
        self._steps += told.last != TokenCount()
        if told.model_context_window and told.last != TokenCount():
            used = told.last.input_tokens + told.last.output_tokens
            self._context = (used, told.model_context_window)
        return self._usage()

    @property
    def total(self) -> Usage | None:
        return None if self._before is None else self._usage()

    def _usage(self) -> Usage:
        now = self._now
        used, window = self._context or (None, None)
        fresh = max(0, now.input_tokens - now.cached_input_tokens - now.cache_write_input_tokens)
        return Usage(
            cost_usd=self._cost(now, fresh),
            input_tokens=fresh,
            output_tokens=now.output_tokens,
            cache_read_tokens=now.cached_input_tokens,
            cache_write_tokens=now.cache_write_input_tokens,
            steps=self._steps,
            estimated=None if self._price is None else True,
            context_tokens=used,
            context_window=window,
        )

    def _cost(self, now: TokenCount, fresh: int) -> float | None:
        price = self._price
        if price is None:
            return None
        write = price.input if price.cache_write is None else price.cache_write
        dollars = fresh * price.input + now.cached_input_tokens * price.cached
        dollars += now.cache_write_input_tokens * write + now.output_tokens * price.output
        return round(dollars / MILLION, 9)


def _minus(one: TokenCount, other: TokenCount) -> TokenCount:
    return TokenCount(
        max(0, one.input_tokens - other.input_tokens),
        max(0, one.cached_input_tokens - other.cached_input_tokens),
        max(0, one.cache_write_input_tokens - other.cache_write_input_tokens),
        max(0, one.output_tokens - other.output_tokens),
    )
