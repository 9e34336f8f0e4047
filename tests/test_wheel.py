"""The wheel that `uv tool install` and `pipx install` build: whole, and able to run without the checkout.

Built offline by the locked build backend; the dependencies are those of this environment.
"""

from __future__ import annotations

import configparser
import json
import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    build = f"import uv_build; print(uv_build.build_wheel({str(folder)!r}))"
    subprocess.run(
        [sys.executable, "-c", build], cwd=ROOT, env=env, check=True, capture_output=True, timeout=100
    )
    (file,) = folder.glob("*.whl")
    return file


def test_it_holds_every_file_of_the_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        packed = {
            name
            for name in archive.namelist()
            if not name.startswith("pilothouse-") and not name.endswith("/")
        }
    source = ROOT / "src"
    files = {file for file in (source / "pilothouse").rglob("*") if file.is_file() and file.suffix != ".pyc"}
    assert packed == {file.relative_to(source).as_posix() for file in files}


def test_its_command_and_its_plugins_are_those_of_the_project(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("entry_points.txt"))
        points = configparser.ConfigParser()
        points.read_string(archive.read(name).decode())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert dict(points["console_scripts"]) == project["scripts"]
    for group, named in project["entry-points"].items():
        assert dict(points[group]) == named


def test_it_runs_without_the_checkout(wheel: Path, tmp_path: Path) -> None:
    """Unpacked beside its dependencies: it makes a store, so its SQL files are there, and finds its own plugins."""
    packages = tmp_path / "packages"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(packages), "PILOTHOUSE_HOME": str(tmp_path / "home")}

    def run(*words: str) -> str:
        command = [sys.executable, "-m", "pilothouse", *words]
        done = subprocess.run(
            command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=100, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    where = [sys.executable, "-c", "import pilothouse; print(pilothouse.__file__)"]
    found = subprocess.run(where, cwd=tmp_path, env=env, capture_output=True, text=True, check=True).stdout
    assert Path(found.strip()).is_relative_to(packages)
    assert {row["id"] for row in json.loads(run("engines", "--json"))} >= {"claude", "script"}
    assert json.loads(run("pair", "--json"))["role"] == "owner"
    assert (tmp_path / "home" / "pilothouse.db").exists()
