"""Updates of one turn -> events. Pure: `take` for every update, `close` for the end of a prompt, `end` when the process has ended.

Rules: the events always keep the grammar of core/event.py. A call is known by its id, and may first be seen in a request for
permission. Text without an id of its message begins a new block after each call. An agent that sends its model's failure as a
text fails the turn if it says nothing else. A turn may consist of several prompts: the words of a person who said no are
given to the model in a prompt of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from pilothouse.core.engine import Step
from pilothouse.core.event import (
    Level,
    Notice,
    PlanChanged,
    PlanItem,
    ResumeToken,
    SessionStarted,
    ThinkingDelta,
    ToolFinished,
    ToolStarted,
    ToolUpdated,
    TurnEnded,
    UsageChanged,
)
from pilothouse.core.ids import CallId
from pilothouse.core.outcome import Failure, Usage
from pilothouse.engines.acp.agents import Agent
from pilothouse.engines.acp.calls import Tool, describe, merge, output_of
from pilothouse.engines.acp.failures import explain_error
from pilothouse.engines.acp.wire import Update, images_of, text_of
from pilothouse.engines.jsonrpc import Reply, WireError
from pilothouse.engines.media import Pictures
from pilothouse.engines.turn_events import TurnEvents

TEXT_CHARS = 500
MAX_TOOLS = 10_000

_PLAN = {"in_progress": "active", "completed": "done"}
_ENDED = ("completed", "failed")
_LEVELS: Mapping[str, Level] = {"warning": "warning", "error": "error"}
_STOPPED = {
    "max_tokens": "{program} stopped: the answer reached its limit of tokens. Say “continue” to go on.",
    "max_turn_requests": "{program} stopped: the turn reached its limit of model requests. Say “continue” to go on.",
    "refusal": "{program} refuses to go on with this conversation. Start a new session, or ask for something else.",
}
_UNKNOWN_STOP = "{program} ended the turn for a reason that Pilothouse does not know: {reason}."
_TOKENS: Mapping[str, tuple[str, ...]] = {
    "input_tokens": ("inputTokens", "input_tokens"),
    "output_tokens": ("outputTokens", "output_tokens"),
    "cache_read_tokens": ("cachedReadTokens", "cachedInputTokens"),
    "cache_write_tokens": ("cachedWriteTokens", "cacheWriteInputTokens"),
}


class TurnTranslator(TurnEvents):
    """One turn of one session of an agent. `spent` and `counted` are the session's cost and tokens before this turn."""

    def __init__(
        self,
        agent: Agent,
        resume: ResumeToken,
        *,
        model: str = "",
        spent: float = 0.0,
        counted: Mapping[str, int] | None = None,
    ) -> None:
        super().__init__(agent.title, resume)
        self.agent = agent
        self.tools: dict[str, Tool] = {}
        """Calls of this turn, also those that have ended."""
        self.spent = spent
        """The session's cost now, as the agent reports it."""
        self.counted: Mapping[str, int] = counted or {}
        """The session's tokens now, of an agent that counts the session."""
        self.quiet_since_no = False
        """True while the agent said and did nothing since a call was declined."""
        self._before = spent
        self._start = SessionStarted(resume, model, resume.cwd)
        self._pictures = Pictures()
        self._number = 0
        self._retried = False
        """The agent said, since the last call, that it repeats a request."""
        self._problem: tuple[str, str] | None = None
        """The block and the text of a failure that the agent said last."""
        self._usage: Usage | None = None

    @property
    def cwd(self) -> str:
        return self._resume.cwd

    @property
    def _usage_total(self) -> Usage | None:  # pyrefly: ignore[missing-override-decorator]
        return self._usage

    def begin(self) -> list[Step]:
        return self.emit([self._start])

    def take(self, update: Update) -> Sequence[Step]:
        return self.emit(self._steps(update))

    def close(self, reply: Reply) -> Sequence[Step]:
        """End the turn as its prompt ended."""
        if self.interrupted:
            self._count(reply.result)
            return self._finish(TurnEnded("cancelled"))
        if reply.error is not None:
            return self.fail(explain_error(reply.error, self._program, self.agent.login))
        self._count(reply.result)
        if failure := self._said_failure():
            return self.fail(failure)
        reason = str(reply.result.get("stopReason") or "")
        if reason == "cancelled":
            return self._finish(TurnEnded("cancelled"))
        told = [] if reason == "end_turn" else [self._explain_stop(reason)]
        return self._finish(TurnEnded("completed"), told)

    def count(self, reply: Reply) -> None:
        """Take the usage of a prompt that is not the turn's last."""
        self._count(reply.result)

    def take_call(self, update: Update) -> list[Step]:
        """Take a call that is known from a request for permission."""
        return self.emit(self._call(update))

    def _finish(self, end: TurnEnded, before: Iterable[Step] = ()) -> Sequence[Step]:  # pyrefly: ignore[missing-override-decorator]
        return [*self.emit(self._tell_problem()), *super()._finish(end, before)]

    def _explain_stop(self, reason: str) -> Notice:
        text = _STOPPED.get(reason, _UNKNOWN_STOP).format(
            program=self._program, reason=reason[:100] or "none"
        )
        return Notice("warning", "stop_reason", text)

    def _steps(self, update: Update) -> Iterable[Step]:
        match update.session_update:
            case "agent_message_chunk":
                return self._say(update)
            case "agent_thought_chunk":
                text = text_of(update.content)
                return [ThinkingDelta(text)] if text else []
            case "tool_call" | "tool_call_update":
                return self._call(update)
            case "plan":
                return [
                    PlanChanged(tuple(_plan_item(one) for one in update.entries if isinstance(one, dict)))
                ]
            case "usage_update":
                return self._spend(update)
            case "notice":
                text = "\n".join(filter(None, (update.title, update.description)))[:TEXT_CHARS]
                return self._once(Notice(_LEVELS.get(update.severity, "info"), "engine_notice", text))
            case "compaction_update" if update.status == "completed":
                return self._once(Notice("info", "compacted", "The conversation was compacted."))
            case _:
                return []

    def _say(self, update: Update) -> Iterable[Step]:
        meta = update.meta
        if isinstance(meta, dict) and isinstance(told := meta.get("usage"), dict):
            self._add_usage(told)
        found = [step for image in images_of(update.content) for step in self._pictures.take(image)]
        text = text_of(update.content)
        if text:
            self.quiet_since_no = False
        return [*self._tell(update.message_id or f"text-{self._number}", text), *found]

    def _tell(self, block: str, text: str) -> Iterable[Step]:
        """Add a text, or keep it back while it may be how the agent's model failed."""
        if self.agent.retries and re.fullmatch(self.agent.retries, text):
            self._retried = True
            return self._once(Notice("warning", "api_retry", text[:TEXT_CHARS]))
        before = self._tell_problem()
        if self.agent.fails and re.fullmatch(self.agent.fails, text, re.DOTALL):
            self._problem = (block, text)
            return before
        return [*before, *self._add_text(block, text)]

    def _tell_problem(self) -> list[Step]:
        """Return the text that was kept back: more came after it."""
        kept, self._problem = self._problem, None
        return list(self._add_text(*kept)) if kept else []

    def _said_failure(self) -> Failure | None:
        """Return the failure that the agent said, if it said nothing else since its last call or its retries."""
        block, text = self._problem or ("", "")
        found = re.fullmatch(self.agent.fails, text, re.DOTALL) if text else None
        if found is None or (block in self._blocks and not self._retried):
            return None
        self._problem = None
        return explain_error(
            WireError(found["why"], int(found["status"] or 0)), self._program, self.agent.login
        )

    def _call(self, update: Update) -> Iterable[Step]:
        id = update.tool_call_id
        before = self.tools.get(id)
        if not id or (before is None and len(self.tools) >= MAX_TOOLS):
            return []
        tool = self.tools[id] = merge(before, update, self.agent)
        if before is not None and before.status in _ENDED:
            return []
        shown = describe(tool, self.cwd, self.agent)
        if before is None:
            self._number += 1
            self.quiet_since_no = self._retried = False
            opening: list[Step] = [*self._tell_problem(), ToolStarted(shown)]
        else:
            was = describe(before, self.cwd, self.agent)
            opening = [ToolUpdated(shown.id, title=shown.title)] if was.title != shown.title else []
        return [*opening, *(self._close_call(tool) if tool.status in _ENDED else ())]

    def _close_call(self, tool: Tool) -> Iterable[Step]:
        found = [step for image in images_of(tool.content) for step in self._pictures.take(image)]
        why = self.denials.pop(tool.id, "")
        return [*found, ToolFinished(CallId(tool.id), tool.status == "completed", output_of(tool), why)]

    def _spend(self, update: Update) -> Iterable[Step]:
        """Take the session's whole cost and size, and report this turn's part of the cost."""
        cost = update.cost
        if update.used is not None and update.size:
            usage = self._usage or Usage()
            self._usage = msgspec.structs.replace(
                usage, context_tokens=update.used, context_window=update.size
            )
        if not isinstance(cost, dict) or cost.get("currency") != "USD":
            return []
        amount = cost.get("amount")
        if not isinstance(amount, int | float) or isinstance(amount, bool):
            return []
        if amount < self._before:  # the agent counts anew
            self._before = 0.0
        self.spent = float(amount)
        self._usage = msgspec.structs.replace(
            self._usage or Usage(), cost_usd=round(amount - self._before, 9)
        )
        return [UsageChanged(self._usage)]

    def _count(self, result: Mapping[str, Any]) -> None:
        """Take the tokens that the end of a prompt reports."""
        told, meta = result.get("usage"), result.get("_meta")
        quota = meta.get("quota") if isinstance(meta, dict) else None
        counted = (
            told if isinstance(told, dict) else quota.get("token_count") if isinstance(quota, dict) else None
        )
        if isinstance(counted, dict):
            self._add_usage(self._of_turn(counted) if self.agent.counts_session else counted)

    def _of_turn(self, told: Mapping[str, Any]) -> Mapping[str, int]:
        before, self.counted = (
            self.counted,
            {key: value for key, value in told.items() if isinstance(value, int)},
        )
        return {key: max(0, value - before.get(key, 0)) for key, value in self.counted.items()}

    def _add_usage(self, told: Mapping[str, Any]) -> None:
        usage = self._usage or Usage()
        added = {
            name: (getattr(usage, name) or 0) + number
            for name, keys in _TOKENS.items()
            if (number := _number(told, keys)) is not None
        }
        self._usage = msgspec.structs.replace(usage, **added)


def _number(told: Mapping[str, Any], keys: tuple[str, ...]) -> int | None:
    found = [told[key] for key in keys if isinstance(told.get(key), int)]
    return found[0] if found else None


def _plan_item(entry: Mapping[str, Any]) -> PlanItem:
    status = _PLAN.get(str(entry.get("status")), "pending")
    return PlanItem(str(entry.get("content") or ""), status)  # pyrefly: ignore[bad-argument-type]
