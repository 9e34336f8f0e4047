"""One child process, from its start to the end of its whole tree.

Rules: it exists inside an `async with`, and nothing of it exists after. Stderr is always drained; stdout is read only
when asked for. Every wait has a deadline, also while the owner is being cancelled.
"""

import os
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from subprocess import Popen
from typing import Generic, Protocol, TypeVar

import anyio

from pilothouse.processes.errors import InputClosed, InputFailed, InputStalled
from pilothouse.processes.leader import start
from pilothouse.processes.life import Life, StopDeadlines, Stopped
from pilothouse.processes.lines import MAX_LINE_BYTES, Line, LineReader
from pilothouse.processes.pipes import TAIL_BYTES, PipeReader, PipeWriter, Tail
from pilothouse.processes.procfs import Marker

PROCESS_MARKER = "PILOTHOUSE_PROCESS"

Reason = TypeVar("Reason")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessLimits:
    """Bounds on what a child can make the gateway keep and wait for."""

    max_line_bytes: int = MAX_LINE_BYTES
    stderr_tail_bytes: int = TAIL_BYTES
    write_s: float = 30.0
    look_every_s: float = 1.0


@asynccontextmanager
async def open_process(
    argv: Sequence[str],
    *,
    cwd: str | os.PathLike[str],
    env: Mapping[str, str],
    limits: ProcessLimits | None = None,
    deadlines: StopDeadlines | None = None,
) -> AsyncGenerator["Process", None]:
    """Start a program; on leaving, stop it with all its descendants. Raises `SpawnFailed`.

    `env` is the child's whole environment (see `allowed_environment`); only a marker is added to it.
    """
    marker = Marker(PROCESS_MARKER, secrets.token_hex(16))
    popen = start(argv, cwd=os.fspath(cwd), env={**env, marker.name: marker.value})
    process = Process(popen, argv[0], marker, limits or ProcessLimits(), deadlines or StopDeadlines())
    failure: Exception | None = None
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(process._run)
            try:
                yield process
            except Exception as error:  # noqa: BLE001 - the caller's, raised below: a group would wrap it
                failure = error
            finally:
                await process._leave()
    finally:
        process._close()
    if failure is not None:
        raise failure


