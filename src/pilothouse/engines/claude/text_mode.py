"""`--output-format text` -> events: all that is printed is the answer.

For CLIs without stream-json. The CLI prints when it is done, its last words alone, or what went wrong; there is no cost,
and no session id but the one we chose. Tools are seen only where somebody reads the session's log for them.

One `claude` process in text mode: a prompt in argv, no input, one turn, and its log read beside it if wanted.

Rules: it is read to its end, or stopped with its whole tree; a log that never appears, or cannot be read, takes nothing
from the turn.

A leased session in text mode: one process for each turn; one of stream-json where images go along.

Rules: a prompt stands in the command line here, where `@files` and `/commands` work and others may read it, so only an
owner's is taken; nobody can be asked and no call can be held back, so outside of full access Claude can only read;
`leave` frees everything in bounded time.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path

import anyio
from msgspec import Struct

from pilothouse.core.ask import Decision
from pilothouse.core.engine import Blobs, MediaFound, Step
from pilothouse.core.errors import EngineError
from pilothouse.core.event import (
    EngineEvent,
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
from pilothouse.core.grammar import Grammar
from pilothouse.core.ids import AskId
from pilothouse.core.outcome import Failure
from pilothouse.core.turn import Prompt
from pilothouse.engines.claude.failures import explain_exit, explain_printed, explain_spawn
from pilothouse.engines.claude.launch import Launch
from pilothouse.engines.claude.prompt import Prompting
from pilothouse.engines.claude.session import BUSY, ClaudeSession
from pilothouse.engines.claude.session_log import LogTail, find_log, projects_folder
from pilothouse.engines.claude.session_watch import LogTranslator
from pilothouse.engines.mailbox import Mailbox
from pilothouse.engines.media import keep_media
from pilothouse.processes import Launcher, Process, SpawnFailed, StopDeadlines

BLOCK = "text:0"
MAX_BYTES = 8 * 1024 * 1024
ACTIVITY = (ToolStarted, ToolUpdated, ToolFinished, PlanChanged)

LOOK_EVERY_S = 0.2
SHUT_DOWN = Failure("crash", "Claude Code was shut down.")

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


class TextTranslator:
    """One process, which is one turn."""

    def __init__(self, resume: ResumeToken | None = None, model: str = "") -> None:
        self.puzzle = ""
        self.interrupted = False
        self.begun = False
        """The session exists: something of it was seen."""
        self._session = SessionStarted(resume, model, resume.cwd if resume else "")
        self._grammar = Grammar()
        self._lines: list[str] = []
        self._bytes = 0

    def feed(self, line: bytes) -> Sequence[Step]:
        """Kept to the end: only the exit code tells whether this is the answer or what went wrong."""
        self._bytes += len(line) + 1
        if self._bytes <= MAX_BYTES:
            self._lines.append(line.decode("utf-8", "replace"))
        return ()

    def watch(self, steps: Iterable[Step]) -> list[Step]:
        """Of what the session's log tells: the tools, and what they made."""
        seen = [step for step in steps if isinstance(step, (*ACTIVITY, MediaFound))]
        return [*self._open(), *self._emit(seen)] if seen else []

    def end(self, exit_code: int | None = None, stderr_tail: str = "") -> Sequence[Step]:
        printed = "\n".join(self._lines).strip("\n")
        if self.interrupted:
            return self._close(TurnEnded("cancelled"))
        if exit_code == 0 and printed.strip():
            return [
                *self._open(),
                *self._emit([TextSet(BLOCK, printed)]),
                *self._close(TurnEnded("completed", printed)),
            ]
        if exit_code and printed.strip():
            self.begun = True
            return self.fail(explain_printed(printed))
        return self.fail(explain_exit(exit_code, stderr_tail))

    def fail(self, failure: Failure) -> Sequence[Step]:
        return self._close(TurnEnded("failed", failure=failure))

    def _open(self) -> list[Step]:
        self.begun = True
        return self._emit([self._session])

    def _close(self, end: TurnEnded) -> list[Step]:
        opening = self._open() if self.begun else []
        resume = self._session.resume if self.begun else None
        return [
            *opening,
            *self._grammar.feed(TurnEnded(end.outcome, end.answer, end.failure, None, resume)),
        ]

    def _emit(self, steps: Iterable[EngineEvent | MediaFound]) -> list[Step]:
        out: list[Step] = []
        for step in steps:
            out += [step] if isinstance(step, MediaFound) else self._grammar.feed(step)
        return out


class TextProcess:
    """`mailbox` has its turn, and is closed after the end; `gone` is set when nothing of it is left."""

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
        self.gone = anyio.Event()
        self._launcher = launcher
        self._launch = launch
        self._translator = translator
        self._log = log
        self._grace_s = grace_s
        self._projects = projects_folder(launch.environment)
        self._tail = LogTail(self._find_log, skip=lambda size: size) if scans else None
        self._log_lines = LogTranslator()
        self._reading = anyio.CancelScope()

    async def run(self) -> None:
        """Its whole life; in the engine's task group."""
        try:
            await self._serve()
        except SpawnFailed as error:
            self._last(self._translator.fail(explain_spawn(error)))
        finally:
            self._last(self._translator.fail(SHUT_DOWN))
            self.mailbox.close()
            self.gone.set()

    def interrupt(self) -> None:
        self._translator.interrupted = True
        self._reading.cancel()

    def stop(self) -> None:
        self._reading.cancel()

    async def _serve(self) -> None:
        launch = self._launch
        async with self._launcher.open(launch.start) as process:
            process.close_input()  # it would wait three seconds for one that stays silent
            self._log("process.started", engine="claude", pid=process.pid, session=launch.session)
            async with anyio.create_task_group() as tasks:
                if self._tail is not None:
                    tasks.start_soon(self._watch, self._tail)
                with self._reading:
                    await self._read(process)
                tasks.cancel_scope.cancel()
            exit_code = await self._stop(process)
            self._log("process.ended", engine="claude", pid=process.pid, exit_code=process.exit_code)
            if self._tail is not None:
                self._look(self._tail)
            self._translator.begun = self._translator.begun or self._find_log() is not None
            self._last(self._translator.end(exit_code, process.stderr_tail()))

    async def _read(self, process: Process) -> None:
        async for line in process.lines():
            self._translator.feed(line.data)

    async def _stop(self, process: Process) -> int | None:
        """It has said all that it will say: what lingers then, it does so for nobody."""
        if self._reading.cancelled_caught:
            await process.stop(StopDeadlines(input_s=0.0, terminate_s=self._grace_s))
            return process.exit_code
        with anyio.move_on_after(self._grace_s):
            return await process.wait()
        await process.stop(StopDeadlines(input_s=0.0, terminate_s=self._grace_s))
        return 0

    async def _watch(self, tail: LogTail) -> None:
        while True:
            self._look(tail)
            await anyio.sleep(LOOK_EVERY_S)

    def _look(self, tail: LogTail) -> None:
        while lines := tail.read():
            steps = [step for line in lines for step in self._log_lines.feed(line)]
            self._last(self._translator.watch(steps))

    def _last(self, steps: Sequence[Step]) -> None:
        if steps:
            self.mailbox.put_last(steps)

    def _find_log(self) -> Path | None:
        return find_log(self._projects, self._launch.session, self._launch.cwd)


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
