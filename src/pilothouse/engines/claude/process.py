"""One `claude` process: started, initialised, read to its end, and stopped with its whole tree.

Rules: `run` reads every line for as long as the process lives, and answers what must be answered, whether or not the turn
is read. A slow reader slows only its own process. When the process ends, its turn is told. `SessionSettings` outlive a
process: Claude keeps the model of a session, but not its permission mode (2.1.325).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import anyio
import msgspec

from pilothouse.core.ask import Decision
from pilothouse.core.engine import Model, Step
from pilothouse.core.errors import EngineError
from pilothouse.core.event import SessionStarted, ToolCall, ToolFinished, ToolStarted, TurnEnded
from pilothouse.core.ids import AskId, SessionId
from pilothouse.core.outcome import Failure
from pilothouse.engines.claude import control, wire
from pilothouse.engines.claude.config import read_commands, read_models
from pilothouse.engines.claude.control import Reply
from pilothouse.engines.claude.failures import explain_spawn
from pilothouse.engines.claude.gate import Dialogue, Gate
from pilothouse.engines.claude.launch import Launch, has_same_cap
from pilothouse.engines.claude.translate import Translator
from pilothouse.engines.claude.turn_stream import TurnStream
from pilothouse.engines.mailbox import Mailbox
from pilothouse.engines.wakes import WokenTurn
from pilothouse.processes import Launcher, Line, SharedProcess, SpawnFailed, StopDeadlines

MAX_SESSIONS = 1000

DEFAULT_MODEL = "default"
# Every kind but `note`, which touches nothing. Reading counts: a rule may deny it, and outside the workspace people are asked.
GATED_KINDS = ("command", "file_change", "read", "search", "web", "subagent", "tool")
UNGATED_TOOLS = ("web_search", "web_fetch", "ToolSearch")
"""The first two run at the API and cannot be held; the third searches the names of tools."""

SHUT_DOWN = Failure("crash", "Claude Code was shut down.")
UNREACHABLE = Failure("hang", "Claude Code no longer reads its input and was stopped.")
IGNORES_STOP = Failure("hang", "Claude Code did not stop when asked and was ended.")
LEAKS = Failure(
    "permission",
    "Claude Code ran a tool without asking Pilothouse first, so it was stopped. Run `pilothouse doctor`.",
)


class SessionSettings:
    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self.model: str | None = None
        """The model that was asked for last; None for Claude's own choice."""
        self.mode = ""
        """The permission mode that was reported last; empty before."""


class KnownSessions:
    """The settings of the latest sessions."""

    def __init__(self, make: Callable[[str], Gate]) -> None:
        self._make = make
        self._known: dict[str, SessionSettings] = {}

    def of(self, session: str, cwd: str) -> SessionSettings:
        found = self._known.pop(session, None) or SessionSettings(self._make(cwd))
        self.keep(session, found)
        return found

    def keep(self, session: str, settings: SessionSettings) -> None:
        """Keep the settings under this id: `/clear` gives a session a new one."""
        self._known.pop(session, None)
        while len(self._known) >= MAX_SESSIONS:
            self._known.pop(next(iter(self._known)))
        self._known[session] = settings


