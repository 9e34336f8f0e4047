"""What holds for every command: quick, plain words, an honest exit code, never a traceback."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest
from tests.cli.conftest import House
from tests.dists import ROOT

from pilothouse import __version__

HEAVY = (
    "rich",
    "structlog",
    "watchfiles",
    "anyio",
    "asyncio",
    "prompt_toolkit",
    "sqlite3",
    "click",
    "msgspec",
)


def imported(house: House, *words: str) -> set[str]:
    """The modules that a command left behind."""
    text = (
        "import sys\nfrom pilothouse.cli import main\ncode = main(sys.argv[1:])\n"
        "print('\\n' + ' '.join(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", text, *words],
        env=house.environ(),
        capture_output=True,
        encoding="utf-8",
        check=True,
        timeout=100,
    )
    return set(done.stderr.splitlines()[-1].split())


@pytest.mark.parametrize(
    ("words", "needed"),
    [
        (["--version"], set[str]()),
        (["--help"], {"click", "msgspec"}),
        (["config"], {"click", "msgspec"}),
        (["config", "path"], {"click", "msgspec"}),
        (["status"], {"click", "msgspec"}),
        (["turns"], {"click", "msgspec"}),
    ],
)
def test_a_plain_command_imports_nothing_heavy(house: House, words: list[str], needed: set[str]) -> None:
    assert imported(house, *words) & set(HEAVY) == needed


def test_the_version_needs_neither_click_nor_the_metadata(house: House) -> None:
    assert house.run("--version").stdout == f"pilothouse {__version__}\n"
    assert not imported(house, "--version") & {"click", "importlib.metadata", "pilothouse.plugins"}


def test_help_lists_every_command_and_those_of_plugins_without_importing_them(house: House) -> None:
    text = house.run("--help").stdout
    for name in [
        "chat",
        "up",
        "init",
        "doctor",
        "status",
        "sessions",
        "search",
        "turns",
        "trace",
        "engines",
        "channels",
        "config",
    ]:
        assert re.search(rf"^  {name} ", text, re.MULTILINE)
    assert re.search(r"^  wave +from puppets$", text, re.MULTILINE)
    assert not imported(house, "--help") & {"waving", "pilothouse.cli.doctor", "pilothouse.config"}


def test_a_plugins_command_runs_and_cannot_take_a_built_in_name(house: House) -> None:
    assert house.run("wave").stdout == "hello\n"
    assert house.run("status").stdout.startswith("gateway  not running")


def test_help_says_first_what_the_product_does_as_the_readme_does(house: House) -> None:
    text = " ".join(house.run("--help").stdout.split())
    said = "your coding agent from your phone, your team's chat and your terminal."
    assert f"COMMAND [ARGS]... Steer {said}" in text
    assert f"**Pilothouse steers {said}**" in (ROOT / "README.md").read_text()


def test_help_is_a_command_too(house: House) -> None:
    assert house.run("help").stdout == house.run("--help").stdout
    assert house.run("help", "asks").stdout == house.run("asks", "--help").stdout
    assert house.run("help", "statsu").returncode == 2


def test_every_error_is_marked_in_the_same_way(house: House) -> None:
    done = house.run("turns", "--limit", "none")
    assert done.returncode == 2
    assert (
        done.stderr.startswith("Usage: pilothouse turns [OPTIONS]")
        and "\nerror: Invalid value" in done.stderr
    )


def test_an_unknown_command_is_answered_with_the_nearest(house: House) -> None:
    done = house.run("statsu")
    assert done.returncode == 2
    assert "'statsu'; did you mean status?" in done.stderr


def test_a_foreseen_error_is_one_clear_message_and_exit_code_1(house: House) -> None:
    house.config.write_text("[gateway]\nbusy = 'colect'\n")
    done = house.run("turns")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f'error: {house.config}: gateway.busy: "colect" is not allowed; '
        "allowed: collect, queue, steer, interrupt; did you mean collect?\n"
    )


BREAKING = """
import click
from pilothouse.core.errors import RoleHeld

@click.command()
@click.argument("how")
def command(how):
    if how == "held":
        raise RoleHeld("node home (pid 42) runs the engines", role="engines", holder="home")
    if how == "stop":
        raise KeyboardInterrupt
    if how == "exit":
        raise SystemExit(9)
    if how == "group":
        raise ExceptionGroup("several", [RoleHeld("held", role="engines", holder="home")])
    raise ZeroDivisionError("ghp_" + "a1B2c3" * 6)
