"""`init` over a configuration: what it says is offered, and nothing is lost on the way."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from tests.cli.conftest import House, with_bots

STOOD = """\
# A comment of mine.
[gateway]
default_engine = "marionette"
default_workspace = "${PROJECT}"
busy = "queue"
grace_s = 2.5
show_cost = false

[people]
owners = ["telegram:1", "${BOSS}"]
admins = ["telegram:2"]
members = ["telegram:3"]

[approvals.destructive]
quorum = 2

[policy]
rules = ["deny command git push", 'deny path "a b"']

[workspaces."my shop"]
path = "/tmp"
members = ["telegram:4"]

[channels.telegram]
token = "${MY_TOKEN}"
trigger = { mode = "pattern", pattern = '^hey\\b' }

[channels.telegram.chats.-1001234567890]
mode = "all"

[channels.telegraph]
rooms = [1, 2]
"""
BOTH = '[channels.telegram]\nfinal = "edit"\n\n[channels.discord]\nusers = ["12345"]\n'


def lived_in(house: House, text: str) -> None:
    with_bots(house)
    house.config.write_text(text)
    house.config.chmod(0o600)
    (house.home / ".env").write_text(f"PROJECT={house.home}\nBOSS=discord:12345\nMY_TOKEN=1:abc\n")


def tree(house: House) -> dict[str, Any]:
    return tomllib.loads(house.config.read_text())


@pytest.mark.parametrize("words", [(), ("--yes",)])
def test_enter_and_yes_keep_everything_that_stands_there(house: House, words: tuple[str, ...]) -> None:
    lived_in(house, STOOD)
    before, secrets = tree(house), (house.home / ".env").read_bytes()
    done = house.run("init", *words, said="\nnone\n\n")
    assert done.returncode == 0, done.stderr
    if not words:
        assert f"Folder that the agent works in [{house.home}]:" in done.stdout
        assert "Chat app (telegram, discord, or none) [telegram]:" in done.stdout
    assert tree(house) == before
    assert (house.home / ".env").read_bytes() == secrets
    [backup] = house.home.glob("config.toml.*.bak")
    assert backup.read_text() == STOOD


def test_a_new_answer_changes_that_alone(house: House) -> None:
    lived_in(house, STOOD)
    expected = tree(house)
    expected["gateway"]["default_engine"] = "auto"
    expected["people"]["owners"] = ["telegram:5"]
    flags = ("--engine", "auto", "--owner", "telegram:5")
    assert house.run("init", *flags, said="\nnone\n\n").returncode == 0
    assert tree(house) == expected


@pytest.mark.parametrize(("flag", "left"), [("--no-telegram", "discord"), ("--no-discord", "telegram")])
def test_a_channel_goes_only_by_its_own_flag(house: House, flag: str, left: str) -> None:
    lived_in(house, BOTH)
    expected = tree(house)["channels"][left]
    assert house.run("init", "--yes", flag).returncode == 0
    assert tree(house)["channels"] == {left: expected}


@pytest.mark.parametrize("words", [(), ("--yes",)])
def test_what_names_a_variable_that_is_not_set_here_stays_and_so_does_all_else(
    house: House, words: tuple[str, ...]
) -> None:
    lived_in(house, STOOD + '\n[workspaces.site]\npath = "${SITE}"\n')
    (house.home / ".env").write_text("")
    before = tree(house)
    done = house.run("init", *words, said="\nnone\n\n")
    assert done.returncode == 0, done.stderr
    assert (
        "not set in this shell: PROJECT, BOSS, SITE, MY_TOKEN; settings that use them stay as they are written"
        in done.stdout
    )
    if not words:
        assert "Folder that the agent works in [${PROJECT}]:" in done.stdout
    assert f"Next: set PROJECT, BOSS, MY_TOKEN, SITE in {house.home / '.env'}" in " ".join(
        done.stdout.split()
    )
    assert tree(house) == before


def test_a_channel_that_goes_takes_its_unset_variable_along(house: House) -> None:
    lived_in(house, '[channels.telegram]\ntoken = "${TELEGRAM_TOKEN}"\n')
    done = house.run("init", "--yes", "--no-telegram")
    assert (done.returncode, "Next: pilothouse chat" in done.stdout) == (0, True), done.stdout


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('[gateway]\nbusy = "colect"\nshow_cost = 3\n', ("did you mean collect?", "show_cost")),
        (f"{STOOD}\n[people\n", ("this is not valid TOML",)),
    ],
)
def test_a_file_that_cannot_be_used_is_replaced_only_where_somebody_says_so(
    house: House, text: str, told: tuple[str, ...]
) -> None:
    lived_in(house, text)
    for words in (("--yes",), ("--engine", "auto")):
        done = house.run("init", *words, said="\n" * 5)
        assert (done.returncode, "nothing was changed; fix the file" in done.stderr) == (1, True)
        assert all(word in done.stdout for word in told), "every problem is told"
    flags = ["--workspace", "/", "--engine", "auto", "--owner", "telegraph:1"]
    flags += ["--no-trust", "--no-telegram", "--no-discord", "--approval-mode", "minimal"]
    code, screen = house.on_a_terminal("init", *flags, answers=[("[y/N]: ", "n\n")])
    assert (code, "None of its values are offered" in screen) == (1, True), screen
    assert house.config.read_text() == text
    code, screen = house.on_a_terminal("init", *flags, answers=[("[y/N]: ", "y\n")])
    assert code == 0, screen
    assert tree(house)["gateway"]["busy"] == "collect"
    [backup] = house.home.glob("config.toml.*.bak")
    assert backup.read_text() == text
