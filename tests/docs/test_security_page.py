"""Every promise of the security page names code and tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text("utf-8")


def test_every_file_that_a_promise_names_exists() -> None:
    promises = [
        line for line in PAGE.partition("## Who may do what")[0].splitlines() if line.startswith("| ")
    ][1:]
    assert len(promises) > 30
    for promise in promises:
        _, code, tests = promise.strip("| ").rsplit(" | ", 2)
        for name in re.findall(r"`([\w/]+\.py)`", code):
            assert list((ROOT / "src" / "pilothouse").glob(f"**/{name}")), (promise[:60], name)
        for name in re.findall(r"`([\w/]+\.py)`", tests):
            assert list((ROOT / "tests").glob(f"**/{name.removeprefix('tests/')}")), (promise[:60], name)
