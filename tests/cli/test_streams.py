"""Odd streams are ordinary: closed, full, piped. None of them is a traceback."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, NamedTuple

import pytest
from tests.dists import SRC
from tests.forked import Forked, run

WITHIN_S = 100.0


def environ(home: Path, **more: str) -> dict[str, str]:
    own = {"PILOTHOUSE_HOME": str(home), "HOME": str(home), "PYTHONPATH": str(SRC)}
    return {"PATH": os.environ["PATH"], **own, **more}


def sh(line: str, home: Path) -> subprocess.CompletedProcess[str]:
    """By a shell, and in a new Python, which finds its streams as the shell left them."""
    command = line.replace("pilothouse", f"{sys.executable} -m pilothouse")
    return subprocess.run(
        ["sh", "-c", command],
        env=environ(home),
        cwd=home,
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )


def pilothouse(home: Path, *words: str, said: str = "") -> subprocess.CompletedProcess[str]:
    return run("pilothouse", *words, env=environ(home), cwd=home, said=said, within_s=WITHIN_S)


def fill(home: Path, *words: str, **more: str) -> tuple[int, str]:
    """Exit code and errors of a command whose standard output is full."""
    with start(home, *words, output="/dev/full", **more) as started:
        told = started.stderr.read()
        return started.process.wait(WITHIN_S), told


def script(home: Path) -> None:
    (home / "script.toml").write_text('[[turn]]\nsteps = [ { say = "heard: {prompt}" } ]\n')
    (home / "config.toml").write_text(
        f'[engines.script]\nscript = "{home}/script.toml"\n[gateway]\ndefault_engine = "script"\n'
    )


def test_what_is_piped_in_goes_along_with_what_was_said(tmp_path: Path) -> None:
    script(tmp_path)
    done = pilothouse(tmp_path, "chat", "review this", said="the diff")
    assert (done.returncode, done.stdout.split()) == (0, ["heard:", "review", "this", "the", "diff"])


def test_closed_standard_streams_are_no_surprise(tmp_path: Path) -> None:
    script(tmp_path)
    for line in ("pilothouse chat hi <&-", "pilothouse chat hi <&- >&-", "pilothouse turns <&- >&- 2>&-"):
        done = sh(line, tmp_path)
        assert "Traceback" not in done.stderr
        assert "foresee" not in done.stderr
        assert done.returncode == 0, line


def test_a_full_standard_output_is_an_error_in_words(tmp_path: Path) -> None:
    script(tmp_path)
    pilothouse(tmp_path, "chat", "hi")
    done = sh("pilothouse turns > /dev/full", tmp_path)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "cannot be written" in done.stderr


@pytest.mark.parametrize("command", ["status", "doctor", "engines", "config show", "config show --json"])
def test_a_full_standard_output_is_no_surprise_to_any_command(tmp_path: Path, command: str) -> None:
    script(tmp_path)
    for unbuffered in ("", "1"):
        code, told = fill(tmp_path, *command.split(), PYTHONUNBUFFERED=unbuffered)
        assert told == "error: The output cannot be written: No space left on device\n"
        assert code == 1


def test_an_answer_that_nobody_can_take_is_not_waited_for(tmp_path: Path) -> None:
    script(tmp_path)
    for options in ((), ("--json",)):
        code, told = fill(tmp_path, "chat", "hi", *options)
        assert code == 1
        assert "Traceback" not in told
        assert "No space left on device" in told


@pytest.mark.parametrize(("line", "code"), [("/status", 0), ("/foo", 1), ("/engine nope", 1)])
def test_a_command_that_was_not_done_has_its_exit_code(tmp_path: Path, line: str, code: int) -> None:
    script(tmp_path)
    done = pilothouse(tmp_path, "chat", line)
    assert (done.returncode, bool(done.stdout)) == (code, True)


def test_questions_that_are_asked_at_once_have_their_own_answer_each(tmp_path: Path) -> None:
    script(tmp_path)
    pilothouse(tmp_path, "chat", "hi")
    with ExitStack() as stack:
        asked = {
            n: stack.enter_context(
                start(tmp_path, "chat", f"question {n}", output=str(tmp_path / f"{n}.out"))
            )
            for n in range(1, 4)
        }
        for n, started in asked.items():
            told = started.stderr.read()
            assert started.process.wait(WITHIN_S) == 0, told
            assert (tmp_path / f"{n}.out").read_text() == f"heard: question {n}\n", told
            assert "heard:" not in told


class Started(NamedTuple):
    process: Forked
    stderr: IO[str]


@contextmanager
def start(home: Path, *words: str, output: str = os.devnull, **more: str) -> Iterator[Started]:
    reading, writing = os.pipe()
    with open(reading) as stderr:
        with open(os.devnull) as nothing, open(output, "w") as out:
            streams = (nothing.fileno(), out.fileno(), writing)
            process = Forked("pilothouse", *words, env=environ(home, **more), cwd=home, streams=streams)
        os.close(writing)
        try:
            yield Started(process, stderr)
        finally:
            process.kill()
            process.wait()


def hang(home: Path) -> None:
    script(home)
    (home / "script.toml").write_text("[[turn]]\nsteps = [ { hang = true } ]\n")


def test_whoever_asks_twice_to_leave_sees_no_traceback(tmp_path: Path) -> None:
    hang(tmp_path)
    with start(tmp_path, "chat", "hi") as (process, stderr):
        seen: list[str] = []
        _read_until("hang", stderr, seen)
        process.send_signal(signal.SIGTERM)
        _read_until("Leaving", stderr, seen)
        process.send_signal(signal.SIGTERM)
        seen += stderr.readlines()
        assert process.wait(WITHIN_S) == 130
    assert "Traceback" not in "".join(seen)


def test_a_gateway_that_stops_says_that_a_second_ctrl_c_leaves_at_once(tmp_path: Path) -> None:
    script(tmp_path)
    with start(tmp_path, "up") as (process, stderr):
        seen: list[str] = []
        _read_until("is ready", stderr, seen)
        process.send_signal(signal.SIGINT)
        seen += stderr.readlines()
        assert process.wait(WITHIN_S) == 0
    assert "Stopping. Ctrl-C again leaves at once.\n" in seen


def test_a_gateway_that_is_ready_says_why_turns_will_fail(tmp_path: Path) -> None:
    config, gone = tmp_path / "config.toml", tmp_path / "gone"
    config.write_text(f'[gateway]\ndefault_engine = "claude"\ndefault_workspace = "{gone}"\n')
    with start(tmp_path, "up", PATH="/no/such/folder") as (process, stderr):
        _read_until("is ready", stderr, [])
        process.send_signal(signal.SIGINT)
        told = stderr.readlines()
        assert process.wait(WITHIN_S) == 0
    assert told[:2] == [
        "warning: engine claude: There is no 'claude' on PATH. → npm install -g @anthropic-ai/claude-code\n",
        f"warning: {config}: gateway.default_workspace: {gone} is not a folder; make it: mkdir -p {gone}\n",
    ]


@pytest.mark.parametrize("output", ["stream-json", "text"])
def test_who_asks_an_engine_that_is_not_there_reads_what_to_do_and_not_where_it_was_looked_for(
    tmp_path: Path, output: str
) -> None:
    config = f'[gateway]\ndefault_engine = "claude"\n[engines.claude]\noutput = "{output}"\n'
    (tmp_path / "config.toml").write_text(config)
    with start(tmp_path, "chat", "hi", PATH="/no/such/folder") as started:
        told = started.stderr.read()
    assert "was not found where the gateway runs. Install it there: npm install" in told
    assert "/no/such/folder" not in told


def test_a_second_ctrl_c_ends_a_gateway_whose_turn_still_has_time(tmp_path: Path) -> None:
    hang(tmp_path)
    with (tmp_path / "config.toml").open("a") as config:
        config.write("grace_s = 60\n")
    with start(tmp_path, "up") as (gateway, stderr):
        seen: list[str] = []
        _read_until("is ready", stderr, seen)
        with start(tmp_path, "chat", "hi") as chat:
            _read_until("hang", chat.stderr, [])
            chat.process.kill()  # or it would take the turn over
        gateway.send_signal(signal.SIGINT)
        _read_until("Leaving: a running turn has 60 s to end. Ctrl-C leaves now.", stderr, seen)
        gateway.send_signal(signal.SIGINT)
        seen += stderr.readlines()
        assert gateway.wait(WITHIN_S) == 130
    assert "Traceback" not in "".join(seen)


def _read_until(word: str, stream: IO[str], seen: list[str]) -> None:
    while not seen or word not in seen[-1]:
        seen.append(stream.readline())
        assert seen[-1], seen


def test_answers_from_a_pipe_are_read_without_a_warning(tmp_path: Path) -> None:
    done = pilothouse(tmp_path, "init", said="\n\n\n\n")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Telegram bot token" in done.stdout
    wrong = pilothouse(tmp_path, "init", said="\ntelegram\nno token\n")
    assert wrong.returncode == 1
    assert wrong.stderr.startswith("error: Telegram: "), "it is read from the pipe"


def test_a_window_that_is_closed_leaves_the_turn_its_time(tmp_path: Path) -> None:
    script(tmp_path)
    (tmp_path / "script.toml").write_text(
        '[[turn]]\nsteps = [ { say = "first" }, { tool = "command", for_s = 1.0 }, { say = "last" } ]\n'
    )
    with (tmp_path / "config.toml").open("a") as config:
        config.write("grace_s = 40.0\n")
    ours, theirs = pty.openpty()
    words = ("chat", "--approval-mode", "minimal")
    env = environ(tmp_path, TERM="xterm")
    # It has the terminal for its own, and hears when it is closed.
    process = Forked("pilothouse", *words, env=env, cwd=tmp_path, streams=(theirs,) * 3, session="terminal")
    try:
        _see(ours, "Ctrl-D leaves.")
        os.write(ours, b"go\r")
        _see(ours, "first")
        os.close(theirs)
        os.close(ours)
        process.send_signal(signal.SIGHUP)  # of the shell, after the kernel's
        assert process.wait(WITHIN_S) in (0, 1), "by itself, and no signal ended it"
    finally:
        process.kill()
        process.wait()
    log = (tmp_path / "logs" / "pilothouse.log").read_text()
    assert "traceback" not in log.lower()
    assert '"gateway.stopped"' in log
    (turn,) = json.loads(pilothouse(tmp_path, "turns", "--json").stdout)
    assert turn["status"] == "done"


def _see(descriptor: int, words: str) -> None:
    screen = b""
    while words.encode() not in screen:
        assert select.select([descriptor], [], [], 30)[0], f"no {words!r} in {screen!r}"
        screen += os.read(descriptor, 65536)
