"""Lanes on a real repository with a real tmux server of the test's own."""

from __future__ import annotations

import os
import pty
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import msgspec
import pytest
from anyio import to_thread
from tests.dists import SRC
from tests.forked import Forked
from tests.lanes.repository import git, make_repository

from pilothouse.lanes.lane import Lane, LaneError, slug_of
from pilothouse.lanes.operations import Lanes, NewLane
from pilothouse.lanes.programs import end_session, is_running, start_session

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed: lanes are not tested"),
]


def wait_for_a_line(folder: str, seed: str) -> Sequence[str]:
    """A program in place of the chat: it writes down its first message, and ends when a file appears."""
    return ["sh", "-c", 'printf %s "$1" >> seed; while ! [ -e end ]; do sleep 0.05; done', "sh", seed]


class Time:
    at = 1000.0

    def now(self) -> float:
        return self.at


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "repo")


@pytest.fixture(autouse=True)
def own_tmux(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with TemporaryDirectory(prefix="tmux") as folder:
        monkeypatch.setenv("TMUX_TMPDIR", folder)
        monkeypatch.delenv("TMUX", raising=False)
        yield


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
async def lanes(tmp_path: Path, time: Time) -> AsyncIterator[Lanes]:
    made = Lanes(tmp_path / "data", now=time.now)
    yield made
    for lane in await made.all():
        await end_session(lane.session)


def wish(repository: Path, **more: Any) -> NewLane:
    return NewLane(task="Fix the parser!", folder=str(repository), **more)


async def until(path: Path) -> str:
    with anyio.fail_after(60):
        while not path.exists() or not path.read_text():
            await anyio.sleep(0.02)
    return path.read_text()


async def until_ended(session: str) -> None:
    with anyio.fail_after(60):
        while await is_running(session):
            await anyio.sleep(0.02)


async def test_a_lane_is_a_worktree_on_its_own_branch_with_a_program_that_got_the_first_message(
    lanes: Lanes, repository: Path, tmp_path: Path
) -> None:
    seed = 'it\'s "quoted"; $HOME\nsecond line'
    lane = await lanes.create(wish(repository, seed=seed), wait_for_a_line)
    assert await until(Path(lane.worktree, "seed")) == seed
    assert Path(lane.worktree).parent == tmp_path / "data" / "worktrees"
    assert (
        git(Path(lane.worktree), "branch", "--show-current")
        == lane.branch
        == f"lane/fix-the-parser-{lane.id}"
    )
    assert [found.state for found in await lanes.all()] == ["running"]
    assert lane.session in lane.attach_command
    assert lane.worktree in lane.enter_command


async def test_only_force_closes_a_running_or_a_dirty_lane_and_the_branch_stays(
    lanes: Lanes, repository: Path
) -> None:
    lane = await lanes.create(wish(repository, seed="x"), wait_for_a_line)
    await until(Path(lane.worktree, "seed"))
    with pytest.raises(LaneError, match="is running"):
        await lanes.close(lane.id)
    Path(lane.worktree, "end").touch()
    await until_ended(lane.session)
    assert (await lanes.status(lane.id[:4])).state == "finished"
    with pytest.raises(LaneError, match="not committed"):
        await lanes.close(lane.id)
    await lanes.close(lane.id, force=True)
    assert not Path(lane.worktree).exists()
    assert await lanes.all() == []
    assert lane.branch in git(repository, "branch", "--list", lane.branch)


async def test_gc_closes_what_ended_long_ago_and_is_clean(lanes: Lanes, repository: Path, time: Time) -> None:
    clean = await lanes.create(wish(repository), lambda folder, seed: ["true"])
    dirty = await lanes.create(wish(repository), lambda folder, seed: ["touch", "new"])
    running = await lanes.create(wish(repository, seed="x"), wait_for_a_line)
    for lane in (clean, dirty):
        await until_ended(lane.session)
    assert await lanes.collect(60) == []
    time.at += 61
    assert [lane.id for lane in await lanes.collect(60)] == [clean.id]
    assert {lane.id for lane in await lanes.all()} == {dirty.id, running.id}


async def test_a_lane_that_was_cut_while_it_was_created_is_listed_and_can_be_closed(
    lanes: Lanes, repository: Path, time: Time
) -> None:
    class Killed(BaseException):
        pass

    def die(folder: str, seed: str) -> Sequence[str]:
        raise Killed

    with pytest.raises(Killed):
        await lanes.create(wish(repository), die)
    (lane,) = await lanes.all()
    assert lane.state == "creating"
    time.at += 121
    (lane,) = await lanes.all()
    assert (lane.state, Path(lane.worktree).is_dir()) == ("error", True)
    await lanes.close(lane.id)
    assert not Path(lane.worktree).exists()


async def test_a_failure_leaves_nothing(lanes: Lanes, repository: Path) -> None:
    with pytest.raises(LaneError):
        await lanes.create(wish(repository), lambda folder, seed: ["x" * 20_000_000])
    assert await lanes.all() == []
    assert git(repository, "branch", "--list", "lane/*") == ""
    assert len(git(repository, "worktree", "list").splitlines()) == 1


async def test_a_checkout_that_was_cut_is_taken_back_with_its_branch(lanes: Lanes, repository: Path) -> None:
    lane = await lanes.add(wish(repository))
    kept = repository / ".git" / "worktrees" / Path(lane.worktree).name
    (kept / "locked").write_text("initializing")  # as git leaves it if it is killed during the checkout
    await lanes.drop(lane)
    assert not Path(lane.worktree).exists()
    assert git(repository, "branch", "--list", "lane/*") == ""
    assert await lanes.all() == []


async def test_a_lane_that_cannot_be_taken_back_stays_in_the_list(lanes: Lanes, repository: Path) -> None:
    lane = await lanes.add(wish(repository))
    shutil.rmtree(repository)
    await lanes.drop(lane)
    (found,) = await lanes.all()
    assert found.state == "error" and "Remove the folder" in found.error
    shutil.rmtree(lane.worktree)
    await lanes.close(lane.id)
    assert await lanes.all() == []


async def test_a_session_starts_while_the_server_of_the_last_one_ends(tmp_path: Path) -> None:
    """In a loop, one of ten starts meets a tmux server that is leaving."""
    names = [f"short-{number}" for number in range(60)]
    for name in names:
        await start_session(name, str(tmp_path), ["sh", "-c", 'echo >> "$1"', "sh", name])
    for name in names:
        assert await until(tmp_path / name) == "\n", "it ran once"


async def test_no_setting_is_on_a_command_line_and_a_chat_finds_its_files(
    lanes: Lanes, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = f"hidden-{os.getpid()}"
    monkeypatch.setenv("PILOTHOUSE__CHANNELS__TELEGRAM__TOKEN", secret)
    monkeypatch.setenv("PILOTHOUSE_TOOLS_SECRET", secret)
    monkeypatch.setenv("PILOTHOUSE_HOME", "/the/home")
    tell = 'printf %s "$PILOTHOUSE_HOME" > seed; while ! [ -e end ]; do sleep 0.05; done'
    lane = await lanes.create(wish(repository), lambda folder, seed: ["sh", "-c", tell])
    assert await until(Path(lane.worktree, "seed")) == "/the/home"
    lines = [read_command_line(entry) for entry in Path("/proc").glob("[0-9]*/cmdline")]
    assert any(lane.session in line for line in lines)
    assert [line for line in lines if secret in line] == []


def read_command_line(path: Path) -> str:
    try:
        return path.read_bytes().decode(errors="replace")
    except OSError:  # it has ended
        return ""


async def test_bad_wishes_say_what_is_wrong(lanes: Lanes, repository: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    for given, words in (
        (wish(repository, backend="zellij"), "'zellij' is not supported"),
        (wish(repository, base="nowhere"), "has no commit 'nowhere'"),
        (wish(repository, base="--help"), "is not the name of a commit"),
        (wish(repository, worktree_path=str(repository)), "exists already"),
        (wish(repository, seed="x" * 100_001), "more than 100,000 bytes"),
        (wish(empty), "is in no git repository"),
        (NewLane(task=" ", folder=str(repository)), "needs a task"),
    ):
        with pytest.raises(LaneError, match=words):
            await lanes.create(given, wait_for_a_line)
    git(empty, "init", "-q")
    with pytest.raises(LaneError, match="has no commits yet"):
        await lanes.create(wish(empty), wait_for_a_line)
    with pytest.raises(LaneError, match="There is no lane 'abc'"):
        await lanes.status("abc")


async def test_no_hook_of_the_repository_runs(lanes: Lanes, repository: Path) -> None:
    hook = repository / ".git" / "hooks" / "post-checkout"
    hook.write_text("#!/bin/sh\ntouch ran\n")
    hook.chmod(0o755)
    lane = await lanes.create(wish(repository), lambda folder, seed: ["true"])
    assert not Path(lane.worktree, "ran").exists()


async def test_the_real_chat_gets_the_first_message_once_and_stays_open(
    lanes: Lanes, repository: Path, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "script.toml").write_text('[[turn]]\nsteps = [ { say = "heard: {prompt}" } ]\n')
    (home / "config.toml").write_text(
        f'[engines.script]\nscript = "{home}/script.toml"\n[gateway]\ndefault_engine = "script"\n'
    )
    env = {**os.environ, "PYTHONPATH": str(SRC), "HOME": str(home), "PILOTHOUSE_HOME": str(home)}

    async def pilothouse(*words: str) -> str:
        argv = [sys.executable, "-m", "pilothouse", "lanes", *words]
        return (await anyio.run_process(argv, cwd=repository, env=env)).stdout.decode()

    lane = msgspec.json.decode(await pilothouse("create", "say", "/stop", "--json"), type=Lane)
    try:
        screen = await until_shown(lane.session, "heard: say /stop")
        assert screen.count("heard:") == 1
        assert f"{lane.id}  running" in await pilothouse()
        assert "Closed." in await pilothouse("close", lane.id, "--force")
        assert "No lanes." in await pilothouse()
    finally:
        await end_session(lane.session)


async def test_a_lane_is_attached_to_in_a_real_terminal_and_answers_there(
    lanes: Lanes, repository: Path
) -> None:
    def echo(folder: str, seed: str) -> Sequence[str]:
        return ["sh", "-c", 'echo "first: $1"; while read line; do echo "heard: $line"; done', "sh", seed]

    lane = await lanes.create(wish(repository, seed="go"), echo)
    await until_shown(lane.session, "first: go")
    screen = Screen()
    person = screen.start(lane.attach_command)
    try:
        await screen.until("first: go")
        screen.write("hello\n")
        await screen.until("heard: hello")
        await anyio.run_process(["tmux", "detach-client", "-s", f"={lane.session}"])
        assert await to_thread.run_sync(person.wait, 60) == 0
        assert (await lanes.status(lane.id)).state == "running"
    finally:
        person.kill()
        person.wait()
        screen.close()
    await lanes.close(lane.id, force=True)
    assert await lanes.all() == []


class Screen:
    """A terminal: what it shows, and what is typed."""

    def __init__(self) -> None:
        self._ours, self.theirs = pty.openpty()
        self._shown = b""

    def start(self, command: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            ["sh", "-c", command],
            stdin=self.theirs,
            stdout=self.theirs,
            stderr=self.theirs,
            env={**os.environ, "TERM": "xterm"},
            start_new_session=True,
        )

    def write(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    async def until(self, words: str) -> None:
        with anyio.fail_after(60):
            while words.encode() not in self._shown:
                await anyio.wait_readable(self._ours)
                self._shown += os.read(self._ours, 65536)

    def close(self) -> None:
        os.close(self._ours)
        os.close(self.theirs)


KILLED = """#!/bin/sh
printf x >> "{count}"
if [ "$(wc -c < "{count}")" -eq {at} ]; then {before} kill -9 $PPID; {after} fi
exec {real} "$@"
"""


@pytest.mark.parametrize("at", range(1, 6))
@pytest.mark.parametrize("done", [False, True])
async def test_kill_9_in_the_middle_leaves_a_lane_that_is_listed_or_nothing(
    tmp_path: Path, repository: Path, at: int, done: bool
) -> None:
    """The creator is killed by the program that it starts as number `at`, before or after that did its work."""
    shims, home = tmp_path / "bin", tmp_path / "home"
    for folder in (shims, home):
        folder.mkdir()
    for name in ("git", "tmux"):
        before, after = (f'{shutil.which(name)} "$@";', "exit;") if done else ("", "exit;")
        text = KILLED.format(
            count=tmp_path / "count", at=at, before=before, after=after, real=shutil.which(name)
        )
        (shims / name).write_text(text)
        (shims / name).chmod(0o755)
    env = {**os.environ, "PATH": f"{shims}:{os.environ['PATH']}", "PILOTHOUSE_HOME": str(home)}
    env = {**env, "PYTHONPATH": str(SRC), "HOME": str(home)}
    with open(os.devnull, "r+b") as null:
        streams = (null.fileno(), null.fileno(), null.fileno())
        words = ("lanes", "create", "work", "--wait")
        with Forked("pilothouse", *words, env=env, cwd=repository, streams=streams) as program:
            code = await to_thread.run_sync(program.wait)
    time = Time()
    lanes = Lanes(home, now=time.now, new_id=lambda: "unused")
    found = await lanes.all()
    try:
        made = git(repository, "worktree", "list").splitlines()[1:]
        assert code == -signal.SIGKILL and len(made) <= len(found) <= 1
        for lane in found:
            time.at = lane.created_at + 121
            assert (await lanes.status(lane.id)).state in ("running", "error", "finished")
            await lanes.close(lane.id, force=True)
        assert len(git(repository, "worktree", "list").splitlines()) == 1
    finally:
        for lane in found:
            await end_session(lane.session)


async def until_shown(session: str, words: str) -> str:
    with anyio.fail_after(60):
        while True:
            done = await anyio.run_process(["tmux", "capture-pane", "-p", "-t", f"={session}:"], check=False)
            if words in (screen := done.stdout.decode()):
                return screen
            await anyio.sleep(0.05)


def test_a_slug_is_short_and_plain() -> None:
    assert slug_of("Fix: the  Parser / ../x") == "fix-the-parser-x"
    assert slug_of("日本") == "lane"
    assert len(slug_of("word " * 50)) <= 40
