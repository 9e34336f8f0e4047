"""The user's manual stays apart from the notes for maintainers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.dists import ROOT

DOCS = ROOT / "docs"
NAMES = ("commands", "configuration", "environment", "glossary", "images", "operations", "rules", "schedules")
PAGES = [
    ROOT / "README.md",
    *(DOCS / f"{name}.md" for name in NAMES),
    *sorted((DOCS / "channels").glob("*.md")),
    DOCS / "engines" / "claude.md",
]
MODULES = {file.name for file in (ROOT / "src" / "pilothouse").rglob("*.py")}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_for_users_names_no_module(page: Path) -> None:
    named = set(re.findall(r"`(?:\w+/)*(\w+\.py)`", page.read_text()))
    assert named & MODULES == set()


def test_a_user_needs_at_most_ten_words() -> None:
    words = (DOCS / "glossary.md").read_text().split("\n## Words of the code\n")[0]
    assert 0 < len(re.findall(r"^\| \*\*", words, flags=re.MULTILINE)) <= 10
