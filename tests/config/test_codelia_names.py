"""Variables of Codelia stand in for settings."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.config.homes import Home

from pilothouse.config import InvalidConfig, Models, find_paths, load
from pilothouse.config.layers import SHORT
from pilothouse.engines.native.config import NativeConfig

DOCS = (Path(__file__).parents[2] / "docs" / "environment.md").read_text()


def models() -> Models:
    return Models(engines={"native": NativeConfig})


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("CODELIA_SYSTEM_PROMPT_PATH", "/srv/prompt.md", "/srv/prompt.md"),
        ("CODELIA_TOOL_OUTPUT_TOTAL_TRIM", "1", True),
        ("CODELIA_PROVIDER_LOG", "0", False),
        ("CODELIA_PROVIDER_LOG_DIR", "~/tmp", "~/tmp"),
    ],
)
def test_a_variable_sets_a_key_of_the_native_engine(home: Home, name: str, text: str, value: object) -> None:
    found = (
        load(find_paths({"PILOTHOUSE_HOME": str(home.folder)}), {name: text}, models())
        .config.engines["native"]
        .settings
    )
    assert getattr(found, SHORT[name][0][-1]) == value


def test_variables_of_the_gateway(home: Home) -> None:
    config = load(
        find_paths({"PILOTHOUSE_HOME": str(home.folder)}),
        {"CODELIA_DEBUG": "1", "CODELIA_SANDBOX_ROOT": "/srv", "CODELIA_APPROVAL_MODE": "trusted"},
    ).config
    assert (config.log.level, config.gateway.default_workspace) == ("debug", "/srv")
    assert config.policy.approval_mode == "trusted"
    both = {"CODELIA_APPROVAL_MODE": "trusted", "PILOTHOUSE_APPROVAL_MODE": "minimal"}
    assert (
        load(find_paths({"PILOTHOUSE_HOME": str(home.folder)}), both).config.policy.approval_mode == "minimal"
    )
    assert find_paths({"PILOTHOUSE_HOME": "/x", "CODELIA_CONFIG_PATH": "/y/c.toml"}).config_file == Path(
        "/y/c.toml"
    )


def test_milliseconds_become_seconds(home: Home) -> None:
    paths = find_paths({"PILOTHOUSE_HOME": str(home.folder)})
    assert load(paths, {}).config.gateway.mcp_login_s == 180
    assert load(paths, {"CODELIA_MCP_OAUTH_TIMEOUT_MS": "90500"}).config.gateway.mcp_login_s == 90.5


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("CODELIA_MCP_OAUTH_TIMEOUT_MS", "soon"),
        ("CODELIA_MCP_OAUTH_TIMEOUT_MS", "0"),
        ("CODELIA_APPROVAL_MODE", "yolo"),
        ("CODELIA_PROVIDER_LOG", "maybe"),
        ("CODELIA_PROVIDER_LOG_DIR", "tmp"),
    ],
)
def test_an_invalid_value_is_an_error_that_names_the_variable(home: Home, name: str, text: str) -> None:
    with pytest.raises(InvalidConfig, match=name):
        load(find_paths({"PILOTHOUSE_HOME": str(home.folder)}), {name: text}, models())


def test_the_page_lists_every_name() -> None:
    for name in SHORT:
        assert f"`{name}`" in DOCS
