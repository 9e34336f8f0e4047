"""What is wrong with the folders that a configuration names, and with the file that each may bring along."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pilothouse.config import InvalidConfig, Loaded, Problem, leaves_in


def missing_folders(loaded: Loaded) -> Iterator[Problem]:
    """A warning: a folder may be made, or its disk be there, later."""
    for key, place in _named(loaded):
        if not Path(place).is_dir():
            leaf = loaded.leaves.get(tuple(key.split(".")))
            source = leaf.source if leaf else str(loaded.paths.config_file)
            yield Problem(source, key, f"{place} is not a folder; make it: mkdir -p {place}")


def check_folders(loaded: Loaded, here: Path) -> tuple[list[Problem], list[Problem]]:
    """Problems and warnings of the files `.pilothouse.toml`: the one here, and those of the folders that are named."""
    problems: list[Problem] = []
    warnings: list[Problem] = []
    for folder in dict.fromkeys((here.resolve(), *(Path(place).resolve() for _, place in _named(loaded)))):
        try:
            warnings += leaves_in(loaded, folder)[1]
        except InvalidConfig as error:
            problems += error.problems
    return problems, warnings


def _named(loaded: Loaded) -> Iterator[tuple[str, str]]:
    if place := loaded.config.gateway.default_workspace:
        yield "gateway.default_workspace", place
    for name, section in loaded.config.workspaces.items():
        yield f"workspaces.{name}.path", section.path
