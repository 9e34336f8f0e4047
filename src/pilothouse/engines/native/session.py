"""One leased session: turns in, events out.

Rules: once `run` has begun, a failure is an event. A turn runs in a task of the engine and waits if its events are not
read. `leave` stops it, with every process that it started, also when it is cancelled. The history is written before anything
is acted upon, so a killed turn goes on as one that was cut.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from typing import Any

import anyio
import msgspec
from anyio.streams.memory import MemoryObjectReceiveStream
from msgspec import Struct
from msgspec.structs import replace

from pilothouse.core.ask import Decision
from pilothouse.core.engine import Brief, Judge
from pilothouse.core.errors import EngineError
from pilothouse.core.event import EngineEvent, Notice, ResumeToken, SessionStarted, TurnEnded
from pilothouse.core.ids import AskId
from pilothouse.core.mcp import McpReply, McpTools
from pilothouse.core.outcome import Failure
from pilothouse.core.turn import Prompt
from pilothouse.engines.native.agent import Agent, AgentPlan, TurnFailed
from pilothouse.engines.native.approvals import Approvals, answer_server
from pilothouse.engines.native.call_run import CallRunner
from pilothouse.engines.native.config import ProviderName
from pilothouse.engines.native.first_run import Asker, FirstRun, GaveUp, NoKey, Tell
from pilothouse.engines.native.history import Ended, History, Steered
from pilothouse.engines.native.key_file import FILE
from pilothouse.engines.native.messages import Use
from pilothouse.engines.native.prompt import Composed, PromptComposer
from pilothouse.engines.native.run_log import RunLog, bounded_text
from pilothouse.engines.native.servers import SETTLE_S
from pilothouse.engines.native.toolbox import LANES, Toolbox
from pilothouse.engines.native.tools import search
from pilothouse.engines.native.tools.mcp import make_tools
from pilothouse.engines.native.tools.tool import Workbench
from pilothouse.engines.native.turn import BUFFER, NativeTurn
from pilothouse.engines.turn_loop import BUSY

COMPACT = "/compact"
TOOL = "/tool"
NOTHING_TO_COMPACT = Notice("info", "compaction_failed", "There is no conversation to compact yet.")


class Access(Struct, frozen=True):
    """The part of the engine that a session uses. `plan` connects to the model; it raises `EngineError`.

    `new_problems` returns what people were not yet told about MCP servers."""

    start: Callable[[Callable[[], Coroutine[Any, Any, None]]], None]
    plan: Callable[[], Awaitable[AgentPlan]]
    first_run: Callable[[Asker, Tell, Callable[[str], Awaitable[None]]], FirstRun]
    reject_key: Callable[[ProviderName, str], Awaitable[str]]
    judge: Judge
    servers: McpTools
    new_problems: Callable[[McpTools], Sequence[Notice]]
    open_log: Callable[[], RunLog]
    log: Callable[..., None]
    now: Callable[[], float]


class NativeSession:
    accepts_images = True
    detects_hangs = True

    def __init__(
        self,
        access: Access,
        brief: Brief,
        token: ResumeToken,
        bench: Workbench,
        composer: PromptComposer,
        notices: tuple[Notice, ...],
    ) -> None:
        self._access = access
        self._brief = brief
        self._token = token
        self._bench = bench
        self._composer = composer
        self._notices = notices
        self._turn: NativeTurn | None = None
        self._events: MemoryObjectReceiveStream[EngineEvent] | None = None
        self._approvals: Approvals | None = None
        self.completed = False
        """True once a turn of this session has completed."""

    @property
    def _history(self) -> History:
        return self._bench.history

    async def run(self, prompt: Prompt) -> AsyncIterator[EngineEvent]:
        if self._turn is not None and not self._turn.over.is_set():
            yield TurnEnded("failed", failure=BUSY)
            return
        send, self._events = anyio.create_memory_object_stream[EngineEvent](BUFFER)
        turn = self._turn = NativeTurn(self._token, send, self._access.open_log())
        self._access.start(lambda: self._run_turn(turn, prompt))
        while (event := await self._next()) is not None:
            if isinstance(event, TurnEnded):
                self.completed = self.completed or event.outcome == "completed"
                await turn.over.wait()
                self._events.close()
            yield event
            turn.note_handled()

    async def interrupt(self) -> None:
        if (turn := self._turn) is not None and not turn.over.is_set():
            turn.interrupted = turn.closing = True
            turn.scope.cancel()

    async def steer(self, prompt: Prompt) -> bool:
        turn = self._turn
        if turn is None or turn.closing:
            return False
        composed = await self._composer.compose(prompt)
        if turn.closing:
            return False
        self._history.add(Steered(composed.said))
        return True

    async def answer(self, ask_id: AskId, decision: Decision) -> None:
        if self._approvals is not None:
            self._approvals.answer(ask_id, decision)

    async def leave(self) -> None:
        """Stop a turn that still runs, and wait for its end."""
        with anyio.CancelScope(shield=True):
            await self.interrupt()
            if self._events is not None:
                self._events.close()
            if self._turn is not None:
                await self._turn.over.wait()

    async def _next(self) -> EngineEvent | None:
        assert self._events is not None
        try:
            return await self._events.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            return None

    async def _run_turn(self, turn: NativeTurn, prompt: Prompt) -> None:
        end, tokens = TurnEnded("cancelled"), self._history.conversation.tokens
        agent: Agent | None = None
        try:
            with turn.scope:
                if use := read_tool_line(prompt):
                    end = await self._call(turn, use)
                else:
                    agent = await self._begin(turn, prompt)
                    end = await self._work(agent, turn, prompt)
        except TurnFailed as error:
            turn.closing = True
            end = TurnEnded("failed", failure=await self._without_bad_key(error, agent))
        except EngineError as error:
            end = TurnEnded("failed", failure=error.failure)
        except Exception as error:  # noqa: BLE001 - one turn's fault is data
            end = TurnEnded("failed", failure=self._explain(error))
        finally:  # also when the engine itself is left
            turn.closing = True
            with anyio.CancelScope(shield=True):
                await turn.close(self._record(end, agent.tokens if agent else tokens))

    async def _without_bad_key(self, error: TurnFailed, agent: Agent | None) -> Failure:
        """Forget a key that was given in a chat and is not accepted, so that the next turn asks for another."""
        failure, target = error.failure, agent.target if agent else None
        if not error.refused_key or target is None or target.key.source != FILE:
            return failure
        try:
            fix = await self._access.reject_key(target.provider.name, target.key.reveal())
        except OSError as problem:
            self._access.log("native.key_not_forgotten", level="warning", problem=str(problem))
            return failure
        return replace(failure, fix=fix) if fix else failure

    def _record(self, end: TurnEnded, tokens: int) -> TurnEnded:
        """Write the end into the history, which closes open calls."""
        assert self._turn is not None
        usage = msgspec.to_builtins(self._turn.usage)
        failure = end.failure.text if end.failure else ""
        self._turn.log.add("run.end", self._access.now(), outcome=end.outcome, failure=failure, usage=usage)
        try:
            self._history.add(Ended(end.outcome, self._access.now(), tokens))
        except OSError as error:
            return TurnEnded("failed", failure=self._explain(error))
        return end

    async def _begin(self, turn: NativeTurn, prompt: Prompt) -> Agent:
        """Put the prompt into the history, tell people that the turn began, and connect to the model."""
        composed, tools = await self._composer.compose(prompt), await self._tools()
        approvals = Approvals(self._access.judge, self._brief, self._token.value, tools, turn.tell)
        self._approvals = approvals
        plan = await self._plan(turn, approvals, tools)
        if not _is_compact(prompt):
            self._add(composed)
        native = await self._choose_search(plan, tools, approvals)
        self._note_start(turn, plan, composed)
        title = plan.speakers[0].api.target.title
        await turn.start(SessionStarted(self._token, title, self._brief.workspace, tools.names))
        notices, self._notices = (*self._notices, *composed.notices), ()
        await turn.tell(*notices, *self._access.new_problems(self._access.servers))
        calls = CallRunner(
            tools, self._bench, approvals, turn, self._access.log, self._access.now, may_search=native
        )
        return Agent(plan, self._history, turn, calls)

    async def _call(self, turn: NativeTurn, use: Use) -> TurnEnded:
        """Call one tool for a person, by the same rules as for the model. No model is asked."""
        turn.closing = True
        tools = await self._tools()
        approvals = Approvals(self._access.judge, self._brief, self._token.value, tools, turn.tell)
        self._approvals = approvals
        await turn.start(SessionStarted(self._token, "", self._brief.workspace, tools.names))
        await turn.tell(*self._access.new_problems(self._access.servers))
        calls = CallRunner(tools, self._bench, approvals, turn, self._access.log, self._access.now)
        await calls.run_alone(use)
        return TurnEnded("completed")

    def _note_start(self, turn: NativeTurn, plan: AgentPlan, composed: Composed) -> None:
        brief, target = self._brief, plan.speakers[0].api.target
        place = {"session": self._token.value, "workspace": brief.workspace, "model": target.title}
        prompt = bounded_text(composed.said.text)
        turn.log.add("run.start", self._access.now(), **place, mode=brief.approval_mode, prompt=prompt)

    async def _plan(self, turn: NativeTurn, approvals: Approvals, tools: Toolbox) -> AgentPlan:
        """Connect to the model. Without a key, a person is asked for one. Raises `EngineError`."""
        try:
            return await self._access.plan()
        except NoKey as missing:
            await turn.start(SessionStarted(self._token, "", self._brief.workspace, tools.names))
            first_run = self._access.first_run(
                approvals, turn.tell, lambda id: turn.close_ask(approvals.id(id))
            )
            try:
                await first_run.run(missing.provider, missing.model)
            except GaveUp as error:
                failure = missing.failure
                text = f"{error} {failure.text}" if str(error) else failure.text
                raise EngineError(replace(failure, text=text)) from error
            return await self._access.plan()

    async def _tools(self) -> Toolbox:
        """Return the tools of this turn, those of MCP servers that are ready among them."""
        servers = self._access.servers
        await servers.settle(SETTLE_S)
        lanes = LANES if self._bench.lanes is not None else ()
        return Toolbox(self._brief.workspace, (*lanes, *make_tools(servers, self._elicit)))

    async def _elicit(self, server: str, params: dict[str, Any]) -> McpReply:
        """Ask a person what a server asks during a call of this turn."""
        assert self._approvals is not None and self._turn is not None, "a call runs in a turn"
        return await answer_server(self._approvals, self._turn.close_ask, server, params)

    async def _choose_search(self, plan: AgentPlan, tools: Toolbox, approvals: Approvals) -> bool:
        """Leave our own search tool out if the provider searches; True if it does.

        Nobody is asked about the provider's searches, so it searches only where the policy allows every search."""
        mode = plan.config.search.mode
        can = mode != "local" and plan.speakers[0].api.has_search
        native = can and await approvals.allows(search.NAME)
        if native or mode == "native":
            tools.leave_out(search.NAME)
        return native

    def _add(self, composed: Composed) -> None:
        """Add a prompt, unless it stands there already: a lost turn is run again."""
        messages = self._history.conversation.messages
        if not messages or messages[-1] != composed.said:
            self._history.add(composed.said)

    async def _work(self, agent: Agent, turn: NativeTurn, prompt: Prompt) -> TurnEnded:
        if _is_compact(prompt) and self._history.conversation.messages:
            turn.closing = True
            await agent.compact()
        elif _is_compact(prompt):
            await turn.tell(NOTHING_TO_COMPACT)
        else:
            await agent.run()
        return TurnEnded("cancelled" if agent.was_stopped else "completed")

    def _explain(self, error: BaseException) -> Failure:
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        self._access.log("native.turn_failed", error=repr(error))
        if isinstance(error, OSError):
            text = f"The session's history cannot be written: {error.strerror}. Make room on the disk."
            return Failure("crash", text, detail=repr(error))
        return Failure("crash", "The native agent failed by a fault of its own.", detail=repr(error))


def read_tool_line(prompt: Prompt) -> Use | None:
    """Read a call that one owner makes; None if the prompt is for the model. Words that somebody typed are never one."""
    word, _, rest = prompt.text.partition(" ")
    if not (prompt.engine_line and prompt.commands and word == TOOL):
        return None
    name, _, given = rest.partition(" ")
    id = f"call_{uuid.uuid4().hex[:12]}"
    try:
        return Use(id, name, msgspec.json.decode(given, type=dict[str, Any]))
    except (msgspec.MsgspecError, RecursionError):
        return Use(id, name, broken=given)


def _is_compact(prompt: Prompt) -> bool:
    return prompt.text.strip() == COMPACT
