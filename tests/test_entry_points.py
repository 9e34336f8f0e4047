"""Our reading of what is installed says what Python's own says, whatever lies in the folders."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import zipfile
from importlib import metadata
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from tests.dists import SRC, write_dist

from pilothouse.plugins.entry_points import Point, scan

GROUPS = ("pilothouse.engines", "pilothouse.channels", "console_scripts")
NAMES = st.sampled_from(["a", "B", "my-plugin", "my_plugin", "My.Plugin", "pilothouse"])
LINES = st.sampled_from(
    [
        "[pilothouse.engines]",
        "[pilothouse.channels]",
        "  [pilothouse.engines]  ",
        "[console_scripts]",
        "one = package.module:ENGINE",
        "two=package:OTHER",
        "  three  =  package : DEEP.ER ",
        "# four = commented:OUT",
        "",
    ]
)
INFO = st.tuples(NAMES, st.sampled_from(["dist-info", "egg-info"]), st.lists(LINES, max_size=6))
FOLDERS = st.lists(st.lists(INFO, max_size=4), min_size=1, max_size=3)


def lay_out(root: Path, folders: list[list[tuple[str, str, list[str]]]]) -> list[str]:
    paths = []
    for number, infos in enumerate(folders):
        folder = root / str(number)
        folder.mkdir()
        paths.append(str(folder))
        for name, kind, lines in infos:
            info = folder / f"{name.replace('-', '_')}-1.0.{kind}"
            info.mkdir(exist_ok=True)
            said = "METADATA" if kind == "dist-info" else "PKG-INFO"
            (info / said).write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
            # A name before the first group is an error for Python.
            (info / "entry_points.txt").write_text("\n".join(["[console_scripts]", *lines]))
    return paths


def by_python(paths: list[str]) -> list[Point]:
    """One distribution for each name, the first on the path, as `entry_points` chooses; which cannot be given a path."""
    points: list[Point] = []
    seen: set[str] = set()
    for dist in metadata.distributions(path=paths):
        name = dist.name.replace("-", "_").replace(".", "_").lower()
        if name not in seen:
            seen.add(name)
            points += [Point(one.group, one.name, one.value, dist.name) for one in dist.entry_points]
    return [point for point in points if point.group.startswith("pilothouse.")]


@given(FOLDERS)
def test_what_is_installed_is_read_as_python_reads_it(
    folders: list[list[tuple[str, str, list[str]]]],
) -> None:
    with tempfile.TemporaryDirectory() as root:
        paths = lay_out(Path(root), folders)
        assert scan((*paths, "/no/such/folder")) == by_python(paths)


def test_a_folder_without_metadata_is_named_by_itself(tmp_path: Path) -> None:
    write_dist(tmp_path, "bare", {"engines": {"x": "x:X"}})
    (tmp_path / "bare-1.0.dist-info" / "METADATA").unlink()
    assert scan((str(tmp_path),)) == [Point("pilothouse.engines", "x", "x:X", "bare")]


def ask(*path: Path) -> tuple[list[list[str]], bool]:
    """The engines that a fresh process finds on this path, and whether it had to ask Python."""
    code = (
        "import json, sys\nfrom pilothouse.plugins.entry_points import entry_points\n"
        "print(json.dumps([entry_points('pilothouse.engines'), 'importlib.metadata' in sys.modules]))"
    )
    env = {"PYTHONPATH": os.pathsep.join(map(str, (SRC, *path)))}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    points, asked = json.loads(done.stdout)
    return points, asked


def test_packages_in_folders_are_found_without_python_s_own_reader(tmp_path: Path) -> None:
    points, asked = ask(write_dist(tmp_path, "my-puppets", {"engines": {"puppet": "puppets:ENGINE"}}))
    assert ["pilothouse.engines", "puppet", "puppets:ENGINE", "my-puppets"] in points
    assert not asked


def test_packages_in_an_archive_are_found_too(tmp_path: Path) -> None:
    folder = write_dist(tmp_path / "loose", "my-puppets", {"engines": {"puppet": "puppets:ENGINE"}})
    archive = tmp_path / "all.zip"
    with zipfile.ZipFile(archive, "w") as zipped:
        for file in sorted(folder.rglob("*")):
            zipped.write(file, file.relative_to(folder))
    points, asked = ask(archive)
    assert ["pilothouse.engines", "puppet", "puppets:ENGINE", "my-puppets"] in points
    assert asked
