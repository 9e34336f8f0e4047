"""Rules that the text of the engines' files keeps."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import pilothouse.engines

ENGINES = Path(pilothouse.engines.__file__).parent
SHARED = sorted(path for path in ENGINES.glob("*.py") if path.name != "__init__.py")


@pytest.mark.parametrize("path", SHARED, ids=lambda path: path.name)
def test_a_shared_file_names_no_vendor(path: Path) -> None:
    text = re.sub(
        r"^_OBEYED = .*$", "", path.read_text(), flags=re.MULTILINE
    )  # files that any agent may obey
    assert not re.search(r"claude|anthropic|codex|openai|opencode", text, re.IGNORECASE)


STARTERS = re.compile(
    r"^(subprocess|multiprocessing|pty|(anyio|asyncio|pilothouse)\.(.*\.)?(open_process|run_process|create_subprocess\w*)"
    r"|os\.(exec|spawn|posix_spawn|fork|popen|system)\w*)"
)
PLAYED = {"faults.py": "runs inside the script player, and starts a child as a fault"}


def names_in(tree: ast.AST) -> Iterator[str]:
    """Dotted names of everything that a file imports or reads from a module."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str(module), names=names):
                yield from (f"{module}.{alias.name}" for alias in names)
            case ast.Attribute(value=ast.Name(id=module), attr=name):
                yield f"{module}.{name}"
            case _:
                pass


def starters(source: str) -> list[str]:
    return [name for name in names_in(ast.parse(source)) if STARTERS.match(name)]


def test_an_engine_starts_processes_through_the_launcher_alone() -> None:
    for path in sorted(ENGINES.rglob("*.py")):
        assert path.name in PLAYED or not starters(path.read_text()), path


@pytest.mark.parametrize(
    "source",
    [
        "from pilothouse.processes import open_process",
        "from pilothouse.processes.process import open_process",
        "import subprocess",
        "from subprocess import run",
        "import anyio\nawait anyio.open_process([])",
        "import anyio\nawait anyio.run_process([])",
        "import asyncio\nawait asyncio.create_subprocess_exec('a')",
        "import os\nos.execv('a', [])",
    ],
)
def test_other_ways_are_noticed(source: str) -> None:
    assert starters(source)
