"""Where turns begin and end in one process's output.

A turn begins with what only a turn can say (an init, an answer, a call) and ends with a `result`, or with the process.
What is said between two turns waits for the next. A turn that nobody asked for is a turn like any other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence

from pilothouse.core.engine import MediaFound
from pilothouse.core.event import EngineEvent, Notice, ResumeToken, SessionChanged, SessionStarted, TurnEnded
from pilothouse.core.ids import EngineId
from pilothouse.engines.claude import blocks, notices
from pilothouse.engines.claude.turn import OpenTurn, Out
from pilothouse.engines.claude.wire import Result

ENGINE_ID = EngineId("claude")
HELD_NOTICES = 20

Step = EngineEvent | MediaFound


class Turns:
    def __init__(self, workspace: str) -> None:
        self.workspace = workspace
        self.turn: OpenTurn | None = None
        self.resume: ResumeToken | None = None
        self._session = SessionStarted()
        self._awaited = True
        self._owed = 0
        self._held: deque[Notice] = deque(maxlen=HELD_NOTICES)

    def expect(self) -> None:
        self._awaited, self._owed = True, 0

    def start(self, session: SessionStarted, warnings: Iterable[Notice]) -> Sequence[Step]:
        """An init. Every turn has one; in the middle of a turn it tells of a result that is held back."""
        self._session, self.resume = session, session.resume
        turn, opening = self._open()
        turn.inits += 1
        return [*opening, *turn.emit([session, *warnings])]

    def say(self, steps: Callable[[OpenTurn], Iterable[Step]]) -> Sequence[Step]:
        """What belongs to a turn; one is begun if none runs."""
        turn, opening = self._open()
        return [*opening, *turn.emit(steps(turn))]

    def mention(self, notice: Notice | None) -> Sequence[Step]:
        """What may be said at any time."""
        if notice is None:
            return ()
        if self.turn is not None:
            return self.turn.emit([notice])
        self._held.append(notice)
        return ()

    def takes(self, result: Result) -> bool:
        """False for a result that comes after the end of its turn; see `close`."""
        if self.turn is not None or not self._owed:
            return True
        self._owed -= 1
        return False

    def close(self, end: TurnEnded, result: Result | None = None) -> Sequence[Step]:
        """Nothing if no turn runs and none is awaited."""
        if self.turn is None and not self._awaited and result is None:
            return ()
        moved = self._move(result.session_id) if result else []
        opening = self._open()[1] if end.outcome == "completed" else []
        turn = self.turn or OpenTurn()
        closing = [*self._held, *(moved if turn.started else ()), *self._last_words(turn, result)]
        answer = turn.answer or _plain_answer(end, result)
        last = TurnEnded(end.outcome, answer, end.failure, end.usage, self.resume if turn.started else None)
        # A one-shot process holds a result back while an agent works in the background, and runs the turn that
        # this agent wakes first: one stream, then a result for each. The first of them tells the whole cost.
        self._owed = max(0, turn.inits - 1)
        self.turn, self._awaited = None, False
        self._held.clear()
        return [*opening, *turn.emit([*closing, last])]

    def _open(self) -> tuple[OpenTurn, Out]:
        """The turn, and what begins it: the session as it was told last, and what was said since the turn before."""
        if self.turn is not None:
            return self.turn, []
        turn = self.turn = OpenTurn()
        turn.started, self._owed = True, 0
        held = list(self._held)
        self._held.clear()
        return turn, turn.emit([self._session, *held])

    def _move(self, session_id: str) -> list[EngineEvent]:
        """The session's id is the one that was told last; `/clear` changes it."""
        if not session_id or (self.resume is not None and self.resume.value == session_id):
            return []
        cwd = self.resume.cwd if self.resume else self.workspace
        known, self.resume = self.resume or self.turn, ResumeToken(ENGINE_ID, session_id, cwd)
        self._session = SessionStarted(self.resume, self._session.model, cwd, self._session.tools)
        return [SessionChanged(self.resume)] if known else []

    def _last_words(self, turn: OpenTurn, result: Result | None) -> Iterable[Step]:
        if result is not None:
            for block in result.result if isinstance(result.result, list) else ():
                if isinstance(block, blocks.Image):
                    yield from turn.pictures.take(block.source)
            for denial in result.permission_denials or ():
                if denial.tool_use_id not in turn.denied:
                    yield notices.denied_call(denial.tool_name, denial.tool_input, self.workspace)
        if turn.noise > 1:
            yield notices.more_noise(turn.noise - 1)


def _plain_answer(end: TurnEnded, result: Result | None) -> str:
    """A turn without any text block: `--output-format json` has only the result, and so has a structured output."""
    if end.outcome != "completed" or result is None or result.result is None:
        return ""
    if isinstance(result.result, str):
        return result.result
    return "\n\n".join(block.text for block in result.result if isinstance(block, blocks.Text))
