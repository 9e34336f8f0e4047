"""Text mode (`--output-format text`), for a `claude` without stream-json: one process for each turn, the prompt in argv.

Rules: `claude` prints its whole answer at the end, or what went wrong; only the exit code tells which. The prompt stands
in the command line, where `@files` and `/commands` work and other users can read it, so only an owner's is taken. Nobody
can be asked and no call can be held back, so outside of full access Claude can only read. Images need stream-json: a turn
with some is a `ClaudeSession`. Tools are seen only if the session's log is read beside the turn; a log that is missing or
unreadable costs nothing else.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path

import anyio

from pilothouse.core.ask import Decision
from pilothouse.core.engine import Blobs, MediaFound, Step
from pilothouse.core.errors import EngineError
from pilothouse.core.event import (
    EngineEvent,
    Grammar,
    Notice,
    PlanChanged,
    ResumeToken,
    SessionStarted,
    TextSet,
    ToolFinished,
    ToolStarted,
    ToolUpdated,
    TurnEnded,
)
from pilothouse.core.ids import AskId
from pilothouse.core.outcome import Failure
from pilothouse.core.turn import Prompt
from pilothouse.engines.claude.failures import explain_exit, explain_printed, explain_spawn
from pilothouse.engines.claude.launch import Launch
from pilothouse.engines.claude.process import SHUT_DOWN
from pilothouse.engines.claude.prompt import PromptComposer
from pilothouse.engines.claude.session import ClaudeSession
from pilothouse.engines.claude.session_log import LogTail, find_log, projects_folder
from pilothouse.engines.claude.session_watch import LogTranslator
from pilothouse.engines.mailbox import Mailbox
from pilothouse.engines.media import keep_media
from pilothouse.engines.turn_loop import BUSY
from pilothouse.processes import Launcher, Process, SpawnFailed, StopDeadlines

BLOCK = "text:0"
MAX_BYTES = 8 * 1024 * 1024
MAX_PROMPT_BYTES = 120_000
"""The system takes 128 KiB for one argument."""
LOOK_EVERY_S = 0.2
SHOWN = (ToolStarted, ToolUpdated, ToolFinished, PlanChanged, MediaFound)
"""The part of a session's log that is shown: the text comes from stdout."""

OWNERS_ONLY = Failure(
    "permission",
    "Claude Code runs in text mode here (engines.claude.output), where a message can read files and run commands by "
    "itself. So only an owner's messages are taken.",
)
TOO_LONG = "In text mode a prompt may have {limit:,} bytes, and this one has {size:,}. Send it as a file."
READS_ONLY = (
    "Text mode: nobody can be asked here, so Claude Code can only read. In full access it may do everything."
)


class TextTranslator:
    """One process, which is one turn. `begun` says that its session exists and can be resumed."""

    def __init__(self, resume: ResumeToken, model: str = "") -> None:
        self.interrupted = False
        self.begun = False
        self._resume = resume
        self._session = SessionStarted(resume, model, resume.cwd)
        self._grammar = Grammar()
        self._printed = bytearray()

    def feed(self, line: bytes) -> None:
        self._printed += (line + b"\n")[: MAX_BYTES - len(self._printed)]

    def watch(self, steps: Iterable[Step]) -> list[Step]:
        """Return what is shown of the session's log."""
        seen = [step for step in steps if isinstance(step, SHOWN)]
        self.begun = self.begun or bool(seen)
        return self._emit(*seen) if seen else []

    def end(self, exit_code: int | None = None, stderr_tail: str = "") -> list[Step]:
        printed = self._printed.decode("utf-8", "replace").strip("\n")
        answered = bool(printed.strip())
        if self.interrupted:
            return self._close(TurnEnded("cancelled"))
        self.begun = self.begun or (answered and exit_code is not None)
        if exit_code == 0 and answered:
            return [*self._emit(TextSet(BLOCK, printed)), *self._close(TurnEnded("completed", printed))]
        if exit_code and answered:
            return self.fail(explain_printed(printed))
        return self.fail(explain_exit(exit_code, stderr_tail))

    def fail(self, failure: Failure) -> list[Step]:
        return self._close(TurnEnded("failed", failure=failure))

    def _close(self, end: TurnEnded) -> list[Step]:
        resume = self._resume if self.begun else None
        return self._emit(TurnEnded(end.outcome, end.answer, end.failure, None, resume))

    def _emit(self, *steps: Step) -> list[Step]:
        out: list[Step] = []
        for step in (self._session, *steps) if self.begun else steps:  # said once: the grammar drops the next
            out += [step] if isinstance(step, MediaFound) else self._grammar.feed(step)
        return out


