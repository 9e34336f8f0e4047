"""The events of one turn, for the translators of engines: passed through the grammar, ended once, noise counted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pilothouse.core.engine import Step
from pilothouse.core.event import (
    AskChanged,
    EngineEvent,
    Grammar,
    Notice,
    ResumeToken,
    TextDelta,
    TurnEnded,
)
from pilothouse.core.ids import AskId
from pilothouse.core.outcome import Failure, Usage
from pilothouse.core.view import join_blocks
from pilothouse.engines.jsonrpc import Noise
from pilothouse.engines.link import Exit, explain_exit

QUOTED_CHARS = 200


class TurnEvents:
    """Set `interrupted` when the turn was asked to stop: a dead process then means cancelled. `program` is its name for people."""

    def __init__(self, program: str, resume: ResumeToken) -> None:
        self.denials: dict[str, str] = {}
        """Why calls were denied, by their id."""
        self.interrupted = False
        self._program = program
        self._resume = resume
        self._grammar = Grammar()
        self._blocks: dict[str, str] = {}
        self._noise = 0
        self._told: set[str] = set()

    @property
    def ended(self) -> bool:
        return self._grammar.ended

    @property
    def _usage_total(self) -> Usage | None:
        return None

    def emit(self, steps: Iterable[Step]) -> list[Step]:
        """Pass steps through the grammar. Media is not an event yet, and passes as it is."""
        kept: list[Step] = []
        for step in steps:
            kept += self._grammar.feed(step) if isinstance(step, EngineEvent) else [step] * (not self.ended)
        return kept

    def end(self, last: Exit) -> Sequence[Step]:
        """Return what is missing when nothing more can come; nothing after a `TurnEnded`."""
        if self.ended:
            return ()
        if self.interrupted:
            return self._finish(TurnEnded("cancelled"))
        return self.fail(explain_exit(last))

    def fail(self, failure: Failure) -> Sequence[Step]:
        return self._finish(TurnEnded("failed", failure=failure))

    def withdraw(self, ask_ids: Iterable[AskId]) -> list[Step]:
        return self.emit(AskChanged(id, "withdrawn") for id in ask_ids)

    def _finish(self, end: TurnEnded, before: Iterable[Step] = ()) -> Sequence[Step]:
        """End the turn with everything that was said; `before` comes just before the end."""
        answer = join_blocks(self._blocks.values())
        last = TurnEnded(end.outcome, answer, end.failure, self._usage_total, self._resume)
        more = f"{self._program} printed {self._noise - 1} more lines that are no messages."
        notices = [Notice("warning", "engine_noise", more)] if self._noise > 1 else []
        return self.emit([*notices, *before, last])

    def _add_text(self, id: str, delta: str) -> Iterable[Step]:
        if not delta:
            return []
        self._blocks[id] = self._blocks.get(id, "") + delta
        return [TextDelta(id, delta)]

    def _once(self, notice: Notice) -> Iterable[Step]:
        if notice.text in self._told:
            return []
        self._told.add(notice.text)
        return [notice]

    def hear_noise(self, noise: Noise) -> Sequence[Step]:
        known, self._noise = self._noise, self._noise + noise.lines
        if known:
            return ()
        quoted = noise.raw.decode("utf-8", "replace")[:QUOTED_CHARS]
        words = f"{self._program} printed something that is no message: {quoted}"
        return self.emit([Notice("warning", "engine_noise", words)])