class ClaudeProcess(SharedProcess[Failure]):
    """`ended` is set when nothing of it is left. `session` is the current id: `/clear` changes it."""

    def __init__(
        self,
        launcher: Launcher,
        launch: Launch,
        settings: SessionSettings,
        log: Callable[..., None],
        woke: Callable[[ClaudeProcess], WokenTurn],
        mark_taken: Callable[[str], None],
        *,
        start_s: float = 60.0,
        grace_s: float = 3.0,
        tell_s: float = 10.0,
    ) -> None:
        super().__init__(UNREACHABLE)
        self._launcher = launcher
        self.launch = launch
        self.session = launch.session
        self.ended = anyio.Event()
        self.guarded = True
        """True if a call that was not judged ends the process."""
        self.heard_at = 0.0
        self.turns = 0
        """Number of ended turns: with one, there is a session to resume."""
        self.end: TurnEnded | None = None
        """The end of the turn that ran when the process ended."""
        self.settings = settings
        self.models: tuple[Model, ...] = ()
        """The models that it offers; empty before its greeting."""
        self.commands: tuple[str, ...] = ()
        self.owner = SessionId("")
        """Our session that used it last."""
        self.dialogue = Dialogue(settings.gate)
        self.stream: TurnStream | None = None
        self.mailbox = Mailbox[Sequence[Step]]()
        self.over = anyio.Event()
        self.woken: WokenTurn | None = None
        """A turn that it began by itself and that no session reads yet."""
        # A resumed session goes on with the model that it had, unless it is given another.
        self._model = launch.model or (settings.model if launch.resumed else None)
        self._woke = woke
        self._mark_taken = mark_taken
        self._log = log
        self._start_s = start_s
        self._grace_s = grace_s
        self._tell_s = tell_s
        self._translator = Translator(
            launch.cwd, resumed=launch.resumed, server=launch.server, denials=settings.gate.denials
        )
        self._calls: dict[str, str] = {}
        self._ready = anyio.Event()
        self._initialized = False
        self._failure = SHUT_DOWN

    @property
    def spent_usd(self) -> float:
        return self._translator.spent_usd

    @property
    def key(self) -> object:
        return msgspec.structs.replace(self.launch, session=self.session).key

    def may_serve(self, launch: Launch, /) -> bool:
        return has_same_cap(self.launch, self.spent_usd, launch)

    @property
    def asking(self) -> bool:
        return self.dialogue.asking

    @property
    def holds_work(self) -> bool:
        """True while it works although no turn is read."""
        return self.alive and (self.woken is not None or self._translator.background_tasks > 0)

    @property
    def wake_source(self) -> str:
        """Why it began by itself, as far as it tells."""
        return self._translator.wake_cause

    async def switch_to(self, model: str | None, mode: str) -> bool:
        """Switch to this model and permission mode while it runs; an empty mode keeps the current one. Return False if it
        refuses the model."""
        if model != self._model and not await self._tell(control.set_model(model or DEFAULT_MODEL)):
            return False
        self._model = self.settings.model = model
        if mode and mode != self._mode:
            self._translator.expect_mode(mode)
            await self._tell(control.set_permission_mode(mode))
        return True

    @property
    def _mode(self) -> str:
        return self._translator.permission_mode or self.launch.mode

    async def run(self) -> None:
        """Run the process from its start to its end, in the engine's task group."""
        try:
            await self._serve()
        except SpawnFailed as error:
            self._fail(explain_spawn(error))
        finally:
            self._close()

    async def wait_ready(self) -> None:
        """Raises `EngineError` if it does not start."""
        with anyio.move_on_after(self._start_s):
            await self._ready.wait()
        if self._initialized:
            return
        self.condemn(
            Failure("hang", f"Claude Code did not start within {self._start_s:g} s and was stopped.")
        )
        await self.ended.wait()
        raise EngineError(self._failure)

    def attach(self, stream: TurnStream) -> None:
        """Send what it says to this stream, beginning with a turn that it began by itself."""
        self.stream, self.mailbox, self.over = stream, Mailbox(), anyio.Event()
        woken, self.woken = self.woken, None
        self.heard_at = anyio.current_time()
        if woken is not None:
            self._mark_taken(woken.id)
            self.mailbox.put_last(stream.take(woken.take(), (), woken=True))
        if stream.ended or not self.alive:
            self._release()

    async def begin(self, stream: TurnStream, line: bytes) -> None:
        self.attach(stream)
        self._translator.interrupted = False
        self._translator.expect_turn()
        await self._write(line)

    async def push(self, line: bytes) -> None:
        await self._write(line)

    async def interrupt(self) -> None:
        self._translator.interrupted = True
        await self._write(self.dialogue.request(control.INTERRUPT, self._on_interrupted), self._grace_s)

    async def answer(self, ask_id: AskId, decision: Decision) -> None:
        """Send a decision. A no to one of several questions is the no to all: the others are withdrawn."""
        beside, lines = self.dialogue.other_asks(ask_id), self.dialogue.answer(ask_id, decision)
        stream = self.stream
        if lines and beside and stream is not None and not stream.ended:
            self.mailbox.put_last(stream.take(self._translator.withdraw(beside), ()))
        for line in lines:
            await self._write(line)

    async def expect_end(self) -> None:
        """Wait for the running turn to stop; after the grace, end the process."""
        await self._expect(self.over, self._grace_s, IGNORES_STOP)

    async def _serve(self) -> None:
        launch = self.launch
        async with self._launcher.open(launch.start) as process:
            self._process = process
            self._log("process.started", engine="claude", pid=process.pid, session=launch.session)
            await self._write(
                self.dialogue.request(control.initialize(launch.system_prompt), self._on_initialized)
            )
            with self._reading:
                async for line in process.lines():
                    if self._why is not None:
                        break  # a condemned process is not heard any more
                    await self._handle_line(line)
            self.alive = False
            # A condemned process has had its time; for another, end of input is enough, and it saves its session.
            await process.stop(
                StopDeadlines(input_s=0.0 if self._why else self._grace_s, terminate_s=self._grace_s)
            )
            self._log("process.ended", engine="claude", pid=process.pid, exit_code=process.exit_code)
            self._report_exit(process.exit_code, process.stderr_tail())

    async def _handle_line(self, line: Line) -> None:
        heard = wire.Noise(line.data[: wire.NOISE_BYTES]) if line.cut else wire.decode(line.data)
        self.heard_at = anyio.current_time()
        replies = await self.dialogue.take(heard)  # first: an ask must be known before it can be answered
        await self._deliver(self._translator.take(heard, line.data), len(line.data))
        for reply in replies:
            await self._write(reply)

    async def _deliver(self, steps: Sequence[Step], size: int) -> None:
        if not steps:
            return
        self._watch_gate(steps)
        stream = self.stream
        if (stream is None or stream.ended) and await self._keep_unread(steps, size):
            return
        stream = self.stream
        assert stream is not None, "a session attached while the steps waited"
        woken = bool(self._translator.wake_cause) and any(isinstance(step, SessionStarted) for step in steps)
        kept = stream.take(steps, self._translator.user_message_uuids, woken=woken)
        if not stream.ended:
            await self.mailbox.put(kept, size)
        else:
            self.mailbox.put_last(kept, size)
            self._end_turn()

    def _watch_gate(self, steps: Sequence[Step]) -> None:
        """End the process if a call ran that the gate did not judge, whatever the reason."""
        for step in steps:
            if isinstance(step, ToolStarted) and _is_gated(step.call):
                self._calls[step.call.id] = step.call.title
            elif isinstance(step, ToolFinished) and self._calls.pop(step.call_id, None) and step.ok:
                if self.guarded and step.call_id not in self.dialogue.gate.seen:
                    self.condemn(LEAKS)
            elif isinstance(step, TurnEnded):
                self._calls.clear()
                self.dialogue.gate.seen.clear()
                self.dialogue.gate.denials.clear()
                self.dialogue.forget_asks()

    async def _keep_unread(self, steps: Sequence[Step], size: int) -> bool:
        """Keep steps between two turns: a failed start, or a turn that Claude began by itself. Return False if a session
        attached while they waited for room: they are its steps then."""
        for end in (step for step in steps if isinstance(step, TurnEnded)):
            self._failure = end.failure or self._failure
        if self.woken is None and any(isinstance(step, SessionStarted) for step in steps):
            self.woken = self._woke(self)
        woken = self.woken
        if woken is not None and not await woken.put(steps, size):
            return False
        if woken is not None and woken.over:
            self._note_session()
        return True

    def _end_turn(self) -> None:
        self._note_session()
        self._release()

    def _note_session(self) -> None:
        """Note the session's id and mode after a turn."""
        if self._translator.resume is not None:
            self.session = self._translator.resume.value
        self.settings.mode = self._mode
        self.turns += 1

    def _release(self) -> None:
        self.mailbox.close()
        self.over.set()

    def _on_initialized(self, reply: Reply) -> None:
        self._initialized = reply.subtype == "success"
        self.models = read_models(reply.response, self.launch.model)
        self.commands = read_commands(reply.response)
        if not self._initialized:
            self.condemn(Failure("bad_request", f"Claude Code did not start: {reply.error[:300]}"))
        self._ready.set()

    def _on_interrupted(self, reply: Reply) -> None:
        """End a turn that never began: it gets no result."""
        told = reply.response.get("cancelled") if isinstance(reply.response, dict) else None
        stream = self.stream
        if stream is None or stream.ended or self._translator.in_turn or not isinstance(told, list):
            return
        self.mailbox.put_last(stream.cancel(told))
        if stream.ended:
            self._translator.interrupted = False
            self._end_turn()

    def _report_exit(self, exit_code: int | None, stderr: str) -> None:
        if self._why is not None and not self._translator.interrupted:
            self._settle(self._translator.fail(self._why))
        else:
            self._settle(self._translator.end(exit_code, stderr))

    def _fail(self, failure: Failure) -> None:
        self._settle(self._translator.fail(failure))

    def _settle(self, steps: Sequence[Step]) -> None:
        """Deliver the last steps, but keep the end apart: the session may begin the turn again in another process."""
        ends = [step for step in steps if isinstance(step, TurnEnded)]
        self.end = ends[-1] if ends else None
        self._failure = (self.end.failure if self.end else None) or self._why or self._failure
        if self.stream is not None and not self.stream.ended:
            others = [step for step in steps if not isinstance(step, TurnEnded)]
            self.mailbox.put_last(self.stream.take(others, ()))
        elif self.woken is not None:
            self.woken.put_last([step for step in steps if not isinstance(step, TurnEnded)])

    def _close(self) -> None:
        self.alive = False
        self.end = self.end or TurnEnded("failed", failure=self._failure)
        self.dialogue.abandon()
        self._release()
        self._ready.set()
        self.ended.set()

    async def _tell(self, request: dict[str, Any]) -> bool:
        """Send a request and wait for the reply; return whether it agreed."""
        heard = anyio.Event()
        problem = "no answer"

        def when(reply: Reply) -> None:
            nonlocal problem
            problem = "" if reply.subtype == "success" else reply.error or "refused"
            heard.set()

        await self._write(self.dialogue.request(request, when), self._tell_s)
        with anyio.move_on_after(self._tell_s):
            await heard.wait()
        if problem:
            self._log(
                "process.refused", level="warning", engine="claude", request=request, problem=problem[:300]
            )
        return not problem


def _is_gated(call: ToolCall) -> bool:
    return call.kind in GATED_KINDS and call.detail.get("tool") not in UNGATED_TOOLS
