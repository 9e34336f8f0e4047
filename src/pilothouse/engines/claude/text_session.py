"""A leased session in text mode: one process for each turn; one of stream-json where images go along.

Rules: a prompt stands in the command line here, where `@files` and `/commands` work and others may read it, so only an
owner's is taken; nobody can be asked and no call can be held back, so outside of full access Claude can only read;
`leave` frees everything in bounded time.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack

import anyio
from msgspec import Struct

from pilothouse.core.ask import Decision
from pilothouse.core.engine import Blobs
from pilothouse.core.errors import EngineError
from pilothouse.core.event import EngineEvent, Notice, ResumeToken, TurnEnded
from pilothouse.core.ids import AskId
from pilothouse.core.outcome import Failure
from pilothouse.core.turn import Prompt
from pilothouse.engines.claude.keeping import keep_media
from pilothouse.engines.claude.prompting import Prompting
from pilothouse.engines.claude.session import BUSY, ClaudeSession
from pilothouse.engines.claude.text_process import TextProcess

MAX_PROMPT_BYTES = 120_000
"""The system takes 128 KiB for one argument."""

OWNERS_ONLY = Failure(
    "permission",
    "Claude Code runs in text mode here (engines.claude.output), where a message can read files and run commands by "
    "itself. So only an owner's messages are taken.",
)
TOO_LONG = "In text mode a prompt may have {limit:,} bytes, and this one has {size:,}. Send it as a file."
READS_ONLY = (
    "Text mode: nobody can be asked here, so Claude Code can only read. In full access it may do everything."
)


class TextWays(Struct, frozen=True):
    """What a text session may do with its engine. The token is the session's, once there is something to resume."""

    start: Callable[[str, ResumeToken | None], TextProcess]
    stream: Callable[[ResumeToken | None], AbstractAsyncContextManager[ClaudeSession]]


class TextSession:
    accepts_images = True

    def __init__(
        self,
        ways: TextWays,
        prompting: Prompting,
        blobs: Blobs,
        *,
        resume: ResumeToken | None,
        new_uuid: Callable[[], str],
        notices: Sequence[Notice] = (),
    ) -> None:
        self._ways = ways
        self._prompting = prompting
        self._blobs = blobs
        self._resume = resume
        self._new_uuid = new_uuid
        self._notices = notices
        self._process: TextProcess | None = None
        self._streaming: ClaudeSession | None = None
        self._open = AsyncExitStack()
        self._running = False
        self._interrupted = False
        self.completed = False
        """A turn of it was completed."""

    async def run(self, prompt: Prompt) -> AsyncIterator[EngineEvent]:
        if self._running:
            yield TurnEnded("failed", failure=BUSY)
            return
        self._running, self._interrupted = True, False
        streams = await self._prompting.has_blocks(prompt)
        async for event in self._stream(prompt) if streams else self._print(prompt):
            if isinstance(event, TurnEnded):
                self._resume, self._running = event.resume or self._resume, False
                self.completed = self.completed or event.outcome == "completed"
            yield event

    async def interrupt(self) -> None:
        self._interrupted = True
        if self._process is not None:
            self._process.interrupt()
        elif self._streaming is not None:
            await self._streaming.interrupt()

    async def steer(self, prompt: Prompt) -> bool:
        return self._streaming is not None and self._running and await self._streaming.steer(prompt)

    async def answer(self, ask_id: AskId, decision: Decision) -> None:
        if self._streaming is not None:
            await self._streaming.answer(ask_id, decision)

    async def leave(self) -> None:
        with anyio.CancelScope(shield=True):
            await self._end_process()
            await self._end_stream()

    async def _print(self, prompt: Prompt) -> AsyncIterator[EngineEvent]:
        if not prompt.by_owner:
            yield TurnEnded("failed", failure=OWNERS_ONLY)
            return
        message = await self._prompting.compose(prompt, self._new_uuid())
        if (size := len(message.text.encode("utf-8", "replace"))) > MAX_PROMPT_BYTES:
            text = TOO_LONG.format(limit=MAX_PROMPT_BYTES, size=size)
            yield TurnEnded("failed", failure=Failure("bad_request", text))
            return
        await self._end_stream()  # two processes of one session would lose a turn
        process = self._process = self._ways.start(message.text, self._resume)
        if self._interrupted:
            process.interrupt()
        for notice in (*self._notices, *message.notices):
            yield notice
        while (steps := await process.mailbox.get()) is not None:
            for step in steps:
                yield await keep_media(self._blobs, step)
        await self._end_process()

    async def _stream(self, prompt: Prompt) -> AsyncIterator[EngineEvent]:
        """Images cannot stand in a command line."""
        await self._end_stream()
        try:
            self._streaming = await self._open.enter_async_context(self._ways.stream(self._resume))
        except EngineError as error:
            yield TurnEnded("failed", failure=error.failure)
            return
        if self._interrupted:
            await self._streaming.interrupt()
        async for event in self._streaming.run(prompt):
            yield event

    async def _end_process(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.mailbox.discard()
            process.stop()
            await process.gone.wait()

    async def _end_stream(self) -> None:
        self._streaming = None
        await self._open.aclose()
