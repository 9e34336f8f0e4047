"""Lines of `--output-format text` -> events: all that is printed is the answer.

For CLIs without stream-json. There are no tools to be seen here, no cost, and no session id but the one we chose.
"""

from __future__ import annotations

from collections.abc import Sequence

from pilothouse.core.event import EngineEvent, ResumeToken, SessionStarted, TextDelta, TurnEnded
from pilothouse.core.failure import Failure
from pilothouse.core.grammar import Grammar
from pilothouse.engines.claude.failures import explain_exit

BLOCK = "text:0"


class TextTranslator:
    """One process, which is one turn."""

    def __init__(self, resume: ResumeToken | None = None, model: str = "") -> None:
        self.puzzle = ""
        self.interrupted = False
        self._session = SessionStarted(resume, model, resume.cwd if resume else "")
        self._grammar = Grammar()
        self._lines: list[str] = []

    def feed(self, line: bytes) -> Sequence[EngineEvent]:
        text = line.decode("utf-8", "replace")
        opening = [] if self._lines else self._grammar.feed(self._session)
        piece = text if not self._lines else f"\n{text}"
        self._lines.append(text)
        return [*opening, *self._grammar.feed(TextDelta(BLOCK, piece))]

    def end(self, exit_code: int | None = None, stderr_tail: str = "") -> Sequence[EngineEvent]:
        if self.interrupted:
            return self._close(TurnEnded("cancelled"))
        if exit_code == 0 and self._lines:
            return self._close(TurnEnded("completed"))
        return self.fail(explain_exit(exit_code, stderr_tail))

    def fail(self, failure: Failure) -> Sequence[EngineEvent]:
        return self._close(TurnEnded("failed", failure=failure))

    def _close(self, end: TurnEnded) -> Sequence[EngineEvent]:
        resume = self._session.resume if self._lines else None
        answer = "\n".join(self._lines).strip("\n")
        return self._grammar.feed(TurnEnded(end.outcome, answer, end.failure, None, resume))
