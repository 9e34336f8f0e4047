"""`.pilothouse.toml`: a repository's wishes, and what it may never do."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.config.homes import Home

from pilothouse.config import WORKSPACE_FILE_NAME, in_workspace
from pilothouse.core.errors import ConfigError


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    folder.mkdir()
    return folder


def wish(repo: Path, text: str) -> Path:
    file = repo / WORKSPACE_FILE_NAME
    file.write_text(text)
    return file


def test_it_may_choose_engine_model_busy_and_whether_costs_are_shown(home: Home, repo: Path) -> None:
    wish(repo, "engine = 'cc'\nmodel = 'opus'\nbusy = 'steer'\nshow_cost = false\n")
    found = in_workspace(home.load(), repo)
    assert (found.engine, found.model, found.busy, found.show_cost) == ("claude-code", "opus", "steer", False)
    assert found.warnings == ()


FORBIDDEN = {
    "approval_mode = 'full-access'": "may not loosen a permission",
    "rules = ['allow command rm']": "may not loosen a permission",
    "permissions = {allow = ['*']}": "may not loosen a permission",
    "engine_commands = true": "may not loosen a permission",
    "command = '/tmp/evil'": "may not name an executable",
    "[engines.script]\ncommand = '/tmp/evil'": "may not name an executable",
    "[mcp_servers.x]\ncommand = 'evil'": "may not name an executable",
    "[env]\nPATH = '/tmp'": "may not set an environment variable",
    "environment = {LD_PRELOAD = 'x'}": "may not set an environment variable",
    "trusted = true": "may not grant trust",
    "[people]\nowners = ['telegram:666']": "may not grant trust",
    "[gateway]\nbusy = 'queue'": "may not change how the gateway runs",
    "[store]\npath = '/tmp/x'": "may not change how the gateway runs",
    "busyy = 'queue'": "may set only engine, model, busy, show_cost, search, rules, approval_mode, isolation, network, limits, mcp; did you mean busy?",
    "anything = 1": "may set only engine, model, busy, show_cost, search, rules, approval_mode, isolation, network, limits, mcp",
}


@pytest.mark.parametrize("text", FORBIDDEN)
def test_what_it_may_not_set_is_ignored_and_says_why(home: Home, repo: Path, text: str) -> None:
    loaded = home.load()
    plain = in_workspace(loaded, repo)
    file = wish(repo, text + "\n")
    found = in_workspace(loaded, repo)
    (warning,) = found.warnings
    assert warning.source == str(file)
    assert FORBIDDEN[text] in warning.text
    assert (found.engine, found.model, found.busy, found.show_cost) == (
        plain.engine,
        plain.model,
        plain.busy,
        plain.show_cost,
    )


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("engine = 3", "engine: 3 "),
        ("busy = 3", "busy: 3 is not allowed; allowed: collect, queue, steer, interrupt"),
        ("busy", ":1:5: this is not valid TOML"),
    ],
)
def test_a_wrong_wish_is_an_error_that_names_the_file(
    home: Home, repo: Path, text: str, complaint: str
) -> None:
    file = wish(repo, text)
    with pytest.raises(ConfigError) as caught:
        in_workspace(home.load("[engines.torn]\nenabled = false\n"), repo)
    assert str(file) in str(caught.value)
    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    ("wished", "shown", "hint"),
    [
        ("'scrip'", '"scrip"', "available: cc, claude-code, script; did you mean script?"),
        ("'/bin/sh'", '"/bin/sh"', "available: cc, claude-code, script"),
        ('"torn"', '"torn"', "available: cc, claude-code, script"),
        (r'"\u001b[31m"', r'"\x1b[31m"', "available: cc, claude-code, script"),
    ],
)
def test_an_engine_that_is_not_here_is_a_wish_that_nobody_hears(
    home: Home, repo: Path, wished: str, shown: str, hint: str
) -> None:
    file = wish(repo, f"engine = {wished}\nmodel = 'theirs'\nbusy = 'steer'\n")
    config = "[gateway]\ndefault_engine = 'script'\n[engines.torn]\nenabled = false\n"
    found = in_workspace(home.load(config), repo)
    assert (found.engine, found.model, found.busy) == ("script", None, "steer")
    (warning,) = found.warnings
    assert (warning.source, warning.key) == (str(file), "engine")
    assert warning.text == f"{shown} was ignored, and the model with it: there is no such engine here; {hint}"


def test_a_reference_to_a_secret_stays_text(home: Home, repo: Path) -> None:
    wish(repo, "model = '${KEY}'\n")
    assert in_workspace(home.load(secrets="KEY=hunter22\n"), repo).model == "${KEY}"


def test_links_pipes_and_huge_files_are_not_read(home: Home, repo: Path) -> None:
    file = repo / WORKSPACE_FILE_NAME
    file.symlink_to(home.file)
    with pytest.raises(ConfigError, match="cannot be read"):
        in_workspace(home.load(), repo)
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(ConfigError, match="is not a regular file"):
        in_workspace(home.load(), repo)
    file.unlink()
    wish(repo, "#" * 100_000)
    with pytest.raises(ConfigError, match="larger than"):
        in_workspace(home.load(), repo)


@pytest.mark.parametrize("flag", [None, "collect"])
@pytest.mark.parametrize("variable", [None, "interrupt"])
@pytest.mark.parametrize("wished", [None, "steer"])
@pytest.mark.parametrize("special", [None, "queue"])
@pytest.mark.parametrize("general", [None, "interrupt"])
def test_every_layer_beats_the_ones_below(
    home: Home,
    repo: Path,
    general: str | None,
    special: str | None,
    wished: str | None,
    variable: str | None,
    flag: str | None,
) -> None:
    text = f"[gateway]\nbusy = '{general}'\n" if general else ""
    text += f"[workspaces.app]\npath = '{repo}'\n" + (f"busy = '{special}'\n" if special else "")
    wish(repo, f"busy = '{wished}'\n" if wished else "")
    environ = {"PILOTHOUSE__GATEWAY__BUSY": variable} if variable else {}
    loaded = home.load(text, {"gateway.busy": flag} if flag else None, **environ)
    assert in_workspace(loaded, repo).busy == (flag or variable or wished or special or general or "collect")
