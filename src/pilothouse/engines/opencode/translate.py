"""Events of one turn -> events of ours. Pure: `take` for every event, `end` once when the server has ended.

**The end of a turn.** `session.idle` alone is none: OpenCode sends it before the last word of a turn that failed or was
stopped, and again after it. A turn is over when the session is idle and the last request of the turn is. If it is idle
and that request is not (`in_doubt`), or an error came, or a message for the turn is unread, the state is read again.

Ids of messages grow with time. So a prompt or a request with a smaller id than this turn's prompt belongs to an earlier
turn, whose messages OpenCode repeats all the time; a greater one is a message for the running turn, or OpenCode's own, as
after a compaction. Of a sub-agent's session, only its calls and its usage are noted: its asks name them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pilothouse.core.engine import Step
from pilothouse.core.event import (
    PlanChanged,
    PlanItem,
    ResumeToken,
    SessionStarted,
    TextSet,
    ThinkingDelta,
    ToolFinished,
    ToolStarted,
    ToolUpdated,
    TurnEnded,
    UsageChanged,
)
from pilothouse.core.ids import CallId, EngineId
from pilothouse.core.outcome import Failure, Usage
from pilothouse.engines.media import Pictures
from pilothouse.engines.opencode import texts, wire
from pilothouse.engines.opencode.failures import ABORTED, explain_fault
from pilothouse.engines.opencode.wire_parts import (
    Fault,
    Message,
    ReasoningPart,
    StepFinish,
    TextPart,
    ToolPart,
)
from pilothouse.engines.turn_events import TurnEvents

ENGINE_ID = EngineId("opencode")
COMPACTION = "compaction"
GOES_ON = "tool-calls"
BREAKS_OFF = "unknown"
"""A stream of the API that ended without saying why. OpenCode then asks the model again, without a limit."""

_PLAN = {"in_progress": "active", "completed": "done", "cancelled": "done"}


class TurnTranslator(TurnEvents):
    """One turn of one session. Set `interrupted` when it was asked to stop, `failure` when it was given up."""

    def __init__(self, session_id: str, prompt_id: str, *, model: str = "", cwd: str = "") -> None:
        super().__init__("OpenCode", ResumeToken(ENGINE_ID, session_id, cwd))
        self.failure: Failure | None = None
        self.in_doubt = False
        """The session is idle, and the turn has no end yet."""
        self.calls: dict[str, ToolPart] = {}
        """Calls that run now, by their id; those of sub-agents too."""
        self.unread: set[str] = set()
        """Ids of steered messages that the model has not seen yet."""
        self._session_id = session_id
        self._prompt_id = prompt_id
        self._cwd = cwd
        self._usage = TurnUsage()
        self._pictures = Pictures()
        self._requests: dict[str, Message] = {}
        """Requests of this turn to the model, oldest first."""
        self._owners: dict[str, str] = {}
        """The request of each block."""
        self._callers: set[str] = set()
        """Requests that made calls."""
        self._thoughts: set[str] = set()
        self._fault: Fault | None = None
        self._start = SessionStarted(self._resume, model, cwd)

    def begin(self) -> list[Step]:
        return self.emit([self._start])

    def take(self, heard: wire.Heard) -> Sequence[Step]:
        match heard:
            case wire.Noise():
                return self.hear_noise(heard)
            case wire.Unknown(name=name):
                return self.emit(self._once(texts.unknown(name)))
            case wire.Reconnected():
                return self.emit(self._once(texts.RECONNECTED))
            case wire.Connected() | wire.Ignored() | wire.SessionCreated():
                return ()
            case _ if heard.session_id not in ("", self._session_id):
                return self.emit(self._note_child(heard))
            case wire.StatusChanged(status=status):
                return self._change_status(status)
            case wire.SessionFault(error=fault):
                self._fault = fault
                self.in_doubt = True
                return ()
            case _:
                return self.emit(self._steps(heard))

    def close(self) -> Sequence[Step]:
        """End the turn by what is known of it: the session is idle, and nothing more will come."""
        last = self._last
        fault = (last.error if last is not None else None) or self._fault
        aborted = fault is not None and fault.name == ABORTED
        if self.failure is not None:
            return self.fail(self.failure)
        if self.interrupted or aborted:
            return self._finish(TurnEnded("cancelled"))
        if fault is not None or last is None:
            return self.fail(explain_fault(fault))
        # A call was refused elsewhere, without a word: OpenCode then stops.
        return self._finish(TurnEnded("cancelled" if last.finish == GOES_ON else "completed"))

    def is_ours(self, message_id: str) -> bool:
        """Tell whether a message of this session belongs to this turn."""
        return message_id >= self._prompt_id

    @property
    def broken_off(self) -> int:
        """The number of requests whose answer broke off."""
        cut = [one for one in self._requests.values() if one.finish == BREAKS_OFF and one.is_over]
        return sum(one.id not in self._callers for one in cut)

    @property
    def _last(self) -> Message | None:
        return next(reversed(self._requests.values()), None)

    @property
    def _usage_total(self) -> Usage | None:  # pyrefly: ignore[missing-override-decorator]
        return self._usage.total

    def _finish(self, end: TurnEnded, before: Iterable[Step] = ()) -> Sequence[Step]:  # pyrefly: ignore[missing-override-decorator]
        return super()._finish(end, [*before, *([texts.STEER_LOST] if self.unread else [])])

    def _change_status(self, status: wire.Status) -> Sequence[Step]:
        if status.type == "retry":
            return self.emit([*self._withdraw_attempt(), texts.retried(status.attempt, status.message)])
        if status.type != "idle":
            self.in_doubt = False
            return ()
        waits = bool(self.unread) and not self.interrupted
        if self._last is None or not self._last.is_over or waits:
            self.in_doubt = True
            return ()
        return self.close()

    def _steps(self, heard: wire.Heard) -> Iterable[Step]:
        match heard:
            case wire.MessageUpdated(info=info):
                return self._note_message(info)
            case wire.PartUpdated(part=part) if part.message_id in self._requests:
                return self._take_part(part)
            case wire.PartDelta(message_id=message, part_id=id, delta=delta) if message in self._requests:
                return self._say(message, id, delta)
            case wire.PartRemoved(part_id=id) if id in self._blocks:
                return self._set_text(self._owners[id], id, "")
            case wire.TodosUpdated(todos=todos):
                items = [PlanItem(one.content, _PLAN.get(one.status, "pending")) for one in todos]  # pyrefly: ignore
                return [PlanChanged(tuple(items))]
            case wire.Compacted():
                return [texts.COMPACTED]
            case _:
                return []

    def _note_message(self, info: Message) -> Iterable[Step]:
        if info.role != "assistant" or not self.is_ours(info.parent_id):
            return []
        self._requests[info.id] = info
        self.unread = {id for id in self.unread if id > info.parent_id}
        return []

    def _take_part(self, part: object) -> Iterable[Step]:
        match part:
            case TextPart() if part.synthetic or part.ignored or self._is_summary(part.message_id):
                return []
            case TextPart(text=text) if text or part.time.end is not None:
                return self._set_text(part.message_id, part.id, text)
            case ReasoningPart(id=id):
                self._thoughts.add(id)
                return []
            case ToolPart():
                return self._take_call(part)
            case StepFinish():
                return [UsageChanged(self._usage.take(part))]
            case _:
                return []

    def _is_summary(self, message_id: str) -> bool:
        return self._requests[message_id].mode == COMPACTION

    def _take_call(self, part: ToolPart) -> Iterable[Step]:
        if part.state.status == "pending":
            return []
        self._callers.add(part.message_id)
        known = self.calls.get(part.call_id)
        call = texts.describe(part, self._cwd)
        self._note_call(part)
        if call is None:
            return []
        opening: list[Step] = [] if known is not None else [ToolStarted(call)]
        if part.state.status == "running":
            return [*opening, *self._more_output(call.id, part, known)]
        found = [step for image in texts.images_of(part) for step in self._pictures.take(image)]
        why = self.denials.pop(part.call_id, "")
        return [*opening, *found, ToolFinished(call.id, texts.is_ok(part), texts.output_of(part), why)]

    def _more_output(self, id: CallId, part: ToolPart, known: ToolPart | None) -> Iterable[Step]:
        """Return what a running command printed since the last event, which repeats all of it."""
        before = str(known.state.metadata.get("output") or "") if known is not None else ""
        now = str(part.state.metadata.get("output") or "")
        added = now.removeprefix(before)
        return [ToolUpdated(id, output=added)] if added else []

    def _note_call(self, part: ToolPart) -> None:
        if part.state.status == "running":
            self.calls[part.call_id] = part
        else:
            self.calls.pop(part.call_id, None)

    def _note_child(self, heard: wire.Heard) -> Iterable[Step]:
        match heard:
            case wire.PartUpdated(part=ToolPart() as part) if part.state.status != "pending":
                self._note_call(part)
            case wire.PartUpdated(part=StepFinish() as step):
                return [UsageChanged(self._usage.take(step))]
            case _:
                pass
        return []

    def _say(self, message: str, id: str, delta: str) -> Iterable[Step]:
        if not delta or self._is_summary(message):
            return []
        if id in self._thoughts:
            return [ThinkingDelta(delta)]
        self._owners[id] = message
        return self._add_text(id, delta)

    def _set_text(self, message: str, id: str, text: str) -> Iterable[Step]:
        if self._blocks.get(id, "") == text:
            return []
        self._owners[id] = message
        self._blocks[id] = text
        return [TextSet(id, text)]

    def _withdraw_attempt(self) -> Iterable[Step]:
        """Withdraw the text of a request that is made again."""
        last = self._last
        again = [id for id, owner in self._owners.items() if last is not None and owner == last.id]
        return [step for id in again for step in self._set_text(self._owners[id], id, "")]


class TurnUsage:
    """The tokens and the price of one turn: the sum of its requests to the model, those of sub-agents too.

    OpenCode computes the price by list prices, so it is an estimate. A model without a price costs 0 there, which says nothing.
    """

    def __init__(self) -> None:
        self._steps: dict[str, StepFinish] = {}
        """By the part's id: one that is read again counts once."""

    def take(self, step: StepFinish) -> Usage:
        self._steps[step.id] = step
        return self._sum()

    @property
    def total(self) -> Usage | None:
        return self._sum() if self._steps else None

    def _sum(self) -> Usage:
        steps = self._steps.values()
        cost = sum(step.cost for step in steps)
        return Usage(
            cost_usd=round(cost, 9) if cost else None,
            input_tokens=sum(step.tokens.input for step in steps),
            output_tokens=sum(step.tokens.output + step.tokens.reasoning for step in steps),
            cache_read_tokens=sum(step.tokens.cache.read for step in steps),
            cache_write_tokens=sum(step.tokens.cache.write for step in steps),
            steps=len(steps),
            estimated=True if cost else None,
        )
