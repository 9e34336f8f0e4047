"""What a child writes: whole, bounded, never lost, never blocking."""

import resource

import anyio
import pytest
from tests.processes.programs import Launch, Program

from pilothouse.processes import Process, ProcessLimits, StopDeadlines

pytestmark = pytest.mark.anyio

MB = 1_000_000


async def read_all(process: Process) -> list[bytes]:
    return [line.data async for line in process.lines()]


async def test_a_line_of_64_mb_passes(launch: Launch, program: Program) -> None:
    argv = program("import sys; sys.stdout.write('x' * 64_000_000 + '\\nafter\\n')")
    async with launch(argv) as process:
        big, after = [line async for line in process.lines()]
    assert (len(big.data), big.cut, after.data) == (64 * MB, 0, b"after")


async def test_a_longer_line_is_cut_and_the_next_is_intact(launch: Launch, program: Program) -> None:
    argv = program("import sys; sys.stdout.write('x' * 3_000_000 + '\\nafter\\n')")
    async with launch(argv, limits=ProcessLimits(max_line_bytes=MB)) as process:
        big, after = [line async for line in process.lines()]
    assert (len(big.data), big.cut) == (MB, 2 * MB)
    assert (after.data, after.cut) == (b"after", 0)


async def test_a_flood_of_100_mb_is_not_kept(launch: Launch, program: Program) -> None:
    argv = program("import sys\nfor _ in range(100): sys.stdout.write(('y' * 99 + '\\n') * 10_000)")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    async with launch(argv) as process:
        size = 0
        async for line in process.lines():
            size += len(line.data) + 1
    assert size == 100 * MB
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000  # KiB


async def test_a_child_that_nobody_reads_is_held_back(launch: Launch, program: Program) -> None:
    argv = program(
        "import sys, os\nos.set_blocking(1, False)\nn = 0\n"
        "try:\n while True: n += os.write(1, b'z' * 4096)\n"
        "except BlockingIOError: sys.stderr.write(f'{n}\\n')"
    )
    async with launch(argv) as process:
        await process.wait()
        assert int(process.stderr_tail()) <= MB


async def test_the_last_line_needs_no_newline(launch: Launch, program: Program) -> None:
    async with launch(program("print('one'); print('two', end='')")) as process:
        assert await read_all(process) == [b"one", b"two"]


async def test_a_character_written_in_two_halves_is_whole(launch: Launch, program: Program) -> None:
    argv = program(
        "import os, sys\nos.write(1, b'caf\\xc3')\nsys.stdin.readline()\nos.write(1, b'\\xa9\\n\\xff\\n')"
    )
    async with launch(argv) as process:
        with anyio.move_on_after(0.2):
            await anext(process.lines())
        await process.write_line(b"go on")
        assert [line.text async for line in process.lines()] == ["café", "�"]


async def test_output_of_a_child_that_is_already_gone_is_not_lost(launch: Launch, program: Program) -> None:
    async with launch(program("print('\\n'.join(map(str, range(5000))))")) as process:
        assert await process.wait() == 0
        assert await read_all(process) == [str(number).encode() for number in range(5000)]


async def test_a_loop_may_be_left_and_taken_up_again(launch: Launch, program: Program) -> None:
    async with launch(program("print('a\\nb\\nc')")) as process:
        async for line in process.lines():
            assert line.data == b"a"
            break
        assert await read_all(process) == [b"b", b"c"]


async def test_a_cancelled_read_loses_nothing(launch: Launch, program: Program) -> None:
    argv = program("import sys\nprint('first ', end='', flush=True)\nsys.stdin.readline()\nprint('second')")
    async with launch(argv) as process:
        with anyio.move_on_after(0.2):
            await anext(process.lines())
        await process.write_line(b"")
        assert await read_all(process) == [b"first second"]


async def test_a_stderr_flood_does_not_block_stdout(launch: Launch, program: Program) -> None:
    argv = program(
        "import sys\nfor _ in range(50): sys.stderr.write('e' * 1_000_000)\n"
        "sys.stderr.write('\\nthe reason\\n'); print('done')"
    )
    async with launch(argv, limits=ProcessLimits(stderr_tail_bytes=1000)) as process:
        assert await read_all(process) == [b"done"]
        await process.wait()
        tail = process.stderr_tail()
    assert tail.endswith("e\nthe reason\n")
    assert len(tail) == 1000
    assert process.stderr_tail() == tail


async def test_the_tail_starts_with_a_whole_character(launch: Launch, program: Program) -> None:
    argv = program("import os; os.write(2, 'é'.encode() * 5000)")
    async with launch(argv, limits=ProcessLimits(stderr_tail_bytes=101)) as process:
        await process.wait()
        assert process.stderr_tail() == "é" * 50


async def test_two_floods_leave_the_loop_to_others(launch: Launch, program: Program) -> None:
    argv = program(
        "import sys\nwhile True: sys.stdout.write('f' * 9999 + '\\n'); sys.stderr.write('g' * 9999)"
    )
    async with launch(argv, deadlines=StopDeadlines(input_s=0)) as process:
        with anyio.move_on_after(0.3) as scope:
            async for _ in process.lines():
                pass
    assert scope.cancelled_caught
