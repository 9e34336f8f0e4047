"""A process that many use and one reads: it is ended once, for the first reason, and no writer is hurt by that."""

import anyio
import pytest
from tests.processes.programs import Launch, Program

from pilothouse.processes import Process, SharedProcess, StopDeadlines

pytestmark = pytest.mark.anyio

DEAF = "import time\ntime.sleep(600)"


class Held(SharedProcess[str]):
    """Opens what engines keep to themselves."""

    def __init__(self, process: Process | None = None) -> None:
        super().__init__("it does not read")
        self._process = process

    @property
    def why(self) -> str | None:
        return self._why

    async def read(self) -> None:
        with self._reading:
            await anyio.sleep_forever()

    async def write(self, line: bytes, within_s: float | None = None) -> None:
        await self._write(line, within_s)

    async def expect(self, over: anyio.Event, within_s: float) -> None:
        await self._expect(over, within_s, "it does not obey")


async def test_the_first_reason_stays_and_ends_the_reading() -> None:
    held = Held()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(held.read)
        held.condemn("first")
        held.condemn("second")
    assert (held.alive, held.why) == (False, "first")


async def test_one_that_is_stopped_has_no_reason() -> None:
    held = Held()
    held.stop()
    held.condemn("too late")
    assert held.why is None


async def test_what_is_over_in_time_costs_nobody_the_process() -> None:
    held, over = Held(), anyio.Event()
    over.set()
    await held.expect(over, within_s=20)
    assert held.alive
    await held.expect(anyio.Event(), within_s=0)
    assert held.why == "it does not obey"


async def test_a_child_that_reads_nothing_is_given_up(launch: Launch, program: Program) -> None:
    async with launch(program(DEAF), deadlines=StopDeadlines(input_s=0)) as process:
        held = Held(process)
        await held.write(b"w" * 10_000_000, within_s=0.1)
        assert held.why == "it does not read"
        await held.write(b"and nothing more is written")


async def test_writing_to_a_child_that_ended_is_no_error(launch: Launch, program: Program) -> None:
    async with launch(program("pass")) as process:
        await process.wait()
        held = Held(process)
        await held.write(b"hello")
    assert held.alive, "its reader says how it ended"
