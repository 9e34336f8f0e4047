"""docs/environment.md names every variable that the code reads, and the settings that they stand for."""

from __future__ import annotations

import re

import pytest
from tests.dists import ROOT

from pilothouse.engines.claude.config import FALLBACKS, Fallback

PAGE = (ROOT / "docs" / "environment.md").read_text()
ROWS = re.findall(r"^\| `(\w+)` \| `(\w+)` \| (.+?) \| (.+) \|$", PAGE, flags=re.MULTILINE)


def written(text: str, fallback: Fallback) -> object:
    """The default as its row has it, read as the variable would be read."""
    if fallback.variable == "RUNTIME_TOOLS":
        assert text == "fourteen tools"
        return fallback.default
    return None if text == "–" else fallback.read(text.strip("`"))


def test_the_page_lists_every_variable_with_its_key() -> None:
    assert [(name, key) for name, key, _, _ in ROWS] == [(one.variable, one.key) for one in FALLBACKS]


@pytest.mark.parametrize("fallback", FALLBACKS, ids=lambda fallback: fallback.variable)
def test_a_row_has_the_default_and_the_unit(fallback: Fallback) -> None:
    [(default, meaning)] = [row[2:] for row in ROWS if row[0] == fallback.variable]
    assert written(default, fallback) == fallback.default
    assert ("milliseconds" in meaning) == fallback.variable.endswith("_MS")


def test_the_page_names_every_variable_of_our_own() -> None:
    files = [*(ROOT / "src").rglob("*.py"), ROOT / "tools" / "env.sh"]
    used = {
        name for file in files for name in re.findall(r"\bPILOTHOUSE_[A-Z]+(?:_[A-Z]+)*\b", file.read_text())
    }
    named = set(re.findall(r"\bPILOTHOUSE_[A-Z]+(?:_[A-Z]+)*\b", PAGE))
    assert used == named
