"""Entries of a transcript, from a turn and its event log: what people said, what the agent said and did, what was asked.

An entry is settled once later events cannot change it. The settled entries of a log are a prefix of those of any longer
log of the same turn, so a turn can be stored in portions.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from msgspec import Struct

from pilothouse.core.ask import Ask
from pilothouse.core.ask_words import subject
from pilothouse.core.channel import LoggedEvent
from pilothouse.core.conversation import Session
from pilothouse.core.event import (
    AskChanged,
    Asked,
    EngineEvent,
    Notice,
    PromptAdded,
    SessionStarted,
    TextDelta,
    TextSet,
    ToolFinished,
    ToolStarted,
    ToolUpdated,
    TurnEnded,
)
from pilothouse.core.ids import AskId, CallId
from pilothouse.core.message import clean_text
from pilothouse.core.text import first_line
from pilothouse.core.transcript import Entry, Role
from pilothouse.core.turn import Turn
from pilothouse.runtime.turns.prompt import spoken
from pilothouse.runtime.turns.record import COMPACTION

MAX_ENTRIES = 2000
"""The most entries of one turn; later steps are left out."""
TEXT_CHARS = 100_000
STEP_CHARS = 300
CUT = " … (shortened)"


class _Draft(Struct):
    """An entry that later events may still change."""

    at: float
    role: Role
    who: str
    text: str = ""
    settled: bool = True


class _Reader:
    def __init__(self, turn: Turn) -> None:
        self._engine = turn.engine
        self.drafts: list[_Draft] = []
        self._texts: dict[str, _Draft] = {}
        self._steps: dict[CallId, _Draft] = {}
        self._asks: dict[AskId, Ask] = {}
        self._prompts: set[str] = set()
        self._begins = False

    def read(self, at: float, event: EngineEvent) -> None:
        match event:
            case SessionStarted():
                self._begins = True
            case PromptAdded(text=text, by=by):
                self._said(at, by, text)
            case TextDelta(block_id=id, text=text, parent_id=None):
                self._text(at, id).text += text
            case TextSet(block_id=id, text=text, parent_id=None):
                self._text(at, id).text = text
            case ToolStarted(call=call):
                step = self._steps[call.id] = self._add(at, "step", call.kind, call.title)
                step.settled = False
            case ToolUpdated(call_id=id, title=str(title)) if id in self._steps:
                self._steps[id].text = title
            case ToolFinished(call_id=id, ok=ok, denied=denied) if id in self._steps:
                step = self._steps.pop(id)
                step.text, step.settled = first_line(step.text, STEP_CHARS) + _ending(ok, denied), True
            case Asked(ask=ask):
                self._asks[ask.id] = ask
            case AskChanged(ask_id=id, state=state, by=by, said=said) if id in self._asks:
                about = subject(self._asks.pop(id), STEP_CHARS)
                self._add(at, "ask", self._engine, f"{about}: {said or state}{f' ({by})' if by else ''}")
            case Notice(kind=kind, text=text) if kind in COMPACTION:
                self._add(at, "notice", self._engine, text)
            case TurnEnded():
                self._end(at, event)
            case _:
                pass

    def _add(self, at: float, role: Role, who: str, text: str) -> _Draft:
        """Begin an entry. It settles the text before it: an engine writes one block at a time."""
        for draft in self._texts.values():
            draft.settled = True
        self.drafts.append(_Draft(at, role, who, text))
        return self.drafts[-1]

    def _said(self, at: float, by: str, text: str) -> None:
        """Add what people said. A turn that was tried again has its prompt twice in its log."""
        again, self._begins = self._begins and text in self._prompts, False
        if again:
            return
        self._prompts.add(text)
        for who, words in spoken(text):
            self._add(at, "person", who or by or "pilothouse", words)

    def _text(self, at: float, id: str) -> _Draft:
        if id not in self._texts:
            self._texts[id] = self._add(at, "agent", self._engine, "")
            self._texts[id].settled = False
        return self._texts[id]

    def _end(self, at: float, end: TurnEnded) -> None:
        if end.answer.strip() and not any(end.answer.strip() in draft.text for draft in self._texts.values()):
            self._add(at, "agent", self._engine, end.answer)
        if end.failure is not None or end.outcome == "cancelled":
            self._add(at, "notice", self._engine, end.failure.text if end.failure else "Stopped.")
        for draft in self.drafts:
            draft.settled = True


def _ending(ok: bool, denied: str) -> str:
    if denied:
        return " (not allowed)"
    return "" if ok else " (failed)"


def entries_of(session: Session, turn: Turn, events: Sequence[LoggedEvent]) -> list[Entry]:
    """Return the settled entries of a turn, in order, up to the first that is not."""
    reader = _Reader(turn)
    if not any(isinstance(logged.event, PromptAdded) for logged in events):  # it ended before it began
        reader.read(turn.created_at, PromptAdded(turn.prompt.text, turn.prompt.by))
    for logged in events:
        reader.read(logged.at, logged.event)
    settled = takewhile(lambda draft: draft.settled, reader.drafts[:MAX_ENTRIES])
    return [_entry(session, turn, draft) for draft in settled if draft.text.strip()]


def _entry(session: Session, turn: Turn, draft: _Draft) -> Entry:
    text = draft.text if len(draft.text) <= TEXT_CHARS else draft.text[:TEXT_CHARS] + CUT
    place, folder = turn.conversation_id, session.workspace
    said = clean_text(text).strip()
    return Entry(session.id, place, folder, turn.id, draft.at, draft.role, clean_text(draft.who), said)
