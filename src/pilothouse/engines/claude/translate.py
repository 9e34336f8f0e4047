"""Lines of stream-json -> events. Pure: `feed` for every line, `end` once when the process has ended.

Rules: whatever is fed, each turn is one stream that keeps the grammar of core/event.py, and several turns give several
streams in a row. An unknown line costs a notice at most, harms no other, and is kept in `unknown_lines`. Bytes of images
come out as `MediaFound`, because only a store can keep them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pilothouse.core.engine import Step
from pilothouse.core.event import AskChanged, Asked, ResumeToken, SessionStarted, ToolUpdated, TurnEnded
from pilothouse.core.ids import AskId, CallId
from pilothouse.core.outcome import Failure
from pilothouse.engines.claude import control, texts, wire, wire_blocks, wire_system
from pilothouse.engines.claude.asks import asks_of
from pilothouse.engines.claude.config import ENGINE_ID
from pilothouse.engines.claude.failures import explain_exit, explain_result, was_interrupted
from pilothouse.engines.claude.messages import Messages
from pilothouse.engines.claude.turns import Spending, Turns, with_context
from pilothouse.engines.claude.wire_system import RateLimit

KEPT_LINES = 20
KEPT_LINE_BYTES = 16_384
QUOTED_CHARS = 200

Handler = Callable[[Any], Sequence[Step]]


class Translator:
    """Translates one process's output. With `resumed`, its session had turns before.

    Set `interrupted` when a turn was asked to stop: a process that dies then was cancelled. `server` is the address that
    it talks to. `denials` has the reasons of the gate, by call.
    """

    def __init__(
        self,
        workspace: str = "",
        *,
        resumed: bool = False,
        server: str = "",
        denials: Mapping[str, str] | None = None,
    ) -> None:
        self._server = server
        self._denials = {} if denials is None else denials
        self.line_problem = ""
        self.interrupted = False
        self.state = ""
        self.background_tasks = 0
        self.permission_mode = ""
        """The mode that was reported last; empty before."""
        self._expected_mode = ""
        self.user_message_uuids: tuple[str, ...] = ()
        """Our messages that the current or last turn answers; empty for a turn that Claude began by itself."""
        self.wake_cause = ""
        """Why Claude began a turn by itself, as far as it tells."""
        self.unknown_lines: deque[bytes] = deque(maxlen=KEPT_LINES)
        self._turns = Turns(workspace)
        self._messages = Messages(workspace, self._denials)
        self._spending = Spending(resumed=resumed)
        self._limit: RateLimit | None = None
        self._background: set[str] = set()
        self._warned: set[str] = set()
        self._asked: dict[str, list[AskId]] = {}
        self._cwds: dict[str, str] = {}
        """Folders of calls, which only their hooks tell."""
        self._handlers = self._table()

    @property
    def spent_usd(self) -> float:
        """Cost of this process, as far as it reported."""
        return self._spending.spent_usd

    @property
    def in_turn(self) -> bool:
        return self._turns.turn is not None

    @property
    def resume(self) -> ResumeToken | None:
        return self._turns.resume

    def expect_turn(self) -> None:
        """Note that a prompt was sent: if the process dies now, a turn has failed. The first is expected anyway."""
        self._turns.expect()

    def expect_mode(self, mode: str) -> None:
        """Note that we asked for this mode: the change needs no notice."""
        self._expected_mode = mode

    def feed(self, line: bytes) -> Sequence[Step]:
        return self.take(wire.decode(line), line)

    def take(self, heard: wire.Heard, line: bytes = b"") -> Sequence[Step]:
        """Translate a decoded line."""
        self.line_problem = ""
        steps = self._handlers[type(heard)](heard)
        if self.line_problem:
            self.unknown_lines.append(line[:KEPT_LINE_BYTES])
        return steps

    def end(self, exit_code: int | None = None, stderr_tail: str = "") -> Sequence[Step]:
        """Return what is missing when nothing more can come; nothing between two turns."""
        if self.interrupted:
            return self._close(TurnEnded("cancelled"))
        return self.fail(explain_exit(exit_code, stderr_tail))

    def fail(self, failure: Failure) -> Sequence[Step]:
        """End the running turn for a reason of our own."""
        return self._close(TurnEnded("failed", failure=failure))

    def _table(self) -> dict[type, Handler]:
        return {
            **dict.fromkeys(SILENT, _nothing),
            **dict.fromkeys(texts.NOTICES, self._notice),
            wire.StreamEvent: self._stream,
            wire.Assistant: self._assistant,
            wire.User: self._user,
            wire.Result: self._result,
            wire.Parts: self._parts,
            wire.LooseImage: self._loose_image,
            wire.LooseBlockStart: self._loose_block,
            wire.RateLimitEvent: self._rate_limit,
            wire.CommandLifecycle: self._lifecycle,
            wire.Unknown: self._unknown,
            wire.Noise: self._noise,
            wire_system.Init: self._init,
            wire_system.Status: self._status,
            wire_system.PermissionDenied: self._denied,
            wire_system.TaskStarted: self._task_started,
            wire_system.TaskProgress: self._task_progress,
            wire_system.TaskNotification: self._task_ended,
            wire_system.BackgroundTasks: self._tasks_changed,
            wire_system.SessionState: self._state_changed,
            control.ControlRequest: self._request,
            control.UnknownControlRequest: self._unknown_request,
            control.ControlCancel: self._cancelled,
        }

    # The content of a turn.

    def _stream(self, heard: wire.StreamEvent) -> Sequence[Step]:
        """Translate a streamed event; the hot path comes first. Of a sub-agent the finished blocks are enough."""
        event, turn = heard.event, self._turns.turn
        if heard.parent_tool_use_id is not None:
            return ()
        if type(event) is wire_blocks.BlockDelta and turn is not None and heard.api_message_id:
            delta = event.delta
            if type(delta) is wire_blocks.TextDelta:
                return (turn.add_text(heard.api_message_id, event.index, delta.text),)
            if type(delta) is wire_blocks.InputDelta:
                return ()
        if turn is None and not isinstance(event, wire_blocks.BEGINNINGS):
            return ()
        return self._turns.say(lambda turn: self._messages.stream(turn, heard))

    def _assistant(self, heard: wire.Assistant) -> Sequence[Step]:
        if not self.in_turn and heard.parent_tool_use_id is not None:
            return ()  # a sub-agent in the background, between two turns
        self._note_uuids(heard.user_message_uuids)
        return self._turns.say(lambda turn: self._messages.assistant(turn, heard))

    def _user(self, heard: wire.User) -> Sequence[Step]:
        return self._turns.say(lambda turn: self._messages.user(turn, heard)) if self.in_turn else ()

    def _parts(self, heard: wire.Parts) -> Sequence[Step]:
        """Report the unknown parts first: after a turn's end nothing may follow."""
        strange = [step for kind in heard.unknown for step in self._strange(kind)]
        return [*strange, *self._handlers[type(heard.line)](heard.line)]

    def _loose_image(self, heard: wire.LooseImage) -> Sequence[Step]:
        return self._turns.say(lambda turn: turn.pictures.take(heard.source.data))

    def _loose_block(self, heard: wire.LooseBlockStart) -> Sequence[Step]:
        block = heard.content_block
        return (
            self._loose_image(wire.LooseImage(block.source)) if isinstance(block, wire_blocks.Image) else ()
        )

    def _request(self, heard: control.ControlRequest) -> Sequence[Step]:
        request, turn = heard.request, self._turns.turn
        if isinstance(request, control.HookCallback):
            self._cwds[request.tool_use_id or ""] = request.cwd
        if not isinstance(request, control.CanUseTool):
            return ()
        plan = turn.plans.get(request.tool_use_id, "") if turn else ""
        cwd = self._cwds.pop(request.tool_use_id, "")
        asks = asks_of(heard.request_id, request, self._messages.workspace, plan, cwd)
        self._asked[heard.request_id] = [ask.id for ask in asks]
        return self._turns.say(lambda turn: [Asked(ask) for ask in asks])

    def _cancelled(self, heard: control.ControlCancel) -> Sequence[Step]:
        return self.withdraw(self._asked.pop(heard.request_id, ()))

    def withdraw(self, asks: Sequence[AskId]) -> Sequence[Step]:
        """Return events that withdraw these asks."""
        withdrawn = [AskChanged(id, "withdrawn") for id in asks]
        return self._turns.say(lambda turn: withdrawn) if withdrawn else ()

    # The beginning and the end of a turn.

    def _init(self, heard: wire_system.Init) -> Sequence[Step]:
        if not self.in_turn:
            self.user_message_uuids = ()
        self._note_uuids(heard.user_message_uuids)
        self.permission_mode = heard.permission_mode or self.permission_mode
        self._turns.workspace = self._messages.workspace = self._messages.workspace or heard.cwd
        failed = [server.name for server in heard.mcp_servers if server.status == "failed"]
        warnings = [texts.server_failed(name) for name in failed if self._first(f"server {name}")]
        token = ResumeToken(ENGINE_ID, heard.session_id, heard.cwd or self._messages.workspace)
        return self._turns.start(SessionStarted(token, heard.model, heard.cwd, tuple(heard.tools)), warnings)

    def _result(self, heard: wire.Result) -> Sequence[Step]:
        usage, turn = self._spending.settle(heard), self._turns.turn
        if not self._turns.takes(heard):
            return ()
        usage = with_context(usage, turn.asked if turn else None, heard)
        self._note_uuids(heard.user_message_uuids)
        if was_interrupted(heard):
            return self._close(TurnEnded("cancelled", usage=usage), heard)
        if not heard.is_error:
            return self._close(TurnEnded("completed", usage=usage), heard)
        failure = explain_result(heard, turn.api_error if turn else None, self._limit, self._server)
        return self._close(TurnEnded("failed", failure=failure, usage=usage), heard)

    def _close(self, end: TurnEnded, result: wire.Result | None = None) -> Sequence[Step]:
        self.interrupted, self.wake_cause = False, ""
        self._asked.clear()
        self._cwds.clear()
        return self._turns.close(end, result)

    # Notices and state.

    def _notice(self, heard: Any) -> Sequence[Step]:
        return self._turns.mention(texts.NOTICES[type(heard)](heard))

    def _status(self, heard: wire_system.Status) -> Sequence[Step]:
        mode, expected = heard.permission_mode, self._expected_mode
        self.permission_mode = mode or self.permission_mode
        if mode:
            self._expected_mode = ""
        return () if mode and mode == expected else self._notice(heard)

    def _rate_limit(self, heard: wire.RateLimitEvent) -> Sequence[Step]:
        self._limit = heard.rate_limit_info
        return self._notice(heard)

    def _denied(self, heard: wire_system.PermissionDenied) -> Sequence[Step]:
        title, turn = heard.tool_name, self._turns.turn
        if turn is not None:
            turn.denied.add(heard.tool_use_id)
            title = turn.calls[heard.tool_use_id].title if heard.tool_use_id in turn.calls else title
        if heard.tool_use_id in self._denials:
            return ()  # the end of the call says why
        return self._turns.mention(texts.denied(title, heard.message))

    def _task_started(self, heard: wire_system.TaskStarted) -> Sequence[Step]:
        if heard.is_backgrounded:
            self._background.add(heard.task_id)
        return self._notice(heard)

    def _task_progress(self, heard: wire_system.TaskProgress) -> Sequence[Step]:
        if not self.in_turn or not heard.tool_use_id:
            return ()
        progress = ToolUpdated(CallId(heard.tool_use_id), output=heard.description)
        return self._turns.say(lambda turn: [progress])

    def _task_ended(self, heard: wire_system.TaskNotification) -> Sequence[Step]:
        """Report a background task. One in the foreground has a tool result already."""
        if heard.task_id not in self._background:
            return ()
        self._background.discard(heard.task_id)
        if not self.in_turn:
            self.wake_cause = "background_task"
        return self._turns.mention(texts.task_ended(heard))

    def _lifecycle(self, heard: wire.CommandLifecycle) -> Sequence[Step]:
        self.wake_cause = heard.wakeup_source or self.wake_cause
        return ()

    def _tasks_changed(self, heard: wire_system.BackgroundTasks) -> Sequence[Step]:
        self.background_tasks = len(heard.tasks)
        return ()

    def _state_changed(self, heard: wire_system.SessionState) -> Sequence[Step]:
        self.state = heard.state
        return ()

    def _unknown_request(self, heard: control.UnknownControlRequest) -> Sequence[Step]:
        return self._strange(f"control_request/{heard.request.subtype}")

    def _unknown(self, heard: wire.Unknown) -> Sequence[Step]:
        return self._strange(heard.kind)

    def _strange(self, kind: str) -> Sequence[Step]:
        self.line_problem = self.line_problem or f"unknown: {kind}"
        return self._turns.mention(texts.unknown(kind) if self._first(f"unknown {kind}") else None)

    def _noise(self, heard: wire.Noise) -> Sequence[Step]:
        """Quote the first such line of a turn, and count the others."""
        self.line_problem, turn = "no JSON object", self._turns.turn
        quoted = heard.raw.decode("utf-8", "replace")[:QUOTED_CHARS]
        if turn is None:
            return self._turns.mention(texts.noise(quoted) if self._first("noise") else None)
        turn.noise += 1
        return self._turns.mention(texts.noise(quoted) if turn.noise == 1 else None)

    def _first(self, what: str) -> bool:
        """Return whether this is reported for the first time; after twenty different kinds, always False."""
        if what in self._warned or len(self._warned) >= KEPT_LINES:
            return False
        self._warned.add(what)
        return True

    def _note_uuids(self, uuids: list[str] | None) -> None:
        if uuids:
            self.user_message_uuids = tuple(uuids)


SILENT: tuple[type, ...] = (
    wire_system.Silent,
    wire_system.TaskUpdated,
    wire.ToolProgress,
    wire.ConversationReset,
    wire.KeepAlive,
    control.ControlResponse,
)


def _nothing(heard: Any) -> Sequence[Step]:
    return ()
