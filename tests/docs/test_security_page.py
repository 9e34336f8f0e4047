"""Every promise of the security page names tests that exist, and there are few enough to read."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text("utf-8")


def test_every_test_that_a_promise_names_exists() -> None:
    promises = [
        line for line in PAGE.partition("## Who may do what")[0].splitlines() if line.startswith("| ")
    ][1:]
    assert 30 < len(promises) <= 45
    for promise in promises:
        _, tests = promise.strip("| ").rsplit(" | ", 1)
        names = re.findall(r"`([\w/]+\.py)`", tests)
        assert names and len(names) == tests.count("`") / 2, promise[:60]
        folder = ""
        for name in names:
            folder = name.rpartition("/")[0] or folder
            assert (ROOT / "tests" / folder / name.rpartition("/")[2]).exists(), (promise[:60], name)
