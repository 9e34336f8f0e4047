from pathlib import Path

import pytest
from tests.policy.plan import Plan


@pytest.fixture(scope="session")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    folder: Path = tmp_path_factory.mktemp("ground").resolve()
    return Plan(folder)
