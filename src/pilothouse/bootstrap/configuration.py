"""What is wrong with the folders that a configuration names, and with the file that each may bring along.

The configuration with every section checked by the adapter that it belongs to.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from pilothouse.bootstrap.people import person_problem
from pilothouse.config import InvalidConfig, Loaded, Models, Problem, find_paths, leaves_in, load
from pilothouse.plugins import Plugins


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


def load_checked(plugins: Plugins, flags: Mapping[str, Any] | None = None) -> Loaded:
    return load(find_paths(os.environ), os.environ, models_of(plugins), flags)


def models_of(plugins: Plugins) -> Models:
    return Models(
        engines=plugins.sections("engines"),
        channels=plugins.sections("channels"),
        stores=plugins.sections("stores"),
        engine_aliases=plugins.aliases(),
        person_problem=partial(person_problem, plugins),
    )
