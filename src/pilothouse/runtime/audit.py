"""Rows of the audit log: who did what, and which rule decided.

A change is recorded in its own transaction. Events that change nothing (a refused stranger, a call that a rule allowed)
wait in a `Trail` for the next transaction, at most a second, and repeats become one row with a count: so strangers
cannot fill the log, and a tool call costs no commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import anyio
import msgspec
from msgspec import Struct

from pilothouse.core.ask import Ask, AskRow, hash_payload
from pilothouse.core.message import clean_text
from pilothouse.core.people import People
from pilothouse.core.policy import Ruling
from pilothouse.core.store import Tx
from pilothouse.core.turn import Turn
from pilothouse.runtime.facts import CONFIGURED_ROLES

APP = "pilothouse"
"""The actor where no person acted."""
MAX_FIELD_CHARS = 300
MAX_NOTES = 500

_encode = msgspec.json.Encoder(order="deterministic").encode
_decode_roles = msgspec.json.Decoder(dict[str, str]).decode


def record(tx: Tx, at: float, who: str, what: str, **fields: object) -> None:
    """Write one row. Empty fields are left out; long ones are cut."""
    tx.audit.add(at, _short(who), what, _detail(fields))


def record_turn(tx: Tx, turn: Turn, at: float, who: Iterable[str] = ()) -> None:
    """Record why a model is about to be called (law 9)."""
    record(
        tx,
        at,
        ", ".join(dict.fromkeys(who)) or APP,
        "turn.started",
        turn=turn.id,
        cause=turn.cause,
        engine=turn.engine,
        conversation=turn.conversation_id,
        attempt=turn.attempts,
    )


def record_ask(tx: Tx, row: AskRow, state: str, at: float, who: str = APP, **fields: object) -> None:
    ask = row.ask
    record(tx, at, who, f"ask.{state}", ask=ask.id, hash=ask.payload_hash, turn=row.turn_id, **fields)


def record_roles(tx: Tx, people: People, at: float) -> None:
    """Record changes of the roles that the configuration grants."""
    kept, roles = tx.get_fact(CONFIGURED_ROLES), {str(user): str(role) for user, role in people.roles.items()}
    for folder, here in people.workspaces.items():
        roles |= {f"{user} in {folder}": str(role) for user, role in here.items()}
    before = _decode_roles(kept) if kept else {}
    if before == roles:
        return
    for user in sorted(before.keys() | roles.keys()):
        if before.get(user) != roles.get(user):
            record(tx, at, APP, "role.configured", user=user, role=roles.get(user, "none"))
    tx.set_fact(CONFIGURED_ROLES, _encode(roles).decode())


class Note(Struct, frozen=True):
    at: float
    who: str
    what: str
    detail: str
    times: int = 1


class Trail:
    """Notes that are not in the log yet. A kill loses at most one second of them."""

    def __init__(self) -> None:
        self._notes: dict[tuple[str, str, str], Note] = {}
        self._noted = anyio.Event()

    def note(self, at: float, who: str, what: str, **fields: object) -> None:
        self._keep(Note(at, _short(who), what, _detail(fields)))

    def note_ruling(self, at: float, ask: Ask, ruling: Ruling, **fields: object) -> None:
        """Note a call that a rule decided without asking a person."""
        if ruling.outcome == "ask":
            return
        tool = ask.payload.get("tool", ask.title)
        digest = ask.payload_hash or hash_payload(ask.payload)
        self.note(at, APP, f"rule.{ruling.outcome}", tool=tool, rule=ruling.rule, hash=digest, **fields)

    async def wait(self) -> None:
        """Wait until there is a note."""
        if not self._notes:
            self._noted = anyio.Event()
            await self._noted.wait()

    def take(self) -> tuple[Note, ...]:
        """Remove and return the notes; the caller writes them or puts them back."""
        notes = tuple(self._notes.values())
        self._notes.clear()
        return notes

    def put_back(self, notes: Iterable[Note]) -> None:
        later = self.take()
        for note in (*notes, *later):
            self._keep(note)

    def _keep(self, note: Note) -> None:
        """Add a note. Past `MAX_NOTES`, new ones are only counted, in one row."""
        key = (note.who, note.what, note.detail)
        if key not in self._notes and len(self._notes) >= MAX_NOTES:
            note = msgspec.structs.replace(note, who=APP, what="audit.left_out", detail="")
            key = (note.who, note.what, note.detail)
        times = note.times + (self._notes[key].times if key in self._notes else 0)
        first = self._notes.get(key, note)
        self._notes[key] = msgspec.structs.replace(first, times=times)
        self._noted.set()


def write_notes(tx: Tx, notes: Iterable[Note]) -> None:
    for note in notes:
        detail = note.detail
        if note.times > 1:
            fields = msgspec.json.decode(detail) if detail else {}
            detail = _detail({**fields, "times": note.times})
        tx.audit.add(note.at, note.who, note.what, detail)


def _detail(fields: Mapping[str, object]) -> str:
    said = {key: _field(value) for key, value in fields.items() if value not in (None, "", ())}
    return _encode(said).decode() if said else ""


def _field(value: object) -> object:
    return value if isinstance(value, int | float) else _short(str(value))


def _short(text: str) -> str:
    text = clean_text(text)
    return text if len(text) <= MAX_FIELD_CHARS else text[: MAX_FIELD_CHARS - 1] + "…"
