"""The configuration with every section checked by the adapter that it belongs to."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from typing import Any

from pilothouse.bootstrap.people import person_problem
from pilothouse.config import Loaded, Models, find_paths, load
from pilothouse.plugins import Plugins


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
