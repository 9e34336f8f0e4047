"""The real programs are installed at once, before the first test begins: npm mostly waits for the network."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.agent_tools.conformance import SUITE
from tests.engines.acp.real import BRIDGES, PROGRAMS, SCHEMA
from tests.engines.claude.binary import CLAUDE
from tests.engines.codex.binary import CODEX
from tests.engines.npm_program import NpmPackages
from tests.engines.opencode.binary import OPENCODE


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if len({item.path.parent for item in items if "test_real_" in item.nodeid}) > 1:
        programs = [CLAUDE, CODEX, OPENCODE, SCHEMA, BRIDGES, SUITE, *PROGRAMS.values()]
        with ThreadPoolExecutor(len(programs)) as threads:
            list(threads.map(NpmPackages.prepare, programs))
