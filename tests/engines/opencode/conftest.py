"""The real binary is installed before the first test begins, so that no test's time pays for it."""

import pytest
from tests.engines.opencode.binary import OPENCODE


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if any("opencode/test_real_" in item.nodeid for item in items):
        _ = OPENCODE.installed