class TextProcess:
    """Its `mailbox` holds the turn and is closed after the end; `ended` is set when nothing of the process is left."""

    def __init__(
        self,
        launcher: Launcher,
        launch: Launch,
        translator: TextTranslator,
        log: Callable[..., None],
        *,
        scans: bool,
        grace_s: float = 3.0,
    ) -> None:
        self.mailbox = Mailbox[Sequence[Step]]()
        self.ended = anyio.Event()
        self._launcher = launcher
        self._launch = launch
        self._translator = translator
        self._log = log
        self._deadlines = StopDeadlines(input_s=0.0, terminate_s=grace_s)
        self._tail = LogTail(self._find_log, skip=lambda size: size) if scans else None
        self._log_lines = LogTranslator()
        self._reading = anyio.CancelScope()

    async def run(self) -> None:
        """Run the process from its start to its end, in the engine's task group."""
        try:
            await self._serve()
        except SpawnFailed as error:
            self.mailbox.put_last(self._translator.fail(explain_spawn(error)))
        finally:
            self.mailbox.put_last(self._translator.fail(SHUT_DOWN))
            self.mailbox.close()
            self.ended.set()

    def interrupt(self) -> None:
        self._translator.interrupted = True
        self.stop()

    def stop(self) -> None:
        self._reading.cancel()

    async def _serve(self) -> None:
        async with self._launcher.open(self._launch.start) as process:
            process.close_input()  # claude would wait three seconds for input
            self._log("process.started", engine="claude", pid=process.pid, session=self._launch.session)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._watch_log)
                with self._reading:
                    async for line in process.lines():
                        self._translator.feed(line.data)
                tasks.cancel_scope.cancel()
            exit_code = await self._stop(process)
            self._log("process.ended", engine="claude", pid=process.pid, exit_code=process.exit_code)
            self._look()
            self._translator.begun = self._translator.begun or self._find_log() is not None
            self.mailbox.put_last(self._translator.end(exit_code, process.stderr_tail()))

    async def _stop(self, process: Process) -> int | None:
        """Return the exit code; 0 for a process that has said everything and does not end by itself."""
        stopped = self._reading.cancelled_caught
        if not stopped:
            with anyio.move_on_after(self._deadlines.terminate_s):
                return await process.wait()
        await process.stop(self._deadlines)
        return process.exit_code if stopped else 0

    async def _watch_log(self) -> None:
        while self._tail is not None:
            self._look()
            await anyio.sleep(LOOK_EVERY_S)

    def _look(self) -> None:
        while self._tail is not None and (lines := self._tail.read()):
            steps = [step for line in lines for step in self._log_lines.feed(line)]
            self.mailbox.put_last(self._translator.watch(steps))

    def _find_log(self) -> Path | None:
        return find_log(projects_folder(self._launch.environment), self._launch.session, self._launch.cwd)


class TextSession:
    """`start` and `stream` open a process, or a stream-json session, that resumes this token."""

    def __init__(
        self,
        start: Callable[[str, ResumeToken | None], TextProcess],
        stream: Callable[[ResumeToken | None], AbstractAsyncContextManager[ClaudeSession]],
        composer: PromptComposer,
        blobs: Blobs,
        *,
        resume: ResumeToken | None,
        new_uuid: Callable[[], str],
        notices: Sequence[Notice] = (),
    ) -> None:
        self._start = start
        self._stream = stream
        self._composer = composer
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
        """True once a turn of this session has completed."""

    async def run(self, prompt: Prompt) -> AsyncIterator[EngineEvent]:
        if self._running:
            yield TurnEnded("failed", failure=BUSY)
            return
        self._running, self._interrupted = True, False
        streams = await self._composer.has_blocks(prompt)
        await self._end_last()  # two processes of one session would lose a turn
        async for event in self._run_stream(prompt) if streams else self._run_text(prompt):
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
        """Free everything, in bounded time."""
        with anyio.CancelScope(shield=True):
            await self._end_last()

    async def _run_text(self, prompt: Prompt) -> AsyncIterator[EngineEvent]:
        if not prompt.by_owner:
            yield TurnEnded("failed", failure=OWNERS_ONLY)
            return
        message = await self._composer.compose(prompt, self._new_uuid())
        if (size := len(message.text.encode("utf-8", "replace"))) > MAX_PROMPT_BYTES:
            text = TOO_LONG.format(limit=MAX_PROMPT_BYTES, size=size)
            yield TurnEnded("failed", failure=Failure("bad_request", text))
            return
        process = self._process = self._start(message.text, self._resume)
        if self._interrupted:
            process.interrupt()
        for notice in (*self._notices, *message.notices):
            yield notice
        while (steps := await process.mailbox.get()) is not None:
            for step in steps:
                yield await keep_media(self._blobs, step)

    async def _run_stream(self, prompt: Prompt) -> AsyncIterator[EngineEvent]:
        try:
            self._streaming = await self._open.enter_async_context(self._stream(self._resume))
        except EngineError as error:
            yield TurnEnded("failed", failure=error.failure)
            return
        if self._interrupted:
            await self._streaming.interrupt()
        async for event in self._streaming.run(prompt):
            yield event

    async def _end_last(self) -> None:
        """End the process or the stream of the last turn."""
        process, self._process, self._streaming = self._process, None, None
        if process is not None:
            process.mailbox.discard()
            process.stop()
            await process.ended.wait()
        await self._open.aclose()
