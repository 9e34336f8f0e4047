"""Notifications of one turn -> events. Pure: `take` for every message, `end` once when the process has ended.

Rules: the events always keep the grammar of core/event.py. Messages of another turn are dropped: a command that
was interrupted may report after the end of its turn. Text of a request that Codex makes again is withdrawn, because the
model's new answer replaces it. Of a sub-agent's thread only its running items are noted, because its asks name them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pilothouse.core.engine import Step
from pilothouse.core.event import (
    AskChanged,
    Asked,
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
from pilothouse.core.ids import AskId, CallId, EngineId
from pilothouse.core.outcome import Usage
from pilothouse.engines.codex import texts, wire
from pilothouse.engines.codex.asks import AsyncQuestions
from pilothouse.engines.codex.failures import explain_error
from pilothouse.engines.codex.usage import TurnUsage
from pilothouse.engines.codex.wire_items import (
    AgentMessage,
    CommandExecution,
    ContextCompaction,
    Item,
    Plan,
    UnknownItem,
    UserMessage,
)
from pilothouse.engines.media import Pictures
from pilothouse.engines.turn_events import TurnEvents

ENGINE_ID = EngineId("codex")

_PLAN = {"inProgress": "active", "completed": "done"}


class TurnTranslator(TurnEvents):
    """One turn of one thread."""

    def __init__(self, thread_id: str, usage: TurnUsage, *, model: str = "", cwd: str = "") -> None:
        super().__init__("Codex", ResumeToken(ENGINE_ID, thread_id, cwd))
        self.turn_id = ""
        """The id of the turn, as soon as it is known."""
        self.items: dict[str, Item] = {}
        """Items that have started and not ended."""
        self.questions: list[AsyncQuestions] = []
        self.answered: set[AskId] = set()
        """Asks of `questions` that were answered."""
        self.limits: wire.RateLimits | None = None
        self.ran_commands = False
        """A command began; Codex may leave it running."""
        self.joined = False
        """The turn ran before this stream began: what had started by then is not known here."""
        self.unread: set[str] = set()
        """Ids of steered messages that the model has not seen yet."""
        self._thread_id = thread_id
        self._cwd = cwd
        self._usage = usage
        self._pictures = Pictures()
        self._attempt: list[str] = []
        """Blocks of the request to the model that runs now."""
        self._error: wire.TurnError | None = None
        self._start = SessionStarted(self._resume, model, cwd)

    def begin(self) -> list[Step]:
        return self.emit([self._start])

    def take(self, heard: wire.Heard) -> Sequence[Step]:
        match heard:
            case wire.TurnStarted(turn=turn, thread_id=self._thread_id):
                self.turn_id = self.turn_id or turn.id
                return ()
            case wire.TurnCompleted(turn=turn, thread_id=self._thread_id) if turn.id == self.turn_id:
                return self._close(turn)
            case wire.ItemStarted(item=item, thread_id=thread) if thread != self._thread_id:
                self.items[item.id] = item
            case wire.ItemCompleted(item=item, thread_id=thread) if thread != self._thread_id:
                self.items.pop(item.id, None)
            case wire.LimitsUpdated(rate_limits=limits):
                self.limits = limits
            case wire.Noise():
                return self.hear_noise(heard)
            case (
                wire.Reply()
                | wire.ServerRequest()
                | wire.Ignored()
                | wire.ThreadStarted()
                | wire.ThreadClosed()
            ):
                return ()
            case _ if heard.thread_id in ("", self._thread_id) and self._is_ours(heard):
                return self.emit(self._steps(heard))
            case _:
                pass
        return ()

    def is_earlier(self, heard: wire.ItemCompleted) -> bool:
        """Tell whether an item belongs to an earlier turn of this thread."""
        return heard.thread_id == self._thread_id and not self._is_ours(heard)

    def _is_ours(self, heard: wire.Heard) -> bool:
        turn_id = getattr(heard, "turn_id", "")
        return not turn_id or not self.turn_id or turn_id == self.turn_id

    def _close(self, turn: wire.Turn) -> Sequence[Step]:
        if turn.status == "interrupted" or self.interrupted:
            return self._finish(TurnEnded("cancelled"))
        if turn.status == "failed":
            error = turn.error or self._error
            return self._finish(TurnEnded("failed", failure=explain_error(error, self.limits)))
        return self._finish(TurnEnded("completed"))

    def _finish(self, end: TurnEnded, before: Iterable[Step] = ()) -> Sequence[Step]:  # pyrefly: ignore[missing-override-decorator]
        lost = [texts.STEER_LOST] if self.unread else []
        asked = [ask.id for one in self.questions for ask in one.asks if ask.id not in self.answered]
        return super()._finish(end, [*before, *lost, *(AskChanged(id, "withdrawn") for id in asked)])

    @property
    def _usage_total(self) -> Usage | None:  # pyrefly: ignore[missing-override-decorator]
        return self._usage.total

    def _steps(self, heard: wire.Heard) -> Iterable[Step]:
        match heard:
            case wire.TextPiece(item_id=id, delta=delta):
                return self._add_text(id, delta)
            case wire.ThoughtPiece(delta=delta):
                return [ThinkingDelta(delta)] if delta else []
            case wire.ItemStarted(item=item):
                return self._open_item(item)
            case wire.ItemCompleted(item=item):
                return self._close_item(item)
            case wire.OutputPiece(item_id=id, delta=delta):
                return [ToolUpdated(CallId(id), output=delta)]
            case wire.PlanUpdated(plan=plan):
                steps = [PlanItem(one.step, _PLAN.get(one.status, "pending")) for one in plan]  # pyrefly: ignore
                return [PlanChanged(tuple(steps))]
            case wire.UsageUpdated(token_usage=told):
                if told.last != wire.TokenCount():  # a request that failed is reported with zeros
                    self._attempt.clear()
                return [UsageChanged(self._usage.take(told))]
            case _:
                return self._notices(heard)

    def _notices(self, heard: wire.Heard) -> Iterable[Step]:
        match heard:
            case wire.ErrorTold(error=error, will_retry=True):
                return [*self._withdraw_attempt(), texts.retried(error)]
            case wire.ErrorTold(error=error):
                self._error = error
                return []
            case wire.Warned():
                return self._once(texts.warned(heard))
            case wire.Rerouted():
                return [texts.rerouted(heard)]
            case wire.ServerStatus(status="failed"):
                return self._once(texts.server_failed(heard))
            case wire.Unknown(name=name):
                return self._once(texts.unknown(name))
            case _:
                return []

    def _open_item(self, item: Item) -> Iterable[Step]:
        self.items[item.id] = item
        self.ran_commands = self.ran_commands or isinstance(item, CommandExecution)
        match item:
            case UserMessage(client_id=id):
                self.unread.discard(id or "")
                return self._withdraw_attempt(unfinished=True)
            case AgentMessage(text=text) if text and not item.questions:
                return self._add_text(item.id, text)
            case UnknownItem(type=name):
                return self._once(texts.unknown(f"item {name}"))
            case _:
                call = texts.describe_item(item, self._cwd)
                if call is not None:
                    self._attempt.clear()
                return [ToolStarted(call)] if call else []

    def _close_item(self, item: Item) -> Iterable[Step]:
        started = self.items.pop(item.id, None)
        match item:
            case AgentMessage(text=text) if item.questions:
                asked = AsyncQuestions(item)
                self.questions.append(asked)
                return [*self._set_text(item.id, text), *(Asked(ask) for ask in asked.asks)]
            case AgentMessage(text=text) | Plan(text=text):
                return self._set_text(item.id, text)
            case ContextCompaction():
                return [texts.COMPACTED]
            case _:
                return self._close_call(item, started)

    def _close_call(self, item: Item, started: Item | None) -> Iterable[Step]:
        call = texts.describe_item(item, self._cwd)
        if call is None:
            return []
        before = texts.describe_item(started, self._cwd) if started is not None else None
        found = [step for image in texts.images_of(item) for step in self._pictures.take(image)]
        opening: list[Step] = [ToolStarted(call)] if before is None else []
        if before is not None and before.title != call.title:
            opening = [ToolUpdated(call.id, title=call.title)]
        why = self.denials.pop(item.id, "")
        return [*opening, *found, ToolFinished(call.id, texts.is_ok(item), texts.output_of(item), why)]

    def _add_text(self, id: str, delta: str) -> Iterable[Step]:  # pyrefly: ignore[missing-override-decorator]
        if delta and id not in self._blocks:
            self._attempt.append(id)
        return super()._add_text(id, delta)

    def _set_text(self, id: str, text: str) -> Iterable[Step]:
        if self._blocks.get(id, "") == text:
            return []
        if id not in self._blocks:
            self._attempt.append(id)
        self._blocks[id] = text
        return [TextSet(id, text)]

    def _withdraw_attempt(self, *, unfinished: bool = False) -> Iterable[Step]:
        """Withdraw the text of a request that is made again; with `unfinished`, only blocks that never ended."""
        blocks = [id for id in self._attempt if id in self.items or not unfinished]
        self._attempt.clear()
        for id in blocks:
            self._blocks.pop(id, None)
            self.items.pop(id, None)
        return [TextSet(id, "") for id in blocks]