class Process:
    """A running child. Made by `open_process`."""

    def __init__(
        self, popen: Popen[bytes], argv0: str, marker: Marker, limits: ProcessLimits, deadlines: StopDeadlines
    ) -> None:
        assert popen.stdin and popen.stdout and popen.stderr
        self.pid = popen.pid
        self._argv0 = argv0
        self._limits = limits
        self._stdin = PipeWriter(popen.stdin)
        self._stdout = PipeReader(popen.stdout)
        self._stderr = PipeReader(popen.stderr)
        self._lines = LineReader(self._stdout, limits.max_line_bytes)
        self._tail = Tail(limits.stderr_tail_bytes)
        self._life = Life(
            popen, marker, deadlines=deadlines, close_input=self.close_input, when_gone=self._finish_output
        )
        # Cancelling the owner must not cancel the tasks that watch and clean up; `_leave` does that at the very end.
        self._shelter = anyio.CancelScope(shield=True)

    @property
    def exit_code(self) -> int | None:
        """None while it runs; negative if a signal ended it."""
        return self._life.exit_code

    def lines(self) -> LineReader:
        """Read its stdout line by line, to the end. The loop may be left and resumed; one loop at a time.

        Ends with the tree, even if a foreign process holds the pipe open.
        """
        return self._lines

    async def read_output(self) -> bytes:
        """Return the next portion of its stdout as it was written; empty at the end. For a process whose `lines` are not read."""
        return await self._stdout.receive()

    def stderr_tail(self) -> str:
        """Return the end of what it has written to stderr so far."""
        for _ in range(64):  # bounded, because a child may flood
            if not (portion := self._stderr.take()):
                break
            self._tail.feed(portion)
        return self._tail.text()

    async def write(self, data: bytes, *, deadline_s: float | None = None) -> None:
        """Write all of it to stdin. Raises `InputClosed`, or `InputStalled` after the deadline."""
        limit_s = self._limits.write_s if deadline_s is None else deadline_s
        try:
            if self._life.exited.is_set():
                raise BrokenPipeError("it has ended")
            if not self._stdin.offer(data):
                with anyio.fail_after(limit_s):
                    await self._stdin.send(data)
        except BrokenPipeError as error:
            raise InputClosed(
                str(error), argv0=self._argv0, pid=self.pid, exit_code=self.exit_code
            ) from error
        except TimeoutError:
            raise InputStalled(argv0=self._argv0, pid=self.pid, deadline_s=limit_s) from None

    async def write_line(self, data: bytes, *, deadline_s: float | None = None) -> None:
        """Write `data` and a newline."""
        await self.write(data + b"\n", deadline_s=deadline_s)

    def close_input(self) -> None:
        """Close its stdin. Doing so twice is no error."""
        self._stdin.close()

    async def wait(self) -> int:
        """Wait for its end and return the exit code. A child whose stdout is not read may never end."""
        await self._life.exited.wait()
        assert self.exit_code is not None
        return self.exit_code

    async def stop(self, deadlines: StopDeadlines | None = None) -> Stopped:
        """Close its input, then SIGTERM, then SIGKILL to the whole tree; return how it ended.

        Stopping twice is no error. The rest of its stdout can be read afterwards.
        """
        return await self._life.stop(deadlines)

    async def _run(self) -> None:
        with self._shelter:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._life.watch)
                tasks.start_soon(self._life.look, self._limits.look_every_s)
                while portion := await self._stderr.receive():
                    self._tail.feed(portion)

    async def _leave(self) -> None:
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._stdout.discard)
                await self.stop()
                tasks.cancel_scope.cancel()
        self._shelter.cancel()

    def _finish_output(self) -> None:
        self._stdout.finish()
        self._stderr.finish()

    def _close(self) -> None:
        self._stdin.close()
        self._stdout.close()
        self._stderr.close()
        self._life.reap()


class LineSource(Protocol):
    """Lines in order, to the end."""

    @property
    def waiting(self) -> int:
        """Number of lines that can be read without waiting, as far as it is known."""
        ...

    def __aiter__(self) -> AsyncIterator[Line]: ...


class Talker(Protocol):
    """The part of a process that its users share: a child with pipes, or a server behind a socket."""

    @property
    def pid(self) -> int: ...

    @property
    def exit_code(self) -> int | None: ...

    def lines(self) -> LineSource: ...

    def stderr_tail(self) -> str: ...

    async def write_line(self, data: bytes, *, deadline_s: float | None = None) -> None: ...

    async def stop(self, deadlines: StopDeadlines | None = None) -> Stopped: ...


class SharedProcess(Generic[Reason]):
    """A process that several tasks use while one reads it.

    The reader sets `_process`, and reads inside `_reading`. The first reason to end it stays. A writer gets no exception:
    the process is about to end then, and its reader tells everybody.
    """

    def __init__(self, unreachable: Reason) -> None:
        self.alive = True
        self._unreachable = unreachable
        self._why: Reason | None = None
        self._process: Talker | None = None
        self._reading = anyio.CancelScope()

    def condemn(self, why: Reason) -> None:
        """End it now, and keep the reason for its users."""
        if self.alive:
            self._why = why
            self.stop()

    def stop(self) -> None:
        self.alive = False
        self._reading.cancel()

    async def _expect(self, over: anyio.Event, within_s: float, why: Reason) -> None:
        """Wait for the event; if it does not come in time, end the process for all its users."""
        with anyio.move_on_after(within_s):
            await over.wait()
        if not over.is_set():
            self.condemn(why)

    async def _write(self, line: bytes, within_s: float | None = None) -> None:
        if self._process is None or not self.alive:
            return
        try:
            await self._process.write_line(line, deadline_s=within_s)
        except InputStalled:
            self.condemn(self._unreachable)
        except InputFailed:
            pass  # it has ended: the reader sees that too, and knows the exit code
