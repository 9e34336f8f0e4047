"""The figures' table: what was missed shows, and a run of nothing but promises kept ends well."""

from __future__ import annotations

import pytest
from bench.measuring.statistics import median, quantile
from bench.measuring.table import Row, render


def test_a_row_beyond_its_bound_is_marked_and_does_not_hold() -> None:
    kept, missed, told = Row("a", 1.0, 2, "×"), Row("b", 3.0, 2, "×"), Row("c", 9.0, None, "s")
    assert [row.holds for row in (kept, missed, told)] == [True, False, True]
    lines = render([kept, missed, told], "this machine", "bench/figures").splitlines()
    assert lines[0] == "`bench/figures` on this machine"
    assert [line[2] for line in lines[4:]] == ["✓", "✗", "·"]


def test_a_bound_may_be_the_least() -> None:
    kept, missed = Row("a", 12.0, 10, "×", least=True), Row("b", 9.0, 10, "×", least=True)
    assert [row.holds for row in (kept, missed)] == [True, False]
    assert "at least 10×" in render([kept], "here", "bench/claude")


def test_a_row_that_lost_something_never_holds() -> None:
    row = Row("a", 1.0, 2, "s", lost="3 deltas lost")
    assert not row.holds
    assert "3 deltas lost" in render([row], "here", "bench/figures")


@pytest.mark.parametrize(("share", "wanted"), [(0.0, 1), (0.5, 51), (0.99, 100), (1.0, 100)])
def test_a_quantile_is_a_sample_that_happened(share: float, wanted: float) -> None:
    assert quantile(range(1, 101), share) == wanted
    assert median([3.0, 1.0, 2.0]) == 2.0
