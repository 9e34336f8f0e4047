"""One leased session: turns in, events out.

Rules: once `run` has begun, a failure is an event. A process that dies or falls silent before anything with side effects
began is replaced once, and the turn begins again on a process of its own. `leave` frees everything in bounded time, also
when it is cancelled.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import anyio
from msgspec import Struct

from pilothouse.core.ask import Decision
from pilothouse.core.engine import Blobs, Step
from pilothouse.core.errors import EngineError
from pilothouse.core.event import EngineEvent, Notice, TurnEnded
from pilothouse.core.ids import AskId
from pilothouse.core.outcome import Failure
from pilothouse.core.turn import Prompt
from pilothouse.engines.claude.process import ClaudeProcess
from pilothouse.engines.claude.prompt import PromptComposer
from pilothouse.engines.claude.turn_stream import TurnStream
from pilothouse.engines.media import keep_media
from pilothouse.engines.narration import Narration
from pilothouse.engines.turn_loop import BUSY

AGAIN = "Claude Code stopped unexpectedly before it had done anything; it was started again."

SPENT = frozenset({"auth", "budget", "stale_session", "permission"})
"""Failures after which a process is of no more use: it has an old login, or an old budget."""


class PoolAccess(Struct, frozen=True):
    """The part of the engine's pool that a session uses."""

    lease: Callable[[], Awaitable[ClaudeProcess]]
    again: Callable[[ClaudeProcess], Awaitable[ClaudeProcess]]
    give_back: Callable[[ClaudeProcess, bool], Awaitable[None]]
    watch: Callable[[ClaudeProcess], None]


