"""A stage for each test of a jail."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.isolation.canary import Stage


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = Stage(tmp_path)
    try:
        yield made
    finally:
        made.close()
