"""What we write to a child: whole, with a deadline, and a clear error when nobody takes it."""

import anyio
import pytest
from tests.processes.programs import Launch, Program

from pilothouse.processes import InputClosed, InputStalled, Process, StopDeadlines

pytestmark = pytest.mark.anyio

ECHO = "import sys\nfor line in sys.stdin: print(line, end='')\nprint('end')"
DEAF = "import time\nprint('up')\ntime.sleep(600)"
DEAF_STOP = StopDeadlines(input_s=0)


async def test_lines_go_there_and_back(launch: Launch, program: Program) -> None:
    async with launch(program(ECHO)) as process:
        await process.write_line(b"one")
        assert (await anext(process.lines())).data == b"one"
        process.close_input()
        process.close_input()
        assert [line.data async for line in process.lines()] == [b"end"]
        assert await process.wait() == 0


async def test_ten_megabytes_pass_while_the_echo_is_read(launch: Launch, program: Program) -> None:
    big = b"w" * 10_000_000
    async with launch(program(ECHO)) as process, anyio.create_task_group() as tasks:
        tasks.start_soon(process.write_line, big)
        assert (await anext(process.lines())).data == big


async def test_concurrent_writers_do_not_mix(launch: Launch, program: Program) -> None:
    letters = [bytes([65 + number]) * 300_000 for number in range(4)]
    async with launch(program(ECHO)) as process, anyio.create_task_group() as tasks:
        for letter in letters:
            tasks.start_soon(process.write_line, letter)
        got = {(await anext(process.lines())).data for _ in letters}
    assert got == set(letters)


async def test_writing_to_a_child_that_ended_says_so(launch: Launch, program: Program) -> None:
    async with launch(program("raise SystemExit(3)")) as process:
        await process.wait()
        with pytest.raises(InputClosed, match="exit code 3") as caught:
            await process.write_line(b"hello")
    assert (caught.value.exit_code, caught.value.pid) == (3, process.pid)


async def test_writing_to_a_child_that_closed_its_input_says_so(launch: Launch, program: Program) -> None:
    argv = program("import os, time\nos.close(0)\nprint('closed')\ntime.sleep(600)")
    async with launch(argv, deadlines=DEAF_STOP) as process:
        await anext(process.lines())
        with pytest.raises(InputClosed, match="no longer reads"):
            await process.write_line(b"hello")


async def test_writing_after_we_closed_the_input_says_so(launch: Launch, program: Program) -> None:
    async with launch(program(DEAF), deadlines=DEAF_STOP) as process:
        process.close_input()
        with pytest.raises(InputClosed, match="was closed"):
            await process.write_line(b"hello")


async def refused_write(process: Process) -> None:
    with pytest.raises(InputClosed, match="was closed"):
        await process.write(b"x" * 1_000_000)


async def test_closing_the_input_wakes_a_waiting_writer(launch: Launch, program: Program) -> None:
    async with launch(program(DEAF), deadlines=DEAF_STOP) as process:
        await anext(process.lines())
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(refused_write, process)
            await anyio.wait_all_tasks_blocked()
            process.close_input()


async def test_a_deaf_child_runs_into_the_deadline_and_the_torn_input_is_not_used_again(
    launch: Launch, program: Program
) -> None:
    async with launch(program(DEAF), deadlines=DEAF_STOP) as process:
        await anext(process.lines())
        with pytest.raises(InputStalled, match=r"0\.2 s"):
            await process.write(b"x" * 1_000_000, deadline_s=0.2)
        with pytest.raises(InputClosed, match="cut short"):
            await process.write_line(b"more")
