"""The real agents are installed before the first test begins, so that no test's time pays for it."""

import pytest
from tests.engines.acp.real import BRIDGES, PROGRAMS, SCHEMA
from tests.engines.claude.binary import CLAUDE
from tests.engines.codex.binary import CODEX
from tests.engines.opencode.binary import OPENCODE


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if any("acp/test_real_" in item.nodeid for item in items):
        for one in (SCHEMA, BRIDGES, CLAUDE, CODEX, OPENCODE, *PROGRAMS.values()):
            assert one.installed
