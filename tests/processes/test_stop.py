"""Ending: asked first, then forced, and nothing of the tree stays, wherever it went."""

import os
import signal
import sys
from pathlib import Path

import anyio
import pytest
from tests.processes.programs import IsAlive, Launch, Program

from pilothouse.processes import Ending, Process, StopDeadlines

pytestmark = pytest.mark.anyio

# Only what is waited for in vain is short: a busy machine may take its time for the rest.
PATIENT = StopDeadlines(input_s=20, terminate_s=20, kill_s=20)
DEAF = StopDeadlines(input_s=0.2, terminate_s=20, kill_s=20)
QUICK = StopDeadlines(input_s=0.2, terminate_s=0.5, kill_s=20, orphans_s=0.5)
SLEEP = "import time; time.sleep(600)"
STUBBORN = "import signal, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"

# Leaves parent, group and session behind, as a daemon does, and says its pid on the pipe that it inherited.
ESCAPE = """
import os, signal, sys, time
def escape():
    if os.fork():
        os.wait()
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    program = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
    os.execv(sys.executable, [sys.executable, "-S", "-c", program])
"""


async def pids(process: Process, count: int) -> list[int]:
    return [int((await anext(process.lines())).data) for _ in range(count)]


async def test_a_polite_child_ends_when_its_input_closes(launch: Launch, program: Program) -> None:
    async with launch(
        program("import sys; sys.stdin.read(); raise SystemExit(7)"), deadlines=PATIENT
    ) as process:
        stopped = await process.stop()
    assert (stopped.ending, stopped.exit_code, stopped.survivors) == (Ending.INPUT_CLOSED, 7, ())


async def test_a_child_that_ended_by_itself_says_so(launch: Launch, program: Program) -> None:
    async with launch(program("raise SystemExit(7)")) as process:
        await process.wait()
        stopped = await process.stop()
    assert (stopped.ending, stopped.exit_code) == (Ending.EXITED, 7)


async def test_a_child_that_minds_no_input_is_terminated(launch: Launch, program: Program) -> None:
    async with launch(program(SLEEP), deadlines=DEAF) as process:
        stopped = await process.stop()
    assert (stopped.ending, stopped.exit_code) == (Ending.TERMINATED, -signal.SIGTERM)


async def test_a_child_that_ignores_sigterm_is_killed(launch: Launch, program: Program) -> None:
    async with launch(program(STUBBORN), deadlines=QUICK) as process:
        await anext(process.lines())
        stopped = await process.stop()
    assert (stopped.ending, stopped.exit_code) == (Ending.KILLED, -signal.SIGKILL)


async def test_a_suspended_child_hears_sigterm(launch: Launch, program: Program) -> None:
    argv = program("import os, signal\nprint('up')\nos.kill(os.getpid(), signal.SIGSTOP)")
    async with launch(argv, deadlines=DEAF) as process:
        await anext(process.lines())
        stopped = await process.stop()
    assert stopped.ending is Ending.TERMINATED


async def test_each_member_hears_sigterm_once(launch: Launch, program: Program) -> None:
    argv = program(
        "import signal, time\ncount = 0\ndef heard(*_):\n global count\n count += 1\n"
        "signal.signal(signal.SIGTERM, heard)\nprint('up')\n"
        "while not count: time.sleep(0.01)\ntime.sleep(0.2)\nprint(count)"
    )
    async with launch(argv, deadlines=DEAF) as process:
        await anext(process.lines())
        await process.stop()
        assert [line.data async for line in process.lines()] == [b"1"]


async def test_stopping_twice_gives_the_same_answer(launch: Launch, program: Program) -> None:
    async with launch(program(SLEEP), deadlines=QUICK) as process:
        first = await process.stop()
        assert await process.stop() == first


async def test_what_it_says_while_ending_can_still_be_read(launch: Launch, program: Program) -> None:
    async with launch(program("import sys; sys.stdin.read(); print('bye')"), deadlines=PATIENT) as process:
        await process.stop()
        assert [line.data async for line in process.lines()] == [b"bye"]


async def test_a_child_that_writes_much_while_leaving_is_not_killed(launch: Launch, program: Program) -> None:
    argv = program("import sys; sys.stdin.read(); print('l' * 1_000_000)")
    async with launch(argv, deadlines=PATIENT) as process:
        pass
    assert process.exit_code == 0


