from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.engines.script.rig import Rig


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    """Nothing that a test started is alive after it."""
    rig = Rig(tmp_path)
    yield rig
    assert rig.pids() == []
