"""`--output-format text` -> events: all that is printed is the answer.

For CLIs without stream-json. The CLI prints when it is done, its last words alone, or what went wrong; there is no cost,
and no session id but the one we chose. Tools are seen only where somebody reads the session's log for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pilothouse.core.engine import MediaFound
from pilothouse.core.event import (
    EngineEvent,
    PlanChanged,
    ResumeToken,
    SessionStarted,
    TextSet,
    ToolFinished,
    ToolStarted,
    ToolUpdated,
    TurnEnded,
)
from pilothouse.core.grammar import Grammar
from pilothouse.core.outcome import Failure
from pilothouse.engines.claude.failures import explain_exit, explain_printed
from pilothouse.engines.claude.turns import Step

BLOCK = "text:0"
MAX_BYTES = 8 * 1024 * 1024
ACTIVITY = (ToolStarted, ToolUpdated, ToolFinished, PlanChanged)


class TextTranslator:
    """One process, which is one turn."""

    def __init__(self, resume: ResumeToken | None = None, model: str = "") -> None:
        self.puzzle = ""
        self.interrupted = False
        self.begun = False
        """The session exists: something of it was seen."""
        self._session = SessionStarted(resume, model, resume.cwd if resume else "")
        self._grammar = Grammar()
        self._lines: list[str] = []
        self._bytes = 0

    def feed(self, line: bytes) -> Sequence[Step]:
        """Kept to the end: only the exit code tells whether this is the answer or what went wrong."""
        self._bytes += len(line) + 1
        if self._bytes <= MAX_BYTES:
            self._lines.append(line.decode("utf-8", "replace"))
        return ()

    def watch(self, steps: Iterable[Step]) -> list[Step]:
        """Of what the session's log tells: the tools, and what they made."""
        seen = [step for step in steps if isinstance(step, (*ACTIVITY, MediaFound))]
        return [*self._open(), *self._emit(seen)] if seen else []

    def end(self, exit_code: int | None = None, stderr_tail: str = "") -> Sequence[Step]:
        printed = "\n".join(self._lines).strip("\n")
        if self.interrupted:
            return self._close(TurnEnded("cancelled"))
        if exit_code == 0 and printed.strip():
            return [
                *self._open(),
                *self._emit([TextSet(BLOCK, printed)]),
                *self._close(TurnEnded("completed", printed)),
            ]
        if exit_code and printed.strip():
            self.begun = True
            return self.fail(explain_printed(printed))
        return self.fail(explain_exit(exit_code, stderr_tail))

    def fail(self, failure: Failure) -> Sequence[Step]:
        return self._close(TurnEnded("failed", failure=failure))

    def _open(self) -> list[Step]:
        self.begun = True
        return self._emit([self._session])

    def _close(self, end: TurnEnded) -> list[Step]:
        opening = self._open() if self.begun else []
        resume = self._session.resume if self.begun else None
        return [
            *opening,
            *self._grammar.feed(TurnEnded(end.outcome, end.answer, end.failure, None, resume)),
        ]

    def _emit(self, steps: Iterable[EngineEvent | MediaFound]) -> list[Step]:
        out: list[Step] = []
        for step in steps:
            out += [step] if isinstance(step, MediaFound) else self._grammar.feed(step)
        return out
