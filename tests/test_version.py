"""The version stands in two places, so that reading it imports nothing."""

import tomllib
from pathlib import Path

import pilothouse

PYPROJECT = Path(__file__).parent.parent / "pyproject.toml"


def test_the_package_and_its_metadata_name_the_same_version() -> None:
    project = tomllib.loads(PYPROJECT.read_text())["project"]
    assert pilothouse.__version__ == project["version"]
