"""The judge of the sweeps: repeats are marked, and what was to be said twice is no repeat."""

import pytest
from bench.crashing.checking import is_doubled


@pytest.mark.parametrize(
    ("shown", "meant", "doubled"),
    [
        ("o", 1, False),
        ("o*", 1, False),
        ("*", 1, False),
        ("o**", 1, False),
        ("oo", 1, True),
        ("*o", 1, True),
        ("oo", 2, False),
        ("o*o", 2, False),
        ("*o", 2, False),
        ("*oo", 2, True),
        ("o*oo", 2, True),
    ],
)
def test_what_is_shown_again_carries_its_mark(shown: str, meant: int, doubled: bool) -> None:
    assert is_doubled([mark == "*" for mark in shown], meant) is doubled
