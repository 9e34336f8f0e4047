"""The locks pin all that pyproject.toml asks for, and serve whichever package index a machine uses."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
ASKED = {
    "run": PYPROJECT["project"]["dependencies"],
    "dev": PYPROJECT["project"]["dependencies"] + PYPROJECT["dependency-groups"]["dev"],
    "build": PYPROJECT["build-system"]["requires"],
}


def read_lock(kind: str) -> str:
    return (ROOT / f"requirements/{kind}.txt").read_text()


def parse_pins(lock: str) -> set[str]:
    return set(re.findall(r"^(\S+==\S+)", lock, re.MULTILINE))


def parse_name(requirement: str) -> str:
    return re.sub(r"[_.]", "-", re.split(r"[^\w.-]", requirement)[0])


@pytest.mark.parametrize("kind", ASKED)
def test_a_lock_pins_what_the_project_asks_for(kind: str) -> None:
    pinned = {pin.partition("==")[0] for pin in parse_pins(read_lock(kind))}
    assert {parse_name(requirement) for requirement in ASKED[kind]} <= pinned


@pytest.mark.parametrize("kind", ASKED)
def test_a_lock_names_no_address(kind: str) -> None:
    assert not re.search(r"://|^-", read_lock(kind), re.MULTILINE)


def test_people_run_the_versions_that_are_tested() -> None:
    assert parse_pins(read_lock("run")) <= parse_pins(read_lock("dev"))


@pytest.mark.parametrize(
    "lock", sorted(ROOT.glob("tests/**/package-lock.json")), ids=lambda path: "-".join(path.parts[-3:-1])
)
def test_an_npm_lock_names_no_registry(lock: Path) -> None:
    assert "://" not in lock.read_text()
    assert "omit-lockfile-registry-resolved=true" in (lock.parent / ".npmrc").read_text()
