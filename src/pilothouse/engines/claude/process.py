"""One `claude` process: it is started, initialised, read to its end, and stopped with its whole tree.

Rules: `run` reads every line for as long as the process lives, and answers what must be answered, whoever reads the
turn; a slow reader slows its own process alone; once it is gone, for whatever reason, the turn on it is told.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import anyio

from pilothouse.core.ask import Decision
from pilothouse.core.errors import EngineError
from pilothouse.core.event import ToolFinished, ToolStarted, TurnEnded
from pilothouse.core.failure import Failure
from pilothouse.core.ids import AskId
from pilothouse.engines.claude import sending, wire
from pilothouse.engines.claude.control import Reply
from pilothouse.engines.claude.dialogue import Dialogue
from pilothouse.engines.claude.gate import Gate
from pilothouse.engines.claude.launch import Launch
from pilothouse.engines.claude.mailbox import Mailbox
from pilothouse.engines.claude.translate import Translator
from pilothouse.engines.claude.turn_stream import TurnStream
from pilothouse.engines.claude.turns import Step
from pilothouse.processes import (
    InputFailed,
    InputStalled,
    Line,
    Process,
    SpawnFailed,
    StopDeadlines,
    open_process,
)

MAX_BACKGROUND = 10
GATED_KINDS = ("command", "file_change", "tool")

SHUT_DOWN = Failure("crash", "Claude Code was shut down.")
UNREACHABLE = Failure("hang", "Claude Code reads its input no more and was stopped.")
IGNORES_STOP = Failure("hang", "Claude Code did not obey a stop and was ended.")
LEAKS = Failure(
    "permission",
    "Claude Code ran a tool without asking Pilothouse first, so it was stopped. Run `pilothouse doctor`.",
)


class ClaudeProcess:
    """`gone` is set when nothing of it is left. `session` follows the CLI: `/clear` changes it."""

    def __init__(
        self,
        launch: Launch,
        gate: Gate,
        log: Callable[..., None],
        *,
        start_s: float = 60.0,
        grace_s: float = 3.0,
    ) -> None:
        self.launch = launch
        self.session = launch.session
        self.alive = True
        self.gone = anyio.Event()
        self.guarded = True
        """Whether a call that never came by the gate ends it."""
        self.heard_at = 0.0
        self.turns = 0
        """Those that it has ended: with one, there is a session to resume."""
        self.end: TurnEnded | None = None
        """How a turn ended that the process took with it."""
        self.dialogue = Dialogue(gate)
        self.stream: TurnStream | None = None
        self.mailbox = Mailbox()
        self.over = anyio.Event()
        self.background: list[str] = []
        """What turns answered that nobody asked for, for the next one to tell."""
        self._log = log
        self._start_s = start_s
        self._grace_s = grace_s
        self._translator = Translator(launch.cwd, resumed=launch.resumed)
        self._calls: dict[str, str] = {}
        self._process: Process | None = None
        self._reading = anyio.CancelScope()
        self._ready = anyio.Event()
        self._initialized = False
        self._why: Failure | None = None
        self._failure = SHUT_DOWN

    @property
    def spent_usd(self) -> float:
        return self._translator.spent_usd

    @property
    def asking(self) -> bool:
        return self.dialogue.asking

    async def run(self) -> None:
        """Its whole life; in the engine's task group."""
        try:
            await self._serve()
        except SpawnFailed as error:
            self._fail(Failure("bad_request", str(error)))
        finally:
            self._close()

    async def wait_ready(self) -> None:
        """Raises `EngineError` when it does not start."""
        with anyio.move_on_after(self._start_s):
            await self._ready.wait()
        if self._initialized:
            return
        self.condemn(
            Failure("hang", f"Claude Code did not start within {self._start_s:g} s and was stopped.")
        )
        await self.gone.wait()
        raise EngineError(self._failure)

    async def begin(self, stream: TurnStream, line: bytes) -> None:
        self.stream, self.mailbox, self.over = stream, Mailbox(), anyio.Event()
        self._translator.interrupted = False
        self._translator.expect_turn()
        self.heard_at = anyio.current_time()
        if not self.alive:
            self._release()
        await self._write(line)

    async def push(self, line: bytes) -> None:
        await self._write(line)

    async def interrupt(self) -> None:
        self._translator.interrupted = True
        await self._write(self.dialogue.request(sending.INTERRUPT, self._interrupted), self._grace_s)

    async def answer(self, ask_id: AskId, decision: Decision) -> None:
        for line in self.dialogue.answer(ask_id, decision):
            await self._write(line)

    async def expect_end(self) -> None:
        """Gives the running turn its time to stop, then ends the process."""
        over = self.over
        with anyio.move_on_after(self._grace_s):
            await over.wait()
        if not over.is_set():
            self.condemn(IGNORES_STOP)

    def condemn(self, why: Failure) -> None:
        """Ends it now, and tells its turn why."""
        if self.alive:
            self._why = why
            self.stop()

    def stop(self) -> None:
        self.alive = False
        self._reading.cancel()

    async def _serve(self) -> None:
        launch = self.launch
        async with open_process(launch.argv, cwd=launch.cwd, env=launch.environment) as process:
            self._process = process
            self._log("process.started", engine="claude", pid=process.pid, session=launch.session)
            await self._write(self.dialogue.request(sending.INITIALIZE, self._greeted))
            with self._reading:
                async for line in process.lines():
                    await self._hear(line)
            self.alive = False
            # A condemned process has had its time; else end of input is enough, and it saves its session.
            await process.stop(
                StopDeadlines(input_s=0.0 if self._why else self._grace_s, terminate_s=self._grace_s)
            )
            self._log("process.ended", engine="claude", pid=process.pid, exit_code=process.exit_code)
            self._last_words(process.exit_code, process.stderr_tail())

    async def _hear(self, line: Line) -> None:
        heard = wire.Noise(line.data[: wire.NOISE_BYTES]) if line.cut else wire.decode(line.data)
        self.heard_at = anyio.current_time()
        replies = await self.dialogue.take(heard)  # first: an ask must be known before anybody can answer it
        await self._deliver(self._translator.take(heard, line.data), len(line.data))
        for reply in replies:
            await self._write(reply)

    async def _deliver(self, steps: Sequence[Step], size: int) -> None:
        if not steps:
            return
        self._watch_gate(steps)
        stream = self.stream
        if stream is None or stream.ended:
            self._overhear(steps)
            return
        kept = stream.take(steps, self._translator.user_message_uuids)
        if not stream.ended:
            await self.mailbox.put(kept, size)
        else:
            self.mailbox.put_last(kept, size)
            self._end_turn()

    def _watch_gate(self, steps: Sequence[Step]) -> None:
        """A call with deeds that ran and never came by the gate: whatever the reason, it must not go on."""
        for step in steps:
            if isinstance(step, ToolStarted) and step.call.kind in GATED_KINDS:
                self._calls[step.call.id] = step.call.title
            elif isinstance(step, ToolFinished) and self._calls.pop(step.call_id, None) and step.ok:
                if self.guarded and step.call_id not in self.dialogue.gate.seen:
                    self.condemn(LEAKS)
            elif isinstance(step, TurnEnded):
                self._calls.clear()
                self.dialogue.gate.seen.clear()
                self.dialogue.forget_asks()

    def _overhear(self, steps: Sequence[Step]) -> None:
        """Between two turns: a failed start, or a turn that the CLI began by itself."""
        for end in (step for step in steps if isinstance(step, TurnEnded)):
            self._failure = end.failure or self._failure
            if end.answer and len(self.background) < MAX_BACKGROUND:
                self.background.append(end.answer)

    def _end_turn(self) -> None:
        if self._translator.resume is not None:
            self.session = self._translator.resume.value
        self.turns += 1
        self._release()

    def _release(self) -> None:
        self.mailbox.close()
        self.over.set()

    def _greeted(self, reply: Reply) -> None:
        self._initialized = reply.subtype == "success"
        if not self._initialized:
            self.condemn(Failure("bad_request", f"Claude Code refused to begin: {reply.error[:300]}"))
        self._ready.set()

    def _interrupted(self, reply: Reply) -> None:
        """What never began has no result, so this is its end."""
        told = reply.response.get("cancelled") if isinstance(reply.response, dict) else None
        stream = self.stream
        if stream is None or stream.ended or self._translator.in_turn or not isinstance(told, list):
            return
        self.mailbox.put_last(stream.cancel(told))
        if stream.ended:
            self._translator.interrupted = False
            self._end_turn()

    def _last_words(self, exit_code: int | None, stderr: str) -> None:
        if self._why is not None and not self._translator.interrupted:
            self._settle(self._translator.fail(self._why))
        else:
            self._settle(self._translator.end(exit_code, stderr))

    def _fail(self, failure: Failure) -> None:
        self._settle(self._translator.fail(failure))

    def _settle(self, steps: Sequence[Step]) -> None:
        """The end is kept apart: whoever reads the turn may begin it again elsewhere."""
        ends = [step for step in steps if isinstance(step, TurnEnded)]
        self.end = ends[-1] if ends else None
        self._failure = (self.end.failure if self.end else None) or self._why or self._failure
        if self.stream is not None and not self.stream.ended:
            others = [step for step in steps if not isinstance(step, TurnEnded)]
            self.mailbox.put_last(self.stream.take(others, ()))

    def _close(self) -> None:
        self.alive = False
        self.end = self.end or TurnEnded("failed", failure=self._failure)
        self._release()
        self._ready.set()
        self.gone.set()

    async def _write(self, line: bytes, within_s: float | None = None) -> None:
        """Never raises: a process that takes nothing is on its way out, and its turn hears of it."""
        if self._process is None or not self.alive:
            return
        try:
            await self._process.write_line(line, deadline_s=within_s)
        except InputStalled:
            self.condemn(UNREACHABLE)
        except InputFailed:
            pass  # it has ended: the reader sees that too, and knows the exit code
