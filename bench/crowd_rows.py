"""What `bench/telegram crowd` and `bench/discord crowd` say of a crowd, and their bounds."""

from __future__ import annotations

from bench.measuring.statistics import median, quantile
from bench.measuring.table import Row
from tests.channels.crowding import Crowd

BOUND_S = 1.5


def crowd_rows(crowd: Crowd, figure: str, *, of: int) -> list[Row]:
    lags = crowd.lags or [float("inf")]
    told = f"p50 {median(lags):.2f} s, slowest {max(lags):.2f} s of {len(crowd.lags)}"
    asked = f"of {crowd.counted} requests, {crowd.edits} of them progress"
    return [
        Row(figure, quantile(lags, 0.95), BOUND_S, "s", told),
        Row("answers that never came", crowd.missing, 0, "", f"of {of}"),
        Row("refusals for haste (429)", crowd.refused, 0, "", asked),
    ]