"""


@pytest.mark.parametrize(
    ("how", "code"), [("held", 75), ("stop", 130), ("exit", 9), ("group", 75), ("bug", 70)]
)
def test_every_way_to_end_has_its_exit_code(house: House, how: str, code: int) -> None:
    (house.packages / "waving.py").write_text(BREAKING)
    assert house.run("wave", how).returncode == code


def test_what_nobody_foresaw_is_one_line_and_its_traceback_is_in_the_log_alone(house: House) -> None:
    (house.packages / "waving.py").write_text(BREAKING)
    done = house.run("wave", "bug")
    assert done.stderr.startswith("Unexpected error: ZeroDivisionError: [redacted]")
    assert str(house.log) in done.stderr
    entry = json.loads(house.log.read_text())
    assert "Traceback" in entry["traceback"]
    assert "a1B2c3" * 6 not in house.log.read_text()


@pytest.mark.parametrize("words", ["config check", "rules", "trust .", "chat hi"])
def test_a_current_folder_that_is_gone_is_said_plainly(house: House, words: str) -> None:
    gone = house.home / "gone"
    gone.mkdir()
    done = subprocess.run(
        ["sh", "-c", f'rmdir "$PWD" && exec "$0" -m pilothouse {words}', sys.executable],
        env=house.environ(),
        input="",
        capture_output=True,
        encoding="utf-8",
        timeout=100,
        cwd=gone,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: The current folder was removed or replaced")
    assert "--workspace" in done.stderr
    assert not house.log.exists()


@pytest.mark.parametrize(
    "words",
    ["status", "config show", "config path", "config check", "init --yes", "up", "chat hi", "audit verify"],
)
def test_a_home_that_is_a_file_is_said_the_same_by_every_command(house: House, words: str) -> None:
    file = house.home / "note"
    file.write_text("no folder")
    done = house.run(*words.split(), PILOTHOUSE_HOME=str(file))
    told = f"error: PILOTHOUSE_HOME={file} is a file and must be a folder\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", told)


def test_a_home_below_a_file_is_said_to_be_none(house: House) -> None:
    (house.home / "note").write_text("no folder")
    done = house.run("status", PILOTHOUSE_HOME=f"{house.home}/note/deep/er")
    told = f"PILOTHOUSE_HOME={house.home}/note/deep/er cannot be a folder: {house.home}/note is a file"
    assert (done.returncode, done.stderr) == (1, f"error: {told}\n")


def test_a_plugin_that_cannot_be_imported_takes_only_its_command_down(house: House) -> None:
    (house.packages / "waving.py").write_text("raise SystemExit('no')\n")
    done = house.run("wave")
    assert done.returncode == 1
    assert done.stderr == "error: the command wave (from puppets) did not load: SystemExit: no\n"
    assert "wave" in house.run("--help").stdout


def test_a_closed_pipe_is_quiet(lived_in: House) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "pilothouse", "turns"],
        env=lived_in.environ(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 141


def test_an_ascii_terminal_gets_marks_instead_of_an_error(house: House) -> None:
    done = house.run("doctor", PYTHONIOENCODING="ascii")
    assert done.stdout.startswith("? python")


def test_a_known_secret_never_stands_in_an_error(house: House) -> None:
    (house.home / ".env").write_text("KEY=hunter22\n")
    house.config.write_text("[engines.gone]\ntoken = 'hunter33'\n")
    (house.packages / "waving.py").write_text("raise RuntimeError('hunter22 hunter33 hunter44')\n")
    done = house.run("wave", VENDOR_API_KEY="hunter44")
    assert done.stderr.endswith("RuntimeError: [redacted] [redacted] [redacted]\n")


def test_a_broken_installation_gets_a_line_too(house: House) -> None:
    (house.packages / "click.py").write_text("raise ImportError('half an upgrade')\n")
    done = house.run_in_new_python("status")
    assert done.returncode == 70
    assert done.stderr.count("\n") == 1


def test_on_a_terminal_an_error_is_red_and_everywhere_else_it_is_not(house: House) -> None:
    code, text = house.on_a_terminal("trace")
    assert (code, "\x1b[31merror:\x1b[0m Missing argument 'TURN'" in text) == (2, True), "wrong usage too"
    house.config.write_text("[")
    code, text = house.on_a_terminal("status")
    assert (code, text.startswith("\x1b[31merror:\x1b[0m ")) == (1, True)
    assert "\x1b" not in house.on_a_terminal("status", NO_COLOR="1")[1]


@pytest.mark.parametrize("word", ["chat", "up"])
def test_help_of_the_long_running_commands_needs_no_gateway(house: House, word: str) -> None:
    assert house.run(word, "--help").returncode == 0
