"""Every content of the files gives a configuration or a `ConfigError`."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.config.homes import Home

from pilothouse.config import SECTIONS, in_workspace
from pilothouse.core.errors import ConfigError

KEYS = [
    "enabled",
    "kind",
    "path",
    "busy",
    "default_engine",
    "token",
    "limits",
    "model",
    "owners",
    "level",
    "rooms",
]
NAMES = st.sampled_from(
    [*SECTIONS, *KEYS, "script", "telegram", "terminal", "claude-code", "app", "odd key", "é"]
)
WORDS = st.sampled_from(["collect", "script", "sqlite", "a:1", "${A}", "${", "$${A}", "", "\0", "é"])
SCALARS = st.one_of(
    WORDS, st.integers(-3, 3), st.booleans(), st.floats(allow_nan=False, allow_infinity=False)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=6,
)
TREES = st.dictionaries(
    st.sampled_from([*SECTIONS, "odd"]), st.dictionaries(NAMES, VALUES, max_size=4) | VALUES
)


def as_toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {as_toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(as_toml, value)) + "]"
    return repr(value) if isinstance(value, float) else json.dumps(value)


@given(tree=TREES, secrets=st.sampled_from(["", "A=1", "A='x'\nTELEGRAM_TOKEN=y", "nonsense"]))
def test_any_tree_of_settings(
    tmp_path_factory: pytest.TempPathFactory, tree: dict[str, Any], secrets: str
) -> None:
    home = Home(tmp_path_factory.mktemp("home"))
    text = "".join(f"{key} = {as_toml(value)}\n" for key, value in tree.items())
    with contextlib.suppress(ConfigError):
        loaded = home.load(text, secrets=secrets)
        in_workspace(loaded, home.folder)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    names=st.lists(st.lists(NAMES, min_size=1, max_size=4), max_size=4),
    values=st.lists(st.one_of(WORDS.filter(lambda word: "\0" not in word), VALUES.map(as_toml)), min_size=4),
)
def test_any_environment(tmp_path: Path, names: list[list[str]], values: list[str]) -> None:
    environ = {
        f"PILOTHOUSE__{'__'.join(path).upper()}": value for path, value in zip(names, values, strict=False)
    }
    with contextlib.suppress(ConfigError):
        Home(tmp_path).load("[workspaces.app]\npath = '/'\n", None, "", **environ)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(max_size=60))
def test_any_text(tmp_path: Path, text: str) -> None:
    home = Home(tmp_path)
    (tmp_path / ".pilothouse.toml").write_text(text, encoding="utf-8", errors="replace")
    loaded = home.load()
    with contextlib.suppress(ConfigError):
        in_workspace(loaded, home.folder)
    home.file.write_text(text, encoding="utf-8", errors="replace")
    with contextlib.suppress(ConfigError):
        home.again()
