"""Finds where turns begin and end in one process's output, and what each cost.

A turn begins with a line that only a turn has (an init, an answer, a call) and ends with a `result`, or with the process.
Notices between two turns wait for the next. A turn that Claude began by itself is a turn like any other. The totals of
Claude Code are those of the session, also across a resume.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from pilothouse.core.engine import Step
from pilothouse.core.event import EngineEvent, Notice, ResumeToken, SessionChanged, SessionStarted, TurnEnded
from pilothouse.core.outcome import Usage
from pilothouse.engines.claude import texts, wire_blocks
from pilothouse.engines.claude.config import ENGINE_ID
from pilothouse.engines.claude.messages import OpenTurn, Out
from pilothouse.engines.claude.wire import Message, ModelUsage, Result, Tokens

HELD_NOTICES = 20
CONTEXT = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens")


class Spending:
    """With `resumed`, the session has cost an unknown amount before this process."""

    def __init__(self, *, resumed: bool = False) -> None:
        self._total: float | None = None if resumed else 0.0
        self.spent_usd = 0.0

    def settle(self, result: Result) -> Usage:
        usage = self._usage(result)
        self.spent_usd += usage.cost_usd or 0.0
        return usage

    def _usage(self, result: Result) -> Usage:
        before, self._total = self._total, result.total_cost_usd
        since = result.model_usage_since_last_result
        if since is not None:
            return _of_models(list(since.values()), result.num_turns)
        return _of_turn(result.usage or Tokens(), _difference(before, self._total), result.num_turns)


def with_context(usage: Usage, asked: Message | None, result: Result) -> Usage:
    """Add how full the window of the model was at its last request, if both are told."""
    tokens = asked.usage if asked is not None and isinstance(asked.usage, dict) else {}
    used = sum(count for name in CONTEXT if isinstance(count := tokens.get(name), int))
    models = (result.model_usage or {}).items()
    windows = [
        told.context_window for name, told in models if asked and name.partition("[")[0] == asked.model
    ]
    if not used or not windows or not windows[0]:
        return usage
    return replace(usage, context_tokens=used, context_window=windows[0])


def _of_models(models: list[ModelUsage], steps: int | None) -> Usage:
    return Usage(
        cost_usd=round(sum((model.cost_usd for model in models), 0.0), 9),
        input_tokens=sum(model.input_tokens for model in models),
        output_tokens=sum(model.output_tokens for model in models),
        cache_read_tokens=sum(model.cache_read_input_tokens for model in models),
        cache_write_tokens=sum(model.cache_creation_input_tokens for model in models),
        steps=steps,
    )


def _of_turn(told: Tokens, cost: float | None, steps: int | None) -> Usage:
    return Usage(
        cost_usd=cost,
        input_tokens=told.input_tokens,
        output_tokens=told.output_tokens,
        cache_read_tokens=told.cache_read_input_tokens,
        cache_write_tokens=told.cache_creation_input_tokens,
        steps=steps,
    )


def _difference(before: float | None, now: float | None) -> float | None:
    """Return the cost since the last total; after `/clear` the total starts again at 0."""
    if before is None or now is None:
        return None
    return round(now - before if now >= before else now, 9)


class Turns:
    def __init__(self, workspace: str) -> None:
        self.workspace = workspace
        self.turn: OpenTurn | None = None
        self.resume: ResumeToken | None = None
        self._session = SessionStarted()
        self._expected = True
        self._late_results = 0
        self._held: deque[Notice] = deque(maxlen=HELD_NOTICES)

    def expect(self) -> None:
        self._expected, self._late_results = True, 0

    def start(self, session: SessionStarted, warnings: Iterable[Notice]) -> Sequence[Step]:
        """Take an init. Every turn has one; in the middle of a turn it means that a result is held back."""
        self._session, self.resume = session, session.resume
        turn, opening = self._open()
        turn.inits += 1
        return [*opening, *turn.emit([session, *warnings])]

    def say(self, steps: Callable[[OpenTurn], Iterable[Step]]) -> Sequence[Step]:
        """Emit steps of a turn; begin one if none runs."""
        turn, opening = self._open()
        return [*opening, *turn.emit(steps(turn))]

    def mention(self, notice: Notice | None) -> Sequence[Step]:
        """Emit a notice now, or, between two turns, with the next turn."""
        if notice is None:
            return ()
        if self.turn is not None:
            return self.turn.emit([notice])
        self._held.append(notice)
        return ()

    def takes(self, result: Result) -> bool:
        """Return False for a result that comes after the end of its turn; see `close`."""
        if self.turn is not None or not self._late_results:
            return True
        self._late_results -= 1
        return False

    def close(self, end: TurnEnded, result: Result | None = None) -> Sequence[Step]:
        """End the turn; do nothing if no turn runs and none is expected."""
        if self.turn is None and not self._expected and result is None:
            return ()
        moved = self._move(result.session_id) if result else []
        opening = self._open()[1] if end.outcome == "completed" else []
        turn = self.turn or OpenTurn()
        closing = [*self._held, *(moved if turn.started else ()), *self._closing_steps(turn, result)]
        answer = turn.answer or _plain_answer(end, result)
        last = TurnEnded(end.outcome, answer, end.failure, end.usage, self.resume if turn.started else None)
        # A one-shot process holds a result back while an agent works in the background, and first runs the turn that
        # this agent wakes: one stream, then a result for each. The first result has the whole cost.
        self._late_results = max(0, turn.inits - 1)
        self.turn, self._expected = None, False
        self._held.clear()
        return [*opening, *turn.emit([*closing, last])]

    def _open(self) -> tuple[OpenTurn, Out]:
        """Return the turn and, if it is new, what begins it: the session, and the notices since the last turn."""
        if self.turn is not None:
            return self.turn, []
        turn = self.turn = OpenTurn()
        turn.started, self._late_results = True, 0
        held = list(self._held)
        self._held.clear()
        return turn, turn.emit([self._session, *held])

    def _move(self, session_id: str) -> list[EngineEvent]:
        """Note the session's id, which `/clear` changes."""
        if not session_id or (self.resume is not None and self.resume.value == session_id):
            return []
        cwd = self.resume.cwd if self.resume else self.workspace
        known, self.resume = self.resume or self.turn, ResumeToken(ENGINE_ID, session_id, cwd)
        self._session = SessionStarted(self.resume, self._session.model, cwd, self._session.tools)
        return [SessionChanged(self.resume)] if known else []

    def _closing_steps(self, turn: OpenTurn, result: Result | None) -> Iterable[Step]:
        if result is not None:
            for block in result.result if isinstance(result.result, list) else ():
                if isinstance(block, wire_blocks.Image):
                    yield from turn.pictures.take(block.source.data)
            for denial in result.permission_denials or ():
                if denial.tool_use_id not in turn.denied:
                    yield texts.denied_call(denial.tool_name, denial.tool_input, self.workspace)
        if turn.noise > 1:
            yield texts.more_noise(turn.noise - 1)


def _plain_answer(end: TurnEnded, result: Result | None) -> str:
    """Return the answer of a turn without text blocks, as in `--output-format json` or with structured output."""
    if end.outcome != "completed" or result is None or result.result is None:
        return ""
    if isinstance(result.result, str):
        return result.result
    return "\n\n".join(block.text for block in result.result if isinstance(block, wire_blocks.Text))
