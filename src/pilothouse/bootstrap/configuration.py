"""Loads the configuration with every section checked by its adapter, and checks the folders that it names."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from pilothouse.bootstrap.people import person_problem
from pilothouse.config import InvalidConfig, Loaded, Models, Problem, find_paths, leaves_in, load, read_toml
from pilothouse.plugins import Plugins


def missing_folders(loaded: Loaded) -> Iterator[Problem]:
    """Warns about missing folders. Not an error: a folder may be created, or its disk mounted, later."""
    for key, place in _named(loaded):
        if not Path(place).is_dir():
            leaf = loaded.leaves.get(tuple(key.split(".")))
            source = leaf.source if leaf else str(loaded.paths.config_file)
            yield Problem(source, key, f"{place} is not a folder; make it: mkdir -p {shlex.quote(place)}")


def check_folders(loaded: Loaded, here: Path) -> tuple[list[Problem], list[Problem]]:
    """Returns problems and warnings of each `.pilothouse.toml`: in this folder and in the configured ones."""
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
    paths = find_paths(os.environ)
    plugins.declare(engine_types(paths.config_file))
    return load(paths, os.environ, models_of(plugins), flags)


def engine_types(file: Path) -> dict[str, str]:
    """Returns the engines that a configuration names, each with the `type` of its section; empty for one without."""
    written = read_toml(file)
    sections, gateway, workspaces = (_table(written.get(key)) for key in ("engines", "gateway", "workspaces"))
    chosen = [gateway.get("default_engine"), *(_table(row).get("engine") for row in workspaces.values())]
    types = {name: str(_table(row).get("type") or "") for name, row in sections.items()}
    return {**{name: "" for name in chosen if isinstance(name, str)}, **types}


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def models_of(plugins: Plugins) -> Models:
    return Models(
        engines=plugins.sections("engines"),
        channels=plugins.sections("channels"),
        stores=plugins.sections("stores"),
        engine_aliases=plugins.aliases(),
        person_problem=partial(person_problem, plugins),
    )
