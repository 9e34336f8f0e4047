"""Holds a process that others use while one task reads it: whoever gives it up ends it once, and says why.

Rules: the first reason stays; whoever writes is never told of trouble by an exception, for the process is on its way
out then, and its reader says so to everybody.
"""

from __future__ import annotations

from typing import Generic, TypeVar

import anyio

from pilothouse.processes.errors import InputFailed, InputStalled
from pilothouse.processes.process import Process

Why = TypeVar("Why")


class Leash(Generic[Why]):
    """Whoever reads it sets `_process`, and reads inside `_reading`."""

    def __init__(self, unreachable: Why) -> None:
        self.alive = True
        self._unreachable = unreachable
        self._why: Why | None = None
        self._process: Process | None = None
        self._reading = anyio.CancelScope()

    def condemn(self, why: Why) -> None:
        """Ends it now, and has its users told why."""
        if self.alive:
            self._why = why
            self.stop()

    def stop(self) -> None:
        self.alive = False
        self._reading.cancel()

    async def _expect(self, over: anyio.Event, within_s: float, why: Why) -> None:
        """Gives what runs on it its time to be over, then condemns it, whoever else uses it."""
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
