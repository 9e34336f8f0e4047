"""The shapes of this folder's fixtures."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from pilothouse.processes import Process, ProcessLimits, StopDeadlines

Program = Callable[[str], list[str]]
IsAlive = Callable[[int], bool]


class Launch(Protocol):
    def __call__(
        self, argv: list[str], *, limits: ProcessLimits | None = None, deadlines: StopDeadlines | None = None
    ) -> AbstractAsyncContextManager[Process]: ...
