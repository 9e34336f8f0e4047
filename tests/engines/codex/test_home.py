"""Our own home for Codex: what it takes over, what it leaves, and that it can be made again and again."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.core.errors import EngineError
from pilothouse.engines.codex.home import compose_settings, key_names, make_home, render_toml, user_home

USER = """
model = "mine"
approval_policy = "never"
sandbox_mode = "danger-full-access"
notify = ["touch", "/tmp/x"]
approvals_reviewer = "auto_review"
[projects."/work"]
trust_level = "trusted"
[model_providers.own]
base_url = "http://127.0.0.1/v1"
env_key = "OWN_KEY"
[mcp_servers.shop]
command = "shop"
default_tools_approval_mode = "approve"
[mcp_servers.shop.tools.buy]
approval_mode = "approve"
[features]
hooks = true
goals = true
"""


def test_only_listed_settings_count_and_servers_ask() -> None:
    settings = compose_settings(tomllib.loads(USER))
    assert settings["model"] == "mine"
    assert settings["mcp_servers"] == {"shop": {"command": "shop", "default_tools_approval_mode": "prompt"}}
    assert not {"approval_policy", "sandbox_mode", "notify", "approvals_reviewer", "projects"} & set(settings)
    assert (settings["features"]["hooks"], settings["features"]["goals"]) == (False, False)
    assert key_names(settings) == ["OWN_KEY"]


def test_a_home_is_made_again_and_again_and_forgets_what_codex_wrote(tmp_path: Path) -> None:
    user, own = tmp_path / "user", tmp_path / "own"
    user.mkdir()
    (user / "config.toml").write_text(USER)
    make_home(user, own)
    with (own / "config.toml").open("a") as file:
        file.write('[projects."/evil"]\ntrust_level = "trusted"\n')
    (own / "sessions").unlink()
    (own / "sessions").mkdir()
    make_home(user, own)
    assert "/evil" not in (own / "config.toml").read_text()
    assert (own / "config.toml").stat().st_mode & 0o777 == 0o600
    assert (own / "sessions").resolve() == (user / "sessions").resolve()
    assert (own / "auth.json").is_symlink()
    assert (user / "config.toml").read_text() == USER


def test_a_home_without_settings_is_made_from_nothing(tmp_path: Path) -> None:
    make_home(tmp_path / "user", tmp_path / "own")
    assert not (tmp_path / "user" / "config.toml").exists()
    assert tomllib.loads((tmp_path / "own" / "config.toml").read_text())["features"]["goals"] is False


def test_settings_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("model = ")
    with pytest.raises(EngineError, match=r"config\.toml cannot be read"):
        make_home(tmp_path, tmp_path / "own")


@pytest.mark.parametrize(
    ("configured", "environment", "found"),
    [
        (None, {"HOME": "/home/me"}, "/home/me/.codex"),
        (None, {"HOME": "/home/me", "CODEX_HOME": "/srv/codex"}, "/srv/codex"),
        ("~/other", {"HOME": "/home/me", "CODEX_HOME": "/srv/codex"}, "/home/me/other"),
    ],
)
def test_the_users_home_is_found(configured: str | None, environment: dict[str, str], found: str) -> None:
    assert user_home(configured, environment) == Path(found)


VALUES = st.recursive(
    st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), VALUES, max_size=4))
def test_what_is_written_is_read_back(settings: dict[str, object]) -> None:
    assert tomllib.loads(render_toml(settings)) == settings
