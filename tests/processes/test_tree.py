"""The parts below: identity against reused pids, the reduced tree, adopted orphans."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.processes.programs import Program

from pilothouse.processes.leader import wait_reaped
from pilothouse.processes.life import clear
from pilothouse.processes.procfs import ProcessId, ancestors, read_process
from pilothouse.processes.tree import GroupTree, ProcessTree, send_signal

pytestmark = pytest.mark.anyio


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as child:
        yield child
        child.kill()


def test_a_later_process_with_the_same_pid_is_not_signalled(sleeper: subprocess.Popen[bytes]) -> None:
    info = read_process(sleeper.pid)
    assert info is not None
    assert not send_signal(ProcessId(sleeper.pid, info.id.started + 1), signal.SIGKILL)
    assert sleeper.poll() is None
    assert send_signal(info.id, signal.SIGKILL)
    assert sleeper.wait() == -signal.SIGKILL


def test_a_name_with_brackets_is_read_right(tmp_path: Path) -> None:
    program = tmp_path / "a) R 1 (b"
    program.symlink_to("/bin/sleep")
    with subprocess.Popen([program, "600"]) as child:
        info = read_process(child.pid)
        child.kill()
    assert info is not None
    assert info.parent == os.getpid()


def test_the_line_of_ancestors_starts_with_us() -> None:
    assert {os.getpid(), os.getppid()} <= ancestors(os.getpid())


def test_a_tree_does_not_take_the_exit_status_of_its_leader(sleeper: subprocess.Popen[bytes]) -> None:
    tree = ProcessTree(sleeper.pid)
    tree.signal(signal.SIGKILL)
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
    assert tree.alive() == ()
    assert sleeper.wait() == -signal.SIGKILL


def start_group(argv: list[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)


async def test_a_group_is_ended_where_proc_is_missing(program: Program) -> None:
    argv = program(
        "import subprocess\nsubprocess.Popen(['sleep', '600'], stdin=-3)\nprint('up')\ninput()\nraise SystemExit(4)"
    )
    with start_group(argv) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdout.readline()
        child.stdin.close()
        assert await wait_reaped(child) == 1
        assert await clear(GroupTree(child.pid), terminate_s=20, kill_s=20) == ()
        assert child.stdout.read() == b""  # nobody holds the pipe any more


# Runs by itself, for being a subreaper cannot be taken back.
ADOPTION = """
import os, subprocess, sys, anyio
from pilothouse.processes import Marker, become_subreaper, collect_orphans
from pilothouse.processes.procfs import read_process
from pilothouse.processes.tree import ProcessTree

ORPHAN = "import os; print(os.getpid(), flush=True); os.read(0, 1)"
marker = Marker("MARK", "me")

def start_orphan(read_end, write_end):
    command = ["/bin/sh", "-c", f"setsid {sys.executable} -S -c '{ORPHAN}' <&{read_end} &"]
    leader = subprocess.Popen(command, env={"MARK": "me"}, stdout=-1, pass_fds=[read_end], start_new_session=True)
    orphan = int(leader.stdout.readline())
    os.waitid(os.P_PID, leader.pid, os.WEXITED | os.WNOWAIT)
    assert read_process(orphan).parent == os.getpid()
    return leader, orphan

def end_orphan(orphan, write_end):
    os.write(write_end, b"x")
    os.waitid(os.P_PID, orphan, os.WEXITED | os.WNOWAIT)

async def main():
    assert become_subreaper()
    own = subprocess.Popen([sys.executable, "-c", "raise SystemExit(9)"])
    ends = os.pipe()
    leader, orphan = start_orphan(*ends)
    tree = ProcessTree(leader.pid, marker)
    tree.refresh()
    assert [member.pid for member in tree.alive()] == [orphan]
    end_orphan(orphan, ends[1])
    assert tree.alive() == ()
    assert read_process(orphan) is None
    assert leader.wait() == 0
    print("a known orphan is buried")

    leader, orphan = start_orphan(*ends)
    assert leader.wait() == 0
    end_orphan(orphan, ends[1])
    os.waitid(os.P_PID, own.pid, os.WEXITED | os.WNOWAIT)
    with anyio.move_on_after(0.5):
        await collect_orphans(patience_s=60)
    assert read_process(orphan) is not None
    with anyio.move_on_after(0.5):
        await collect_orphans(patience_s=0)
    assert read_process(orphan) is None
    print("an unknown one, after a while")
    assert own.wait() == 9
    print("our own child is not")

anyio.run(main)
"""


def test_adopted_orphans_are_buried_and_nobody_elses_children(program: Program) -> None:
    argv = program(ADOPTION)
    argv.remove("-S")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=100, check=False)
    assert done.stdout.splitlines() == [
        "a known orphan is buried",
        "an unknown one, after a while",
        "our own child is not",
    ], done.stderr


# Runs by itself, for it takes all descriptors.
EXHAUSTION = """
import os, resource, sys, anyio
from pilothouse.processes import Ending, StopDeadlines, open_process

STUBBORN = "import signal, time; signal.signal(15, 1); print('up', flush=True); time.sleep(600)"
LEADER = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {STUBBORN!r}]); {STUBBORN}"

async def main():
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    deadlines = StopDeadlines(input_s=0.1, terminate_s=0.1, kill_s=20, orphans_s=0.1)
    async with open_process([sys.executable, "-c", LEADER], cwd=".", env={}, deadlines=deadlines) as process:
        for _ in range(2): await anext(process.lines())
        taken = []
        try:
            while True: taken.append(os.dup(0))
        except OSError:
            pass
        stopped = await process.stop()
        print(stopped.ending, [line async for line in process.lines()])

anyio.run(main)
"""


def test_a_tree_is_ended_although_no_descriptor_is_left(program: Program) -> None:
    argv = program(EXHAUSTION)
    argv.remove("-S")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=100, check=False)
    assert done.stdout == "killed []\n", done.stderr
