"""Rules for the files that all engines share."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import pilothouse.engines

ENGINES = Path(pilothouse.engines.__file__).parent
SHARED = sorted(path for path in ENGINES.glob("*.py") if path.name != "__init__.py")


@pytest.mark.parametrize("path", SHARED, ids=lambda path: path.name)
def test_a_shared_file_names_no_vendor(path: Path) -> None:
    assert not re.search(r"claude|anthropic|codex|openai|opencode", path.read_text(), re.IGNORECASE)
