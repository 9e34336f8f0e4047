"""One child process, from its start to the end of its whole tree.

Rules: it exists inside an `async with`, and nothing of it exists after; stderr is always drained; stdout is
read only when asked for; every wait of ours has a deadline, also while we are being cancelled.
"""

import os
import secrets
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from subprocess import Popen

import anyio

from pilothouse.processes.errors import InputClosed, InputStalled
from pilothouse.processes.leader import start
from pilothouse.processes.life import Life, StopDeadlines, Stopped
from pilothouse.processes.lines import MAX_LINE_BYTES, LineReader
from pilothouse.processes.pipes import TAIL_BYTES, PipeReader, PipeWriter, Tail
from pilothouse.processes.procfs import Marker

PROCESS_MARKER = "PILOTHOUSE_PROCESS"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessLimits:
    """Bounds on what a child may make us keep, and wait for."""

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
            tasks.start_soon(process._tend)
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
        # Whoever cancels our owner must not cancel those who watch and clean up: `_leave` does, at the very
        # end.
        self._shelter = anyio.CancelScope(shield=True)

    @property
    def exit_code(self) -> int | None:
        """None while it runs; negative when a signal ended it."""
        return self._life.exit_code

    def lines(self) -> LineReader:
        """Its stdout, line by line, to the end. May be left and taken up again; one loop at a time.

        Ends when the tree is gone, even if a stranger holds the pipe open.
        """
        return self._lines

    def stderr_tail(self) -> str:
        """The last that it wrote to stderr, up to this moment."""
        for _ in range(64):  # bounded: a child that floods would keep us here
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
        """Tell it that nothing more will come. Doing so twice is no error."""
        self._stdin.close()

    async def wait(self) -> int:
        """Wait for its end, whoever holds its pipes. A child whose stdout nobody reads may never end."""
        await self._life.exited.wait()
        assert self.exit_code is not None
        return self.exit_code

    async def stop(self, deadlines: StopDeadlines | None = None) -> Stopped:
        """Close its input, then SIGTERM, then SIGKILL to the whole tree; return how it ended.

        Stopping twice is no error. What is still in its stdout can be read afterwards.
        """
        return await self._life.stop(deadlines)

    async def _tend(self) -> None:
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
