"""A child's stdout as lines.

Rule: at most one portion's lines wait here, besides the line that is still being read. Leaving the loop and
coming back loses nothing: one process may serve many turns.
"""

from collections import deque
from collections.abc import AsyncIterator

from pilothouse.processes.lines import Line, LineSplitter
from pilothouse.processes.pipes import PipeReader


class LineReader(AsyncIterator[Line]):
    """Iterates over the lines of a pipe. One loop at a time."""

    # A class, not an async generator: a generator that is left early would take its waiting lines with it.

    def __init__(self, pipe: PipeReader, max_line_bytes: int) -> None:
        self._pipe = pipe
        self._splitter = LineSplitter(max_line_bytes)
        self._ready: deque[Line] = deque()
        self._ended = False

    @property
    def waiting(self) -> int:
        """How many lines are read already: those that the next steps of the loop give without waiting."""
        return len(self._ready)

    async def __anext__(self) -> Line:
        while not self._ready:
            if self._ended:
                raise StopAsyncIteration
            await self._fill()
        return self._ready.popleft()

    async def _fill(self) -> None:
        portion = await self._pipe.receive()
        if portion:
            self._ready.extend(self._splitter.feed(portion))
        else:
            self._ended = True
            self._ready.extend(self._splitter.end())
