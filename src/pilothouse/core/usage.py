"""What a turn cost."""

from __future__ import annotations

from msgspec import Struct


class Usage(Struct, frozen=True):
    """What a turn cost, as far as the engine tells. `None` is "not told", never zero."""

    cost_usd: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    steps: int | None = None
