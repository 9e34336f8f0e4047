"""The real agents are installed before the first test begins, so that no test's time pays for it."""

import pytest
from tests.engines.acp.real import PROGRAMS, SCHEMA
from tests.engines.opencode.binary import OPENCODE


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if any("acp/test_real_" in item.nodeid for item in items):
        for one in (SCHEMA, OPENCODE, *PROGRAMS.values()):
            assert one.installed
