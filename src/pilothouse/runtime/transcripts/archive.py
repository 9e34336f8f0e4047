"""Archive: the entries of turns that ended, stored and appended to the session's two files.

Entries come from a turn and its event log: what people said, what the agent said and did, what was asked. An entry is
settled once later events cannot change it. The settled entries of a log are a prefix of those of any longer log of the same
turn, so a turn can be stored in portions.

The store decides which turns are due, so nothing is lost or stored twice by a crash. A file is written before the
transaction that notes its size; what a crash left behind that size is overwritten. The work is bounded: one turn at a
time, and files grow by what is new. They are written anew only if they are missing or were cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

import anyio
from msgspec import Struct
from msgspec.structs import replace

from pilothouse.core.ask import Ask
from pilothouse.core.ask_view import subject
from pilothouse.core.channel import LoggedEvent
from pilothouse.core.conversation import Session
from pilothouse.core.errors import Fenced, PilothouseError, StoreError
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
from pilothouse.core.ids import AskId, CallId, TurnId
from pilothouse.core.message import clean_text
from pilothouse.core.people import People
from pilothouse.core.store import Tx
from pilothouse.core.text import first_line
from pilothouse.core.transcript import Entry, Role, Transcript
from pilothouse.core.turn import ENDED, Turn
from pilothouse.runtime.ports import TRANSCRIPTS, Ports, Signals
from pilothouse.runtime.settings import Settings
from pilothouse.runtime.transcripts.render import SUFFIXES, file_name, heading, json_lines, markdown
from pilothouse.runtime.turns.prompt import spoken
from pilothouse.runtime.turns.record import COMPACTION

PAUSE_S = 0.5
"""Lets the answer go out first, and the turns of a busy moment come together."""
PRUNE_EVERY_S = 3600.0
PRUNE_STEP = 500


class Portion(Struct, frozen=True):
    """The entries of one turn that are not stored yet. `last` is the entry of its session that was stored last."""

    complete: bool = True
    session: Session | None = None
    entries: Sequence[Entry] = ()
    last: Entry | None = None
    transcript: Transcript | None = None
    to_files: bool = False


class Archive:
    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._prune_at = float("-inf")

    async def run(self) -> None:
        """Store what is due whenever a turn ends, and delete what is past its time every hour."""
        while True:
            ticket = self._ports.signals.ticket(TRANSCRIPTS)
            await self.catch_up()
            await self._prune()
            await Signals.wait(ticket)
            await anyio.sleep(PAUSE_S)

    async def catch_up(self) -> None:
        """Store the entries of all turns that are due."""
        try:
            while due := await self._ports.store.read(lambda tx: tx.transcripts.due()):
                for turn_id, stored in due.items():
                    await self._store(turn_id, stored)
        except Fenced:
            raise
        except StoreError as error:
            self._ports.log("transcript.postponed", level="warning", error=str(error))

    async def _store(self, turn_id: TurnId, stored: int) -> None:
        ports, settings = self._ports, self._ports.settings()
        portion = await ports.store.read(lambda tx: _portion(tx, settings, turn_id, stored))
        portion = replace(
            portion, entries=[replace(entry, text=ports.redact(entry.text)) for entry in portion.entries]
        )
        transcript = await self._transcript(portion)

        def unit(tx: Tx) -> None:
            tx.transcripts.add(turn_id, portion.entries, complete=portion.complete)
            if transcript is not None:
                tx.transcripts.save(transcript)

        await ports.store.write(unit)

    async def _transcript(self, portion: Portion) -> Transcript | None:
        """Write the portion to the files of its session; return the transcript with their new sizes."""
        session, entries = portion.session, portion.entries
        if session is None or not entries:
            return None
        known = portion.transcript or Transcript(
            session.id, session.workspace, file_name(session, entries), 0
        )
        known = replace(known, used_at=entries[-1].at)
        if not portion.to_files:
            return replace(known, written=(0, 0))
        try:
            sizes = await self._append(known, portion) or await self._write_anew(known, session, entries)
        except OSError as error:
            self._ports.log("transcript.not_written", level="warning", name=known.name, error=str(error))
            sizes = (0, 0)
        return replace(known, written=sizes)

    async def _append(self, known: Transcript, portion: Portion) -> tuple[int, int] | None:
        """Append to both files. Returns None if they are new, or not as they were left."""
        if 0 in known.written or portion.last is None:
            return None
        return await self._put(known, markdown(portion.entries, portion.last), json_lines(portion.entries))

    async def _write_anew(
        self, known: Transcript, session: Session, entries: Sequence[Entry]
    ) -> tuple[int, int]:
        stored = await self._ports.store.read(lambda tx: tx.transcripts.entries(session.id))
        every = [*stored, *entries]
        known = replace(known, written=(0, 0))
        return await self._put(known, heading(session) + markdown(every), json_lines(every)) or (0, 0)

    async def _put(self, known: Transcript, *texts: bytes) -> tuple[int, int] | None:
        sizes: list[int] = []
        for suffix, size, text in zip(SUFFIXES, known.written, texts, strict=True):
            end = await self._ports.append_file(known.workspace, known.name + suffix, size, text)
            if end is None:
                return None
            sizes.append(end)
        return sizes[0], sizes[1]

    async def _prune(self) -> None:
        """Delete transcripts past their time, once an hour: the files first, then their entries in small steps."""
        ports = self._ports
        if ports.clock.monotonic() < self._prune_at:
            return
        self._prune_at = ports.clock.monotonic() + PRUNE_EVERY_S
        before = ports.clock.now() - ports.settings().transcript_s
        try:
            while old := await ports.store.read(lambda tx: tx.transcripts.unused_since(before)):
                for one in old:
                    await self._remove(one)
        except Fenced:
            raise
        except (StoreError, OSError) as error:
            ports.log("transcript.prune_postponed", level="warning", error=str(error))

    async def _remove(self, old: Transcript) -> None:
        for suffix in SUFFIXES:
            await self._ports.remove_file(old.workspace, old.name + suffix)
        while await self._ports.store.write(
            lambda tx: tx.transcripts.prune(old.session_id, limit=PRUNE_STEP)
        ):
            await self._ports.clock.sleep(0.05)


def _portion(tx: Tx, settings: Settings, turn_id: TurnId, stored: int) -> Portion:
    turn = tx.turns.get(turn_id)
    session = tx.sessions.get(turn.session_id) if turn is not None else None
    if turn is None or session is None or not settings.transcript_s:
        return Portion()
    entries = entries_of(session, turn, _events(tx, turn_id))[stored:]
    last = tx.transcripts.entries(session.id, limit=1)
    place = tx.conversations.get(turn.conversation_id)
    shared = place is not None and not place.private
    return Portion(
        turn.status in ENDED,
        session,
        entries,
        last[0] if last else None,
        tx.transcripts.get(session.id),
        settings.transcript_files and (shared or only_owners(tx, settings.people, session.workspace)),
    )


def _events(tx: Tx, turn_id: TurnId) -> list[LoggedEvent]:
    """Return the turn's events. A log that cannot be read is left out: it must not block other transcripts."""
    try:
        return tx.events.of_turn(turn_id)
    except PilothouseError:
        return []


def only_owners(tx: Tx, people: People, workspace: str) -> bool:
    """True if no one but owners may talk in the workspace: the agent there may then read private chats, too."""
    grants = tx.people.everybody()
    known = {*people.roles, *(user for roles in people.workspaces.values() for user in roles)}
    roles = [people.role(user, workspace, grants) for user in known | {grant.user for grant in grants}]
    return all(role in ("stranger", "owner") for role in roles)


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
