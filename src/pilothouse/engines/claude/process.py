"""How a session stands, whichever process serves it: what was allowed for it, its model, its permission mode.

A process that is replaced takes these with it: Claude keeps the model of a session, but not its mode (2.1.325).

One `claude` process: it is started, initialised, read to its end, and stopped with its whole tree.

Rules: `run` reads every line for as long as the process lives, and answers what must be answered, whoever reads the
turn; a slow reader slows its own process alone; once it is gone, for whatever reason, the turn on it is told.
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
from pilothouse.engines.claude.config import read_models
from pilothouse.engines.claude.control import Reply
from pilothouse.engines.claude.failures import explain_spawn
from pilothouse.engines.claude.gate import Dialogue, Gate
from pilothouse.engines.claude.launch import Launch, caps_as
from pilothouse.engines.claude.translate import Translator
from pilothouse.engines.claude.turn_stream import TurnStream
from pilothouse.engines.mailbox import Mailbox
from pilothouse.engines.wakes import WokenTurn
from pilothouse.processes import Launcher, Line, SharedProcess, SpawnFailed, StopDeadlines

MAX_SESSIONS = 1000

DEFAULT_MODEL = "default"
# Every kind but `note`, which touches nothing. Reading counts: a rule may deny it, and outside the workspace it is asked.
GATED_KINDS = ("command", "file_change", "read", "search", "web", "subagent", "tool")
UNGATED_TOOLS = ("web_search", "web_fetch", "ToolSearch")
"""The first two run at the API, and nobody here can hold them; the third looks through the names of tools."""

SHUT_DOWN = Failure("crash", "Claude Code was shut down.")
UNREACHABLE = Failure("hang", "Claude Code reads its input no more and was stopped.")
IGNORES_STOP = Failure("hang", "Claude Code did not obey a stop and was ended.")
LEAKS = Failure(
    "permission",
    "Claude Code ran a tool without asking Pilothouse first, so it was stopped. Run `pilothouse doctor`.",
)


class Standing:
    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self.model: str | None = None
        """The one that was asked for last; None is Claude's own choice."""
        self.mode = ""
        """The permission mode that it was heard in last; empty while nobody knows."""


class Standings:
    """Those of the latest sessions."""

    def __init__(self, make: Callable[[str], Gate]) -> None:
        self._make = make
        self._known: dict[str, Standing] = {}

    def of(self, session: str, cwd: str) -> Standing:
        found = self._known.pop(session, None) or Standing(self._make(cwd))
        self.keep(session, found)
        return found

    def keep(self, session: str, standing: Standing) -> None:
        """Under this id from now on: `/clear` gives a session another."""
        self._known.pop(session, None)
        while len(self._known) >= MAX_SESSIONS:
            self._known.pop(next(iter(self._known)))
        self._known[session] = standing