class ClaudeSession:
    """With `wakes`, it reads a turn that its process began by itself; `settled` is the whole stream of one that can no
    longer be read. With `tool_aware`, text waits for tools."""

    detects_hangs = True
    accepts_images = True

    def __init__(
        self,
        pool: PoolAccess,
        composer: PromptComposer,
        blobs: Blobs,
        *,
        hang_after_s: float,
        new_uuid: Callable[[], str],
        notices: Callable[[], Sequence[Notice]] = tuple,
        wakes: bool = False,
        settled: Sequence[EngineEvent] = (),
        tool_aware: bool = False,
    ) -> None:
        self._pool = pool
        self._composer = composer
        self._blobs = blobs
        self._hang_after_s = hang_after_s
        self._new_uuid = new_uuid
        self._notices = notices
        self._wakes = wakes
        self._settled = settled
        self._tool_aware = tool_aware
        self._narration: Narration | None = None
        self.completed = False
        """True once a turn of this session has completed."""
        self._process: ClaudeProcess | None = None
        self._stream: TurnStream | None = None
        self._retried = False
        self._steered: list[Prompt] = []
        """Messages that were given to the running turn."""
        self._broken = False

    async def run(self, prompt: Prompt) -> AsyncIterator[EngineEvent]:
        if self._running:
            yield TurnEnded("failed", failure=BUSY)
            return
        if self._settled:
            for event in self._settled:
                yield event
            return
        steps: Sequence[Step] | None = await self._begin(prompt)
        while steps is not None:
            for step in steps:
                event = await keep_media(self._blobs, step)
                yield event
                if isinstance(event, TurnEnded):
                    return
            steps = await self._next(prompt)

    async def interrupt(self) -> None:
        process, stream = self._process, self._stream
        if process is None or stream is None or stream.ended:
            return
        stream.interrupted = True
        self._pool.watch(process)
        await process.interrupt()

    async def steer(self, prompt: Prompt) -> bool:
        process, stream = self._process, self._stream
        if process is None or stream is None or stream.ended or stream.interrupted or not process.alive:
            return False
        uuid = self._new_uuid()
        message = await self._composer.compose(prompt, uuid)
        if stream.ended:
            return False
        stream.push(uuid)
        await process.push(message.line)
        if process.alive:
            self._steered.append(prompt)
        return process.alive

    async def answer(self, ask_id: AskId, decision: Decision) -> None:
        if self._process is not None:
            await self._process.answer(ask_id, decision)

    async def enter(self) -> None:
        """Raises `EngineError`."""
        if not self._settled:
            self._process = await self._pool.lease()

    async def leave(self) -> None:
        with anyio.CancelScope(shield=True):
            process, self._process = self._process, None
            if process is None:
                return
            process.mailbox.discard()
            if self._running and process.alive:
                assert self._stream is not None
                self._stream.interrupted = True
                await process.interrupt()
                await process.expect_end()
            await self._pool.give_back(process, self._broken)

    @property
    def _running(self) -> bool:
        return self._stream is not None and not self._stream.ended

    async def _begin(self, prompt: Prompt) -> Sequence[Step]:
        uuid = self._new_uuid()
        stream = self._stream = TurnStream("" if self._wakes else uuid)
        self._retried = False
        self._steered.clear()
        self._narration = Narration() if self._tool_aware else None
        if self._wakes and self._process is not None:
            self._process.attach(stream)
            return stream.emit(self._notices())
        message = await self._composer.compose(prompt, uuid)
        try:
            process = await self._ready()
        except EngineError as error:
            return stream.fail(error.failure)
        await process.begin(stream, message.line)
        if stream.interrupted:  # while it was composed, when Claude had no turn to stop
            await self.interrupt()
        return stream.emit([*self._notices(), *message.notices])

    async def _ready(self) -> ClaudeProcess:
        """Return a living process: the current one, or another if it died after its last turn."""
        process = self._process
        if process is not None and process.alive:
            return process
        if process is not None:
            self._process = None
            await self._pool.give_back(process, True)
            self._process = await self._pool.again(process)
        else:
            self._process = await self._pool.lease()
        return self._process

    async def _next(self, prompt: Prompt) -> Sequence[Step] | None:
        """Return the next steps; None if the session was left meanwhile."""
        process, stream = self._process, self._stream
        if process is None or stream is None:
            return None
        steps = await self._read(process, stream)
        if steps is not None:
            return self._note_end(steps)
        if self._narration is not None and (held := self._narration.release()):
            return held
        if stream.ended or self._process is None:
            return None
        await process.ended.wait()
        end = process.end or TurnEnded("failed")
        if self._may_try_again(end, stream):
            return await self._try_again(prompt, process, stream)
        return self._note_end(stream.take([end], ()))

    async def _read(self, process: ClaudeProcess, stream: TurnStream) -> Sequence[Step] | None:
        """Return the next steps, or None when no more come from the process. Silence is a hang only if no tool runs and no
        ask is open."""
        while True:
            with anyio.move_on_after(self._hang_after_s):
                return await self._get(process)
            quiet_s = anyio.current_time() - process.heard_at
            if quiet_s >= self._hang_after_s and not stream.working and not process.asking:
                text = f"Claude Code said nothing for {quiet_s:.0f} s and was stopped."
                process.condemn(Failure("hang", text))

    async def _get(self, process: ClaudeProcess) -> Sequence[Step] | None:
        """Return the next steps; with tool-aware streaming, also text that has waited long enough."""
        narration = self._narration
        if narration is None:
            return await process.mailbox.get()
        now, due_at = anyio.current_time(), narration.due_at
        with anyio.move_on_after(None if due_at is None else max(0.0, due_at - now)):
            steps = await process.mailbox.get()
            return None if steps is None else narration.take(steps, anyio.current_time())
        return narration.release()

    def _may_try_again(self, end: TurnEnded, stream: TurnStream) -> bool:
        broke = end.failure is not None and end.failure.kind in ("crash", "hang")
        return broke and not (self._retried or self._wakes or stream.began or stream.interrupted)

    async def _try_again(self, prompt: Prompt, process: ClaudeProcess, stream: TurnStream) -> Sequence[Step]:
        self._retried = True
        self._process = None
        await self._pool.give_back(process, True)
        steps = [*stream.withdraw(), *stream.emit([Notice("warning", "restarted", AGAIN)])]
        try:
            self._process = await self._pool.again(process)
        except EngineError as error:
            return [*steps, *stream.fail(error.failure)]
        uuid = self._new_uuid()
        message = await self._composer.compose(_joined(prompt, self._steered), uuid)
        stream.begin_again(uuid)
        await self._process.begin(stream, message.line)
        return steps

    def _note_end(self, steps: Sequence[Step]) -> Sequence[Step]:
        for step in steps:
            if isinstance(step, TurnEnded):
                self._broken = step.failure is not None and step.failure.kind in SPENT
                self.completed = self.completed or step.outcome == "completed"
        return steps


def _joined(prompt: Prompt, steered: Sequence[Prompt]) -> Prompt:
    """Return the prompt with the messages that came during its turn: the process that took them has died."""
    if not steered:
        return prompt
    texts = [prompt.text, *(one.text for one in steered)]
    files = (*prompt.attachments, *(file for one in steered for file in one.attachments))
    # The text may be another person's.
    return Prompt("\n\n".join(texts), files, prompt.by, prompt.authors)
