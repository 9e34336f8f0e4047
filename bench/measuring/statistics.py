"""Numbers out of samples."""

from __future__ import annotations

from collections.abc import Sequence


def quantile(samples: Sequence[float], share: float) -> float:
    """The sample below which `share` of them lie; no interpolation, so that it is one that happened."""
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def median(samples: Sequence[float]) -> float:
    return quantile(samples, 0.5)