class ClaudeProcess(SharedProcess[Failure]):
    """`gone` is set when nothing of it is left. `session` follows the CLI: `/clear` changes it."""

    def __init__(
        self,
        launcher: Launcher,
        launch: Launch,
        standing: Standing,
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
        self.gone = anyio.Event()
        self.guarded = True
        """Whether a call that never came by the gate ends it."""
        self.heard_at = 0.0
        self.turns = 0
        """Those that it has ended: with one, there is a session to resume."""
        self.end: TurnEnded | None = None
        """How a turn ended that the process took with it."""
        self.standing = standing
        self.models: tuple[Model, ...] = ()
        """What it said that it can be given; empty until it has."""
        self.owner = SessionId("")
        """The house's session that had it last."""
        self.dialogue = Dialogue(standing.gate)
        self.stream: TurnStream | None = None
        self.mailbox = Mailbox[Sequence[Step]]()
        self.over = anyio.Event()
        self.woken: WokenTurn | None = None
        """A turn that it began by itself and that nobody has taken in yet."""
        # A session that is resumed goes on with the model that it had, unless it is told another.
        self._model = launch.model or (standing.model if launch.resumed else None)
        self._woke = woke
        self._mark_taken = mark_taken
        self._log = log
        self._start_s = start_s
        self._grace_s = grace_s
        self._tell_s = tell_s
        self._translator = Translator(launch.cwd, resumed=launch.resumed)
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
        return caps_as(self.launch, self.spent_usd, launch)

    @property
    def asking(self) -> bool:
        return self.dialogue.asking

    @property
    def holds_work(self) -> bool:
        """It is not idle, although nobody reads it."""
        return self.alive and (self.woken is not None or self._translator.background_tasks > 0)

    @property
    def wake_source(self) -> str:
        """Why it began by itself, as far as the CLI tells."""
        return self._translator.wake_cause

    async def bring_to(self, model: str | None, mode: str) -> bool:
        """Into this model and this permission mode, warm as it is. An empty mode is whichever it has. False if it does
        not take the model."""
        if model != self._model and not await self._tell(control.set_model(model or DEFAULT_MODEL)):
            return False
        self._model = self.standing.model = model
        if mode and mode != self._mode:
            self._translator.expect_mode(mode)
            await self._tell(control.set_permission_mode(mode))
        return True

    @property
    def _mode(self) -> str:
        return self._translator.permission_mode or self.launch.mode

    async def run(self) -> None:
        """Its whole life; in the engine's task group."""
        try:
            await self._serve()
        except SpawnFailed as error:
            self._fail(explain_spawn(error))
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

    def take_in(self, stream: TurnStream) -> None:
        """What it began by itself becomes this turn, or the beginning of it."""
        self.stream, self.mailbox, self.over = stream, Mailbox(), anyio.Event()
        woken, self.woken = self.woken, None
        self.heard_at = anyio.current_time()
        if woken is not None:
            self._mark_taken(woken.id)
            self.mailbox.put_last(stream.take(woken.take(), (), woken=True))
        if stream.ended or not self.alive:
            self._release()

    async def begin(self, stream: TurnStream, line: bytes) -> None:
        self.take_in(stream)
        self._translator.interrupted = False
        self._translator.expect_turn()
        await self._write(line)

    async def push(self, line: bytes) -> None:
        await self._write(line)

    async def interrupt(self) -> None:
        self._translator.interrupted = True
        await self._write(self.dialogue.request(control.INTERRUPT, self._interrupted), self._grace_s)

    async def answer(self, ask_id: AskId, decision: Decision) -> None:
        """A no to one of several questions is the no to all: the others are withdrawn."""
        beside, lines = self.dialogue.other_asks(ask_id), self.dialogue.answer(ask_id, decision)
        stream = self.stream
        if lines and beside and stream is not None and not stream.ended:
            self.mailbox.put_last(stream.take(self._translator.withdraw(beside), ()))
        for line in lines:
            await self._write(line)

    async def expect_end(self) -> None:
        """Gives the running turn its time to stop, then ends the process."""
        await self._expect(self.over, self._grace_s, IGNORES_STOP)

    async def _serve(self) -> None:
        launch = self.launch
        async with self._launcher.open(launch.start) as process:
            self._process = process
            self._log("process.started", engine="claude", pid=process.pid, session=launch.session)
            await self._write(self.dialogue.request(control.initialize(launch.system_prompt), self._greeted))
            with self._reading:
                async for line in process.lines():
                    if self._why is not None:
                        break  # what a condemned process has said already counts no more
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
        if (stream is None or stream.ended) and await self._overhear(steps, size):
            return
        stream = self.stream
        assert stream is not None, "whoever took in what was overheard reads it"
        woken = bool(self._translator.wake_cause) and any(isinstance(step, SessionStarted) for step in steps)
        kept = stream.take(steps, self._translator.user_message_uuids, woken=woken)
        if not stream.ended:
            await self.mailbox.put(kept, size)
        else:
            self.mailbox.put_last(kept, size)
            self._end_turn()

    def _watch_gate(self, steps: Sequence[Step]) -> None:
        """A call that ran and never came by the gate: whatever the reason, it must not go on."""
        for step in steps:
            if isinstance(step, ToolStarted) and _is_gated(step.call):
                self._calls[step.call.id] = step.call.title
            elif isinstance(step, ToolFinished) and self._calls.pop(step.call_id, None) and step.ok:
                if self.guarded and step.call_id not in self.dialogue.gate.seen:
                    self.condemn(LEAKS)
            elif isinstance(step, TurnEnded):
                self._calls.clear()
                self.dialogue.gate.seen.clear()
                self.dialogue.forget_asks()

    async def _overhear(self, steps: Sequence[Step], size: int) -> bool:
        """Between two turns: a failed start, or a turn that the CLI began by itself. False if a turn took that in while
        it waited for room: then these steps are the turn's."""
        for end in (step for step in steps if isinstance(step, TurnEnded)):
            self._failure = end.failure or self._failure
        if self.woken is None and any(isinstance(step, SessionStarted) for step in steps):
            self.woken = self._woke(self)
        woken = self.woken
        if woken is not None and not await woken.put(steps, size):
            return False
        if woken is not None and woken.over:
            self._follow()
        return True

    def _end_turn(self) -> None:
        self._follow()
        self._release()

    def _follow(self) -> None:
        """A turn is over: the session is where the CLI says, and as it says."""
        if self._translator.resume is not None:
            self.session = self._translator.resume.value
        self.standing.mode = self._mode
        self.turns += 1

    def _release(self) -> None:
        self.mailbox.close()
        self.over.set()

    def _greeted(self, reply: Reply) -> None:
        self._initialized = reply.subtype == "success"
        self.models = read_models(reply.response, self.launch.model)
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
        elif self.woken is not None:
            self.woken.put_last([step for step in steps if not isinstance(step, TurnEnded)])

    def _close(self) -> None:
        self.alive = False
        self.end = self.end or TurnEnded("failed", failure=self._failure)
        self.dialogue.abandon()
        self._release()
        self._ready.set()
        self.gone.set()

    async def _tell(self, request: dict[str, Any]) -> bool:
        """Returns once it is answered: whether it agreed."""
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
