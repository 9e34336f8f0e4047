"""Who did what, and what decided it: rows of the audit log.

What changes anything is recorded in the transaction that changes it. What changes nothing (a stranger who was refused,
a call that a rule let pass) waits in a `Trail` for the next transaction, a second at most, and what repeats is one row
with a count: nobody can fill the log, and no tool call costs a commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
from msgspec import Struct

from pilothouse.core.ask import Ask, AskRow, hash_payload
from pilothouse.core.message import clean_text
from pilothouse.core.people import People
from pilothouse.core.policy import Ruling
from pilothouse.core.store import Tx
from pilothouse.core.turn import Turn

HOUSE = "pilothouse"
"""Who did it, where no person did."""
MAX_FIELD_CHARS = 300
MAX_NOTES = 500

_encode = msgspec.json.Encoder(order="deterministic").encode
_decode_roles = msgspec.json.Decoder(dict[str, str]).decode
ROLES = "audit.roles"


def record(tx: Tx, at: float, who: str, what: str, **fields: object) -> None:
    """One row, now. Fields that are empty are left out; none is longer than a line or two."""
    tx.audit.add(at, _short(who), what, _detail(fields))


def record_turn(tx: Tx, turn: Turn, at: float, who: Iterable[str] = ()) -> None:
    """A model is about to be called, and this is why (law 9)."""
    record(
        tx,
        at,
        ", ".join(dict.fromkeys(who)) or HOUSE,
        "turn.started",
        turn=turn.id,
        cause=turn.cause,
        engine=turn.engine,
        conversation=turn.conversation_id,
        attempt=turn.attempts,
    )


def record_ask(tx: Tx, row: AskRow, state: str, at: float, who: str = HOUSE, **fields: object) -> None:
    ask = row.ask
    record(tx, at, who, f"ask.{state}", ask=ask.id, hash=ask.payload_hash, turn=row.turn_id, **fields)


def record_roles(tx: Tx, people: People, at: float) -> None:
    """What the configuration grants, where that is not what it granted before."""
    kept, roles = tx.get_fact(ROLES), {str(user): str(role) for user, role in people.roles.items()}
    for folder, here in people.workspaces.items():
        roles |= {f"{user} in {folder}": str(role) for user, role in here.items()}
    before = _decode_roles(kept) if kept else {}
    if before == roles:
        return
    for user in sorted(before.keys() | roles.keys()):
        if before.get(user) != roles.get(user):
            record(tx, at, HOUSE, "role.configured", user=user, role=roles.get(user, "none"))
    tx.set_fact(ROLES, _encode(roles).decode())


class Note(Struct, frozen=True):
    at: float
    who: str
    what: str
    detail: str
    times: int = 1


class Trail:
    """What has happened and is not in the log yet. A kill may take it: at most a second of what changed nothing."""

    def __init__(self) -> None:
        self._notes: dict[tuple[str, str, str], Note] = {}

    def note(self, at: float, who: str, what: str, **fields: object) -> None:
        self._keep(Note(at, _short(who), what, _detail(fields)))

    def ruled(self, at: float, ask: Ask, ruling: Ruling, **fields: object) -> None:
        """What a rule decided without asking anybody."""
        if ruling.outcome == "ask":
            return
        tool = ask.payload.get("tool", ask.title)
        digest = ask.payload_hash or hash_payload(ask.payload)
        self.note(at, HOUSE, f"rule.{ruling.outcome}", tool=tool, rule=ruling.rule, hash=digest, **fields)

    def take(self) -> tuple[Note, ...]:
        """Whoever takes them writes them, or gives them back."""
        notes = tuple(self._notes.values())
        self._notes.clear()
        return notes

    def give_back(self, notes: Iterable[Note]) -> None:
        later = self.take()
        for note in (*notes, *later):
            self._keep(note)

    def _keep(self, note: Note) -> None:
        """Past the bound it is only counted, in one row for all."""
        key = (note.who, note.what, note.detail)
        if key not in self._notes and len(self._notes) >= MAX_NOTES:
            note = msgspec.structs.replace(note, who=HOUSE, what="audit.left_out", detail="")
            key = (note.who, note.what, note.detail)
        times = note.times + (self._notes[key].times if key in self._notes else 0)
        first = self._notes.get(key, note)
        self._notes[key] = msgspec.structs.replace(first, times=times)


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
