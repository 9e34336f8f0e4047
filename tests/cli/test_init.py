"""`init`: every answer is also a flag, and what exists is never lost."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
import segno
from tests.cli.conftest import House, with_bots

from pilothouse.cli.pair import BORDER, RESET, WHITE_ON_BLACK, render_qr


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
    assert "npm install" not in done.stdout, "this engine works"
    told = house.run("init", "--yes", "--engine", "absent").stdout
    assert "Absent: puppet-cli is not on PATH → npm install -g puppet-cli\nNext: " in told, told


def test_questions_are_asked_for_what_no_flag_says(house: House, tmp_path: Path) -> None:
    with_bots(house)
    done = house.run("init", said=f"{tmp_path}\nnone\ntrusted\n")
    assert done.returncode == 0, done.stderr
    tree = tomllib.loads(house.config.read_text())
    assert tree["gateway"]["default_workspace"] == str(tmp_path)
    assert tree["policy"] == {"approval_mode": "trusted"}
    assert done.stdout.splitlines()[-1] == f"Next: pilothouse chat --workspace {tmp_path}"
    assert done.stdout.lower().count("next:") == 1
    house.config.unlink()
    flags = ("--workspace", "/", "--approval-mode", "minimal", "--no-telegram", "--no-discord")
    assert "Folder" not in house.run("init", *flags).stdout, "a flag is an answer"


def test_there_are_four_questions_at_most(house: House, tmp_path: Path) -> None:
    """Even where the folder has settings of its own, which are asked about elsewhere."""
    with_bots(house)
    (house.home / "STRINGS.md").write_text("pull")
    answers = [("[", "\n"), ("[telegram]: ", "\n"), ("Enter skips it): ", "\n"), ("[minimal]: ", "\n")]
    code, screen = house.on_a_terminal("init", answers=answers)
    assert code == 0, screen
    assert len([line for line in screen.splitlines() if line.rstrip().endswith(":")]) == 4, screen
    assert tomllib.loads(house.config.read_text()).get("channels") is None
    assert "# [" not in house.config.read_text(), "no section stands there as a comment"
    assert "approval_mode" not in house.config.read_text(), "what stands there `/mode` cannot change"
    assert "mode.picked" in house.run("audit").stdout, "a chat in this folder does not ask again"


def test_an_end_of_input_changes_nothing(house: House) -> None:
    done = house.run("init")
    assert done.returncode == 130
    assert "nothing was changed" in done.stderr
    assert list(house.home.iterdir()) == []


def test_a_second_init_changes_only_what_is_said_and_keeps_the_old_file(house: House) -> None:
    house.run("init", "--yes", "--owner", "telegraph:1")
    before = house.config.read_bytes()
    done = house.run("init", "--yes")
    assert (done.returncode, house.config.read_bytes()) == (0, before)
    assert f"{house.config} stays as it is" in done.stdout and not list(house.home.glob("*.bak"))
    done = house.run("init")
    assert (done.returncode, house.config.read_bytes()) == (130, before), "no answer, no change"
    done = house.run("init", "--yes", "--engine", "puppet")
    tree = tomllib.loads(house.config.read_text())
    assert (tree["gateway"]["default_engine"], tree["people"]["owners"]) == ("puppet", ["telegraph:1"])
    (backup,) = house.home.glob("*.bak")
    assert backup.read_bytes() == before and f"the old file is kept as {backup}" in done.stdout


def test_a_broken_file_is_left_alone_and_that_is_no_success(house: House) -> None:
    house.config.write_text("[gateway]\nbusy 1\n")
    done = house.run("init", "--yes")
    assert (done.returncode, "nothing was changed; fix the file" in done.stderr) == (1, True)
    assert f"{house.config}:2:6: this is not valid TOML" in done.stdout
    assert "line 2" not in done.stdout
    assert house.config.read_text() == "[gateway]\nbusy 1\n"


def test_force_replaces_and_keeps_every_old_one(house: House) -> None:
    for owner in ("telegraph:1", "telegraph:2", "telegraph:3"):
        assert house.run("init", "--yes", "--owner", owner).returncode == 0
    backups = sorted(house.home.glob("config.toml.*.bak"))
    kept = sorted(tomllib.loads(file.read_text())["people"]["owners"][0] for file in backups)
    assert kept == ["telegraph:1", "telegraph:2"]


def test_a_backup_that_the_system_refuses_is_told_as_any_file_that_cannot_be_written(house: House) -> None:
    file = house.home / f"{'c' * 245}.toml"  # a backup's name is longer than a name may be
    file.touch(0o600)
    done = house.run("init", "--yes", PILOTHOUSE_CONFIG=str(file))
    told = f"error: {file} cannot be written: File name too long; PILOTHOUSE_HOME names another folder\n"
    assert (done.returncode, done.stderr) == (1, told)
    assert list(house.home.iterdir()) == [file]


def test_what_would_be_refused_is_not_written(house: House) -> None:
    with_bots(house)
    for words, complaint in (
        (["--engine", "pupet"], "did you mean puppet?"),
        (["--owner", "nobody"], "channel:id"),
        (["--owner", "telegram:@ada"], "on Telegram an id is a number"),
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


def test_on_a_terminal_a_second_init_says_what_it_does(house: House) -> None:
    house.run("init", "--yes", "--owner", "telegraph:1")
    flags = ("--engine", "auto", "--workspace", "/")
    code, screen = house.on_a_terminal("init", *flags, answers=[("[minimal]: ", "trusted\n")])
    assert (code, "Enter keeps each value" in screen, "the old file is kept as" in screen) == (0, True, True)
    assert tomllib.loads(house.config.read_text())["people"]["owners"] == ["telegraph:1"]


def test_a_wrong_engine_is_told_before_anything_else_is_asked(house: House) -> None:
    done = house.run("init", "--engine", "pupet", said="/\ntelegraph:1\n")
    assert done.returncode == 1
    assert "did you mean puppet?" in done.stderr
    assert "Folder that the agent works in" not in done.stdout


def test_a_wrong_answer_is_asked_again_at_once(house: House, tmp_path: Path) -> None:
    with_bots(house)
    done = house.run("init", said=f"/no/such/folder\n{tmp_path}\nsignal\nnone\nlots\nminimal\n")
    assert done.returncode == 0, done.stderr
    assert "/no/such/folder is not a folder" in done.stdout
    assert "'signal' is not one of them: write telegram, discord or none" in done.stdout
    assert "There is no approval mode 'lots'" in done.stdout


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
    flags = ("--workspace", "/", "--approval-mode", "minimal")
    answers = [("none) [telegram]: ", f"{name}\n"), ("skips it): ", "hunter2\n"), ("skips it): ", "\n")]
    code, screen = house.on_a_terminal("init", *flags, answers=answers)
    assert code == 0, screen
    assert "does not look like one" in screen
    assert "hunter2" not in screen
    assert "channels" not in tomllib.loads(house.config.read_text())


def test_a_wrong_token_of_the_environment_is_said_to_be_one(house: House) -> None:
    with_bots(house)
    flags = ("--workspace", "/", "--approval-mode", "minimal")
    answers = [("none) [telegram]: ", "\n"), ("skips it): ", "\n")]
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
    flags = ("--workspace", "/", "--no-telegram", "--no-discord")
    code, screen = house.on_a_terminal("init", *flags, answers=[("[minimal]: ", "\n")], COLUMNS="60")
    assert code == 0, screen
    asked = screen[: screen.index("[minimal]: ")].splitlines()
    assert len(asked) > 1 and all(len(line) <= 60 for line in asked)


def test_the_code_on_the_screen_is_the_link() -> None:
    """Two rows of modules per character, light ones drawn; read back, it is what segno made."""
    link = "https://t.me/pilot_test_bot?start=ABCD-EFGH"
    lines = [line.removeprefix(WHITE_ON_BLACK).removesuffix(RESET) for line in render_qr(link).splitlines()]
    light = {"█": (0, 0), "▀": (0, 1), "▄": (1, 0), " ": (1, 1)}
    rows = [[light[c][half] for c in line] for line in lines for half in (0, 1)]
    code = [row[BORDER:-BORDER] for row in rows[BORDER:]]
    wanted = [list(row) for row in segno.make(link, error="l", micro=False).matrix]
    assert code[: len(wanted)] == wanted
    assert all(ord(c) >= 0x20 for c in "".join(lines))
