"""Archive: stores the entries of turns that ended, and appends them to the session's two files.

The store decides which turns are due, so nothing is lost or stored twice by a crash. A file is written before the
transaction that notes its size; what a crash left behind that size is overwritten. The work is bounded: one turn at a
time, and files grow by what is new. They are written anew only if they are missing or were cut.
"""

from __future__ import annotations

from collections.abc import Sequence

import anyio
from msgspec import Struct
from msgspec.structs import replace

from pilothouse.core.channel import LoggedEvent
from pilothouse.core.conversation import Session
from pilothouse.core.errors import Fenced, PilothouseError, StoreError
from pilothouse.core.ids import TurnId
from pilothouse.core.people import People
from pilothouse.core.store import Tx
from pilothouse.core.transcript import Entry, Transcript
from pilothouse.core.turn import ENDED
from pilothouse.runtime.ports import TRANSCRIPTS, Ports, Signals
from pilothouse.runtime.settings import Settings
from pilothouse.runtime.transcripts.entries import entries_of
from pilothouse.runtime.transcripts.render import SUFFIXES, file_name, heading, json_lines, markdown

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
