"""`[mcp.servers.ID]`: one section for every engine, and a project's own servers in a trusted folder only."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.config.homes import Home

from pilothouse.bootstrap.mcp_servers import servers_for_engines
from pilothouse.config import WORKSPACE_FILE_NAME, servers_in
from pilothouse.core.errors import ConfigError
from pilothouse.core.mcp import McpServer, for_engines, id_problem
from pilothouse.plugins.registry import OWN_FILE

GLOBAL = """
[mcp.servers.docs]
url = "https://mcp.example.com/v1"
headers = {Authorization = "Bearer ${DOCS_TOKEN}"}

[mcp.servers.files]
command = "files"
args = ["--root", "/srv"]
env = {API_KEY = "${DOCS_TOKEN}", COLOUR = "red"}
enabled = false
"""
OWN = '[mcp.servers.shop]\ncommand = "./shop"\nargs = ["${HOME}"]\n[mcp.servers.docs]\nurl = "http://other.example/"\n'


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    folder.mkdir()
    (folder / WORKSPACE_FILE_NAME).write_text(OWN)
    return folder


def test_values_come_from_variables_and_secrets_are_known_as_such(home: Home) -> None:
    loaded = home.load(GLOBAL, DOCS_TOKEN="hunter2hunter2")
    docs, files = loaded.config.mcp.servers["docs"], loaded.config.mcp.servers["files"]
    assert docs.headers == {"Authorization": "Bearer hunter2hunter2"}
    assert (docs.transport, docs.enabled) == ("http", True)
    assert (files.transport, files.args, files.enabled) == ("stdio", ("--root", "/srv"), False)
    assert {"Bearer hunter2hunter2", "hunter2hunter2"} <= set(loaded.secrets)
    assert "red" not in loaded.secrets


def test_a_projects_servers_count_in_a_trusted_folder_only_and_win_there(home: Home, repo: Path) -> None:
    loaded = home.load(GLOBAL, DOCS_TOKEN="hunter2hunter2")
    assert set(servers_in(loaded, repo, trusted=False)) == {"docs", "files"}
    found = servers_in(loaded, repo, trusted=True)
    assert found["docs"] == (McpServer(url="http://other.example/"), WORKSPACE_FILE_NAME)
    shop, source = found["shop"]
    assert (shop.cwd, shop.args, source) == (str(repo), ("${HOME}",), WORKSPACE_FILE_NAME)
    assert OWN_FILE.path == WORKSPACE_FILE_NAME


WRONG = {
    "[mcp.servers.a]": "it must have either `command` (a program) or `url` (an address)",
    "[mcp.servers.a]\ncommand = 'x'\nurl = 'http://x'": "it must have either `command`",
    "[mcp.servers.a]\nurl = 'ftp://x'": "an address with http:// or https://",
    "[mcp.servers.a]\nurl = 'http://x'\nargs = ['y']": "belong to a `command`",
    "[mcp.servers.a]\ncommand = 'x'\nheaders = {A = 'b'}": "belong to a `url`",
    "[mcp.servers.a]\ncommand = 'x'\ntimeout_s = 0": "a number of seconds above 0",
    "[mcp.servers.a__b]\ncommand = 'x'": "single _",
    "[mcp.servers.pilothouse_2]\ncommand = 'x'": "names that begin with pilothouse",
    "[mcp]\nservers = 3": "it must be a table",
    "mcp = 3": "it must be a table",
}


@pytest.mark.parametrize("text", WRONG)
def test_a_wrong_server_is_an_error_that_says_what_is_allowed(home: Home, text: str) -> None:
    with pytest.raises(ConfigError) as raised:
        home.load(text + "\n")
    assert WRONG[text] in str(raised.value)


def test_an_engine_gets_a_program_in_its_folder_or_an_address() -> None:
    program = for_engines(McpServer(command="shop", args=("a b",), env={"A": "1"}, cwd="/srv", timeout_s=2))
    assert program["command"] == "/bin/sh"
    assert program["args"][-3:] == ["/srv", "shop", "a b"]
    assert (program["env"], program["timeout"]) == ({"A": "1"}, 2000)
    far = for_engines(McpServer(url="http://x/", headers={"X": "y"}))
    assert (far["url"], far["headers"], far["timeout"]) == ("http://x/", {"X": "y"}, 60_000)


def test_what_people_see_of_an_address_has_no_login() -> None:
    assert McpServer(url="https://me:secret@x.example/mcp?key=1").target == "https://x.example/mcp"


@pytest.mark.parametrize("id", ["a", "A-1", "a_b", "x" * 64])
def test_plain_names_are_allowed(id: str) -> None:
    assert id_problem(id) == ""


async def test_engines_get_the_servers_that_are_on_and_a_broken_project_file_costs_no_turn(
    home: Home, repo: Path
) -> None:
    loaded, noted = home.load(GLOBAL, DOCS_TOKEN="hunter2hunter2"), list[str]()

    def note(event: str, **fields: object) -> None:
        noted.append(event)

    found = await servers_for_engines(lambda: loaded, note, str(repo), True)
    assert set(found) == {"docs", "shop"} and found["docs"]["url"] == "http://other.example/"
    assert set(await servers_for_engines(lambda: loaded, note, str(repo), False)) == {"docs"}
    (repo / WORKSPACE_FILE_NAME).write_text("[mcp.servers.x]\n")
    assert set(await servers_for_engines(lambda: loaded, note, str(repo), True)) == {"docs"}
    assert noted == ["mcp.project_ignored"]
