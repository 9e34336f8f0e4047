"""`[mcp.servers.ID]` is changed as text, and nothing else in the file changes."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pilothouse.cli.mcp_file import add_server, remove_server, switch_server
from pilothouse.core.errors import ConfigError

TEXT = """\
# mine
[gateway]
busy = "queue" # kept

[mcp.servers.docs] # far
url = "https://x/" # here
[mcp.servers.docs.headers]
A = "b"

[mcp.servers.docs2]
command = "x"
# the end
"""


def test_a_server_is_added_switched_and_removed_and_comments_stay(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(TEXT)
    file.chmod(0o640)
    add_server(file, "new", {"command": "y", "args": ["a", "]"], "env": {"K": "[mcp.servers.docs]"}})
    assert switch_server(file, "docs", on=False)
    assert switch_server(file, "docs", on=False)
    found = tomllib.loads(file.read_text())["mcp"]["servers"]
    assert found["docs"] == {"url": "https://x/", "headers": {"A": "b"}, "enabled": False}
    assert found["new"]["env"] == {"K": "[mcp.servers.docs]"}
    assert file.stat().st_mode & 0o777 == 0o640
    assert remove_server(file, "new") and remove_server(file, "docs")
    text = file.read_text()
    assert tomllib.loads(text) == {
        "gateway": {"busy": "queue"},
        "mcp": {"servers": {"docs2": {"command": "x"}}},
    }
    assert "# mine" in text and "# kept" in text and "# the end" in text
    assert not remove_server(file, "docs") and not switch_server(file, "docs", on=True)
    assert os.listdir(tmp_path) == ["config.toml"]


def test_a_new_file_is_private(tmp_path: Path) -> None:
    file = tmp_path / "new" / "config.toml"
    add_server(file, "a", {"url": "https://x/"})
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "text",
    [
        'mcp = {servers = {a = {command = "x"}}}\n',
        '[mcp]\nservers.a.command = "x"\n',
        '[mcp.servers.a]\ncommand = """\n[x]\nenabled = true\n"""\nenabled = true\n',
    ],
)
def test_a_form_that_cannot_be_changed_is_left_alone(tmp_path: Path, text: str) -> None:
    file = tmp_path / "config.toml"
    file.write_text(text)
    for change in (lambda: remove_server(file, "a"), lambda: switch_server(file, "a", on=False)):
        with pytest.raises(ConfigError, match="by hand"):
            change()
        assert file.read_text() == text


def test_a_server_is_not_replaced(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(TEXT)
    with pytest.raises(ConfigError, match="already"):
        add_server(file, "docs", {"command": "x"})
    file.write_text("[")
    with pytest.raises(ConfigError, match="not valid TOML"):
        add_server(file, "docs", {"command": "x"})


plain = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=8)


@settings(max_examples=30, deadline=None)
@given(st.lists(plain, max_size=3), st.dictionaries(plain, plain, max_size=3))
def test_any_arguments_survive(
    tmp_path_factory: pytest.TempPathFactory, args: list[str], env: dict[str, str]
) -> None:
    file = tmp_path_factory.mktemp("any") / "config.toml"
    file.write_text(TEXT)
    table = {"command": "x", "args": args, "env": env}
    add_server(file, "new", table)
    expected = {name: value for name, value in table.items() if value or name == "args"}
    assert tomllib.loads(file.read_text())["mcp"]["servers"]["new"] == {**expected, "env": env}
    assert remove_server(file, "new")
    assert tomllib.loads(file.read_text()) == tomllib.loads(TEXT)