async def test_a_stubborn_grandchild_that_escaped_is_gone_after_a_stop(
    launch: Launch, program: Program, is_alive: IsAlive
) -> None:
    argv = program(ESCAPE + "escape(); escape(); time.sleep(600)")
    async with launch(argv, deadlines=QUICK) as process:
        escaped = await pids(process, 2)
        assert all(map(is_alive, escaped))
        stopped = await process.stop()
        assert not any(map(is_alive, escaped))
    assert stopped.survivors == ()


async def test_a_stubborn_grandchild_that_escaped_is_gone_after_the_leader_ended(
    launch: Launch, program: Program, is_alive: IsAlive
) -> None:
    async with launch(program(ESCAPE + "escape(); input(); raise SystemExit(5)"), deadlines=QUICK) as process:
        [escaped] = await pids(process, 1)
        await process.write_line(b"")
        with anyio.fail_after(60):
            assert [line async for line in process.lines()] == []
        assert (await process.stop()).ending is Ending.EXITED
        assert not is_alive(escaped)


async def test_a_grandchild_without_our_marker_is_known_by_its_birth(
    launch: Launch, program: Program, is_alive: IsAlive
) -> None:
    source = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
    argv = program(
        "import subprocess, sys, time\n"
        f"subprocess.Popen([sys.executable, '-S', '-c', {source!r}], env={{}}, start_new_session=True)\ntime.sleep(600)"
    )
    async with launch(argv, deadlines=QUICK) as process:
        [escaped] = await pids(process, 1)
        await process.stop()
        assert not is_alive(escaped)


async def test_waiting_does_not_hang_while_a_grandchild_holds_the_pipe(
    launch: Launch, program: Program
) -> None:
    argv = program(f"import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', {STUBBORN!r}])\ninput()")
    async with launch(argv, deadlines=QUICK) as process:
        assert (await anext(process.lines())).data == b"up"
        await process.write_line(b"")
        with anyio.fail_after(60):
            assert await process.wait() == 0


async def test_the_end_comes_although_a_stranger_holds_the_pipe(launch: Launch, program: Program) -> None:
    async with launch(program("import os; print(os.getpid()); input(); print('last')")) as process:
        [pid] = await pids(process, 1)
        # We are no descendant of the child, so the tree does not know this holder of its stdout.
        held = os.open(f"/proc/{pid}/fd/1", os.O_WRONLY)
        try:
            await process.write_line(b"")
            with anyio.fail_after(60):
                assert [line.data async for line in process.lines()] == [b"last"]
        finally:
            os.close(held)


async def test_cancellation_leaves_nothing(launch: Launch, program: Program, is_alive: IsAlive) -> None:
    found: list[int] = []
    argv = program(ESCAPE + "escape(); print(os.getpid()); time.sleep(600)")
    with anyio.CancelScope() as scope:
        async with launch(argv, deadlines=QUICK) as process:
            found += await pids(process, 2)
            scope.cancel()
            await anyio.sleep_forever()
    assert scope.cancelled_caught
    assert len(found) == 2
    assert not any(map(is_alive, found))


async def test_cancellation_before_the_first_step_leaves_nothing(
    launch: Launch, program: Program, is_alive: IsAlive
) -> None:
    with anyio.CancelScope() as scope:
        scope.cancel()
        async with launch(program(STUBBORN), deadlines=QUICK) as process:
            await anyio.lowlevel.checkpoint()
    assert not is_alive(process.pid)


async def test_a_stop_that_is_cancelled_is_finished_on_leaving(
    launch: Launch, program: Program, is_alive: IsAlive
) -> None:
    async with launch(program(STUBBORN), deadlines=QUICK) as process:
        await anext(process.lines())
        with anyio.move_on_after(0.1):
            await process.stop()
        assert is_alive(process.pid)
    assert not is_alive(process.pid)
    assert process.exit_code == -signal.SIGKILL


async def test_a_child_that_keeps_forking_is_ended(
    launch: Launch, program: Program, tmp_path: Path, is_alive: IsAlive
) -> None:
    argv = program(
        "import os, signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('up')\n"
        "for _ in range(300):\n"
        " if os.fork(): time.sleep(0.005); os._exit(0)\n"
        " os.setsid()\n"
        "open('last', 'w').write(str(os.getpid()))\n"
        "time.sleep(600)"
    )
    async with launch(argv, deadlines=QUICK) as process:
        await anext(process.lines())
        stopped = await process.stop()
    assert stopped.survivors == ()
    last = tmp_path / "last"
    assert not last.exists() or not is_alive(int(last.read_text()))


async def test_an_ended_child_leaves_no_zombie(launch: Launch) -> None:
    async with launch([sys.executable, "-c", ""]) as process:
        await process.wait()
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, 0)
