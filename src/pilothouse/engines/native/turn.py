"""The events of one turn of the native agent: sent to its reader as they come, ended once, counted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import anyio
from anyio.streams.memory import MemoryObjectSendStream
from msgspec.structs import replace

from pilothouse.core.engine import Step
from pilothouse.core.event import (
    EngineEvent,
    ResumeToken,
    SessionStarted,
    TextSet,
    ThinkingDelta,
    TurnEnded,
    UsageChanged,
)
from pilothouse.core.ids import AskId
from pilothouse.core.outcome import Usage
from pilothouse.engines.native.messages import Piece, TextPiece, Tokens
from pilothouse.engines.native.run_log import RunLog
from pilothouse.engines.turn_events import TurnEvents

BUFFER = 256
"""Events that wait for their reader; then the turn itself waits."""


class NativeTurn(TurnEvents):
    """`over` is set once nothing more comes. `closing` is set when the turn takes no more words."""

    def __init__(self, resume: ResumeToken, send: MemoryObjectSendStream[EngineEvent], log: RunLog) -> None:
        super().__init__("The native agent", resume)
        self.log = log
        self.scope = anyio.CancelScope()
        self.over = anyio.Event()
        self.closing = False
        self.started = False
        """People know that the turn began."""
        self.usage = Usage(
            input_tokens=0, output_tokens=0, cache_read_tokens=0, cache_write_tokens=0, steps=0
        )
        self._send = send
        self._sent = self._handled = 0
        self._news = anyio.Event()

    @property
    def _usage_total(self) -> Usage | None:  # pyrefly: ignore[missing-override-decorator]
        return self.usage if self.usage.steps else None

    async def start(self, start: SessionStarted) -> None:
        """Tell people once that the turn began."""
        if not self.started:
            self.started = True
            await self.tell(start)

    async def tell(self, *steps: Step) -> None:
        await self._pass_on(self.emit(steps))

    def note_handled(self) -> None:
        """The reader has come back for more, so it is done with one more event."""
        self._handled += 1
        self._news.set()

    async def settle(self) -> None:
        """Wait until the reader is done with everything that it was told: it may have to store it."""
        wanted = self._sent
        while self._handled < wanted:
            if self._news.is_set():
                self._news = anyio.Event()
            await self._news.wait()

    async def close_ask(self, id: AskId) -> None:
        """Take back a question that needs no answer any more."""
        await self._pass_on(self.withdraw([id]))

    async def say(self, block: str, piece: Piece) -> None:
        """Pass on a piece of what the model says."""
        if isinstance(piece, TextPiece):
            await self.tell(*self._add_text(f"{block}.{piece.index}", piece.text))
        else:
            await self.tell(ThinkingDelta(piece.text))

    async def withdraw_text(self, block: str) -> None:
        """Take back what was said in a request that is made again."""
        for id in [id for id in self._blocks if id.startswith(f"{block}.")]:
            del self._blocks[id]
            await self.tell(TextSet(id, ""))

    def text_of(self, block: str) -> str:
        """Return what was said in one request."""
        return "".join(text for id, text in self._blocks.items() if id.startswith(f"{block}."))

    @property
    def has_text(self) -> bool:
        return any(text.strip() for text in self._blocks.values())

    async def count(self, tokens: Tokens, cost_usd: float | None, window: int) -> None:
        """Add one request to a model with a window of so many tokens. Once a cost is unknown, that of the turn is."""
        usage = self.usage
        first = not usage.steps
        known = cost_usd is not None and (first or usage.cost_usd is not None)
        self.usage = replace(
            usage,
            cost_usd=(usage.cost_usd or 0.0) + (cost_usd or 0.0) if known else None,
            input_tokens=(usage.input_tokens or 0) + tokens.input,
            output_tokens=(usage.output_tokens or 0) + tokens.output,
            cache_read_tokens=(usage.cache_read_tokens or 0) + tokens.cache_read,
            cache_write_tokens=(usage.cache_write_tokens or 0) + tokens.cache_write,
            steps=(usage.steps or 0) + 1,
            estimated=tokens.cost_usd is None if known else None,
            context_tokens=tokens.total,
            context_window=window,
        )
        await self.tell(UsageChanged(self.usage))

    async def close(self, end: TurnEnded) -> None:
        """Send the end, and nothing after it."""
        try:
            if not self.ended:
                await self._pass_on(self._finish(end))
        finally:
            self._send.close()
            self.over.set()

    async def _pass_on(self, steps: Iterable[Step] | Sequence[Step]) -> None:
        for step in steps:
            if isinstance(step, EngineEvent):
                self._sent += 1
                try:
                    await self._send.send(step)
                except anyio.get_cancelled_exc_class():
                    self._sent -= 1
                    raise
                except anyio.BrokenResourceError:  # the session is left while its turn ends
                    return
