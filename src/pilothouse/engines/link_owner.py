"""The processes of an engine whose sessions share them: they run in its task group, so leaving the engine ends them all."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

import anyio
from anyio.abc import TaskGroup

from pilothouse.core.errors import EngineError
from pilothouse.core.isolation import Isolation
from pilothouse.core.outcome import Failure
from pilothouse.engines.link import Link, Port

NOT_RUNNING = Failure("bad_request", "The engine is not running; enter it first.")
OTHER_ISOLATION = Failure(
    "crash",
    "The isolation of this folder was changed, so the engine's process with the former one was ended.",
)

L = TypeVar("L", bound=Link[Any, Any])


class LinkOwner(Generic[L]):
    def __init__(self) -> None:
        self._tasks: TaskGroup | None = None
        self._links: set[L] = set()

    async def __aenter__(self) -> Self:
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        tasks, self._tasks = self._tasks, None
        for link in self._links:
            link.stop()
        assert tasks is not None, "an engine is left once"
        if isinstance(error, Exception):  # a task group would wrap the caller's own error
            return await tasks.__aexit__(None, None, None)
        return await tasks.__aexit__(kind, error, trace)

    def _begin(self, link: L, *beside: Callable[[], Coroutine[Any, Any, None]]) -> L:
        """Run a process, and tasks beside it. Raises `EngineError` while the engine is not entered."""
        if self._tasks is None:
            raise EngineError(NOT_RUNNING)
        self._links.add(link)
        self._tasks.start_soon(self._run_link, link)
        for task in beside:
            self._tasks.start_soon(task)
        return link

    async def _end_others(self, links: Iterable[L], isolation: Isolation) -> None:
        """End a workspace's processes that were started with another isolation, also those with running turns."""
        others = [link for link in links if link.alive and link.isolation != isolation]
        for link in others:
            link.condemn(OTHER_ISOLATION)
        for link in others:
            await link.ended.wait()

    async def _run_link(self, link: L) -> None:
        try:
            await link.run()
        finally:
            self._links.discard(link)

    def _expect_end(self, link: L, port: Port[Any, Any]) -> None:
        if self._tasks is not None:
            self._tasks.start_soon(link.expect_end, port)
