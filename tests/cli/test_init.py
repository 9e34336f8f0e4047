"""`init`: every answer is also a flag, and what exists is never lost."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from tests.cli.conftest import House, with_bots


def test_every_answer_is_a_flag(house: House, tmp_path: Path) -> None:
    flags = [
        "--workspace",
        str(tmp_path),
        "--engine",
        "puppet",
        "--owner",
        "telegraph:1",
        "--owner",
        "telegraph:2",
        "--yes",
    ]
    done = house.run("init", *flags)
    assert done.returncode == 0, done.stderr
    tree = tomllib.loads(house.config.read_text())
    assert tree["gateway"]["default_workspace"] == str(tmp_path)
    assert tree["gateway"]["default_engine"] == "puppet"
    assert tree["people"] == {"owners": ["telegraph:1", "telegraph:2"], "members": []}
    assert house.config.stat().st_mode & 0o777 == 0o600
    assert house.run("config", "check").returncode == 0


def test_questions_are_asked_for_what_no_flag_says(house: House, tmp_path: Path) -> None:
    done = house.run("init", "--engine", "auto", said=f"{tmp_path}\ntelegraph:1, telegraph:2\n")
    assert "Engine" not in done.stdout
    tree = tomllib.loads(house.config.read_text())
    assert tree["gateway"]["default_workspace"] == str(tmp_path)
    assert tree["people"]["owners"] == ["telegraph:1", "telegraph:2"]


def test_an_end_of_input_changes_nothing(house: House) -> None:
    done = house.run("init")
    assert done.returncode == 130
    assert "nothing was changed" in done.stderr
    assert list(house.home.iterdir()) == []


def test_a_second_init_shows_what_exists_and_changes_nothing(house: House) -> None:
    house.run("init", "--yes", "--owner", "telegraph:1")
    before = house.config.read_bytes()
    for words in (["init"], ["init", "--yes", "--owner", "telegraph:2"]):
        done = house.run(*words)
        assert done.returncode == 0
        assert 'people.owners = ["telegraph:1"]' in done.stdout
        assert "nothing was changed" in done.stdout
    assert house.config.read_bytes() == before


def test_a_broken_file_is_left_alone_and_that_is_no_success(house: House) -> None:
    house.config.write_text("[gateway]\nbusy 1\n")
    done = house.run("init", "--yes")
    assert (done.returncode, "nothing was changed; fix the file" in done.stderr) == (1, True)
    assert f"{house.config}:2:6: this is not valid TOML" in done.stdout
    assert "line 2" not in done.stdout
    assert house.config.read_text() == "[gateway]\nbusy 1\n"


def test_force_replaces_and_keeps_every_old_one(house: House) -> None:
    for owner in ("telegraph:1", "telegraph:2", "telegraph:3"):
        assert house.run("init", "--yes", "--force", "--owner", owner).returncode == 0
    backups = sorted(house.home.glob("config.toml.*.bak"))
    kept = sorted(tomllib.loads(file.read_text())["people"]["owners"][0] for file in backups)
    assert kept == ["telegraph:1", "telegraph:2"]


def test_a_backup_that_the_system_refuses_is_told_as_any_file_that_cannot_be_written(house: House) -> None:
    file = house.home / f"{'c' * 245}.toml"  # a backup's name is longer than a name may be
    file.touch(0o600)
    done = house.run("init", "--yes", "--force", PILOTHOUSE_CONFIG=str(file))
    told = f"error: {file} cannot be written: File name too long; PILOTHOUSE_HOME names another folder\n"
    assert (done.returncode, done.stderr) == (1, told)
    assert list(house.home.iterdir()) == [file]


def test_what_would_be_refused_is_not_written(house: House) -> None:
    with_bots(house)
    for words, complaint in (
        (["--engine", "pupet"], "did you mean puppet?"),
        (["--owner", "nobody"], "channel:id"),
        (["--owner", "telegram:@ada"], "on Telegram people are known by a number"),
        (["--owner", "nope:1"], 'there is no channel "nope"'),
        (["--workspace", "/no/such/folder"], "mkdir -p /no/such/folder"),
    ):
        done = house.run("init", "--yes", *words)
        assert (done.returncode, complaint in done.stderr) == (1, True), done.stderr
        assert not house.config.exists()


def test_odd_names_survive_the_file(house: House, tmp_path: Path) -> None:
    odd = tmp_path / 'a "quoted" \\ ünicode\tname\x7f'
    odd.mkdir()
    assert house.run("init", "--yes", "--workspace", str(odd)).returncode == 0
    assert tomllib.loads(house.config.read_text())["gateway"]["default_workspace"] == str(odd)


def test_on_a_terminal_it_asks_before_it_replaces(house: House) -> None:
    house.run("init", "--yes", "--owner", "telegraph:1")
    code, screen = house.on_a_terminal(
        "init", "--owner", "telegraph:2", "--engine", "auto", "--workspace", "/", said="n\n"
    )
    assert (code, "Replace it?" in screen, "nothing was changed" in screen) == (0, True, True)
    code, screen = house.on_a_terminal(
        "init", "--owner", "telegraph:2", "--engine", "auto", "--workspace", "/", said="y\n"
    )
    assert (code, "the old file is kept as" in screen) == (0, True)
    assert tomllib.loads(house.config.read_text())["people"]["owners"] == ["telegraph:2"]


def test_a_wrong_engine_is_told_before_anything_else_is_asked(house: House) -> None:
    done = house.run("init", "--engine", "pupet", said="/\ntelegraph:1\n")
    assert done.returncode == 1
    assert "did you mean puppet?" in done.stderr
    assert "Folder that engines work in" not in done.stdout


def test_a_wrong_answer_is_asked_again_at_once(house: House, tmp_path: Path) -> None:
    done = house.run("init", said=f"/no/such/folder\n{tmp_path}\npupet\npuppet\nbob\ntelegraph:1\n")
    assert done.returncode == 0, done.stderr
    assert "/no/such/folder is not a folder" in done.stdout
    assert "did you mean puppet?" in done.stdout
    assert "'bob' is not a user id" in done.stdout
    tree = tomllib.loads(house.config.read_text())
    assert tree["gateway"]["default_engine"] == "puppet"
    assert tree["people"]["owners"] == ["telegraph:1"]


def test_a_wrong_owner_is_told_before_anything_is_asked_and_names_no_draft(house: House) -> None:
    done = house.run("init", "--owner", "bob", said="/\nauto\n")
    assert (done.returncode, done.stdout) == (1, "")
    assert "'bob' is not a user id" in done.stderr
    assert "config.toml" not in done.stderr


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--telegram", "--no-telegram"], "--telegram and --no-telegram contradict each other"),
        (["--no-trust", "--trust"], "--trust and --no-trust contradict each other"),
        (["--discord-api", "discord.example"], "must begin with https://"),
    ],
)
def test_flags_that_cannot_be_meant_are_wrong_usage(house: House, words: list[str], complaint: str) -> None:
    done = house.run("init", "--yes", *words)
    assert (done.returncode, complaint in done.stderr) == (2, True), done.stderr
    assert not house.config.exists()


@pytest.mark.parametrize(
    ("named", "other"), [("discord", "Telegram bot token"), ("telegram", "Discord bot token")]
)
def test_whoever_names_one_channel_is_asked_about_no_other(house: House, named: str, other: str) -> None:
    with_bots(house)
    flags = ("--workspace", "/", "--engine", "auto", "--owner", "telegraph:1", f"--{named}")
    done = house.run("init", *flags, said="\n")
    assert f"--{named} needs a token" in done.stderr
    assert other not in done.stdout + done.stderr


@pytest.mark.parametrize("name", ["telegram", "discord"])
def test_a_malformed_token_is_asked_for_again_on_a_terminal(house: House, name: str) -> None:
    with_bots(house)
    flags = ("--workspace", "/", "--engine", "auto", "--no-trust")
    flags += ("--no-telegram",) if name == "discord" else ("--no-discord",)
    answers = [("or nothing: ", said) for said in ("telegraph:1\n", "hunter2\n", "\n")]
    code, screen = house.on_a_terminal("init", *flags, answers=answers)
    assert code == 0, screen
    assert "does not look like one" in screen
    assert "hunter2" not in screen
    assert tomllib.loads(house.config.read_text())["people"]["owners"] == ["telegraph:1"]


def test_a_wrong_token_of_the_environment_is_said_to_be_one(house: House) -> None:
    with_bots(house)
    flags = ("--workspace", "/", "--engine", "auto", "--no-trust", "--no-discord", "--owner", "telegraph:1")
    answers = [("or nothing: ", "\n")]
    code, screen = house.on_a_terminal("init", *flags, answers=answers, TELEGRAM_TOKEN="hunter2")
    assert code == 0, screen
    assert "(it came from TELEGRAM_TOKEN in the environment)" in " ".join(screen.split())


def test_without_a_terminal_a_malformed_token_is_an_error(house: House) -> None:
    with_bots(house)
    flags = ("--workspace", "/", "--engine", "auto", "--owner", "telegraph:1", "--telegram")
    done = house.run("init", *flags, said="malformed\n\n")
    assert (done.returncode, "does not look like one" in done.stderr) == (1, True)
    assert not house.config.exists()


def test_a_question_breaks_between_words_on_a_terminal(house: House) -> None:
    with_bots(house)
    flags = ("--workspace", "/", "--engine", "auto", "--owner", "telegraph:1", "--no-trust", "--no-telegram")
    code, screen = house.on_a_terminal("init", *flags, answers=[("nothing: ", "\n")], COLUMNS="60")
    assert code == 0, screen
    asked = screen[: screen.index("nothing: ") + len("nothing: ")].splitlines()
    assert len(asked) > 1 and all(len(line) <= 60 for line in asked)
    assert " ".join(asked) == (
        "Discord bot token (https://discord.com/developers/applications, page Bot), or nothing: "
    )
