"""Pairing: a code that is shown on the machine lets in whoever sends it, once, and for a short time.

Rules: one code at a time, and only its hash is kept; a wrong try counts against its sender, and against the code; the
first who pairs becomes the owner, if the house has none but the person at its terminal. Whom a code gives nothing
that they have not already leaves it for somebody else.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from pilothouse.core.ids import IdMaker, UserId
from pilothouse.core.message import Author
from pilothouse.core.people import Grant, People, Role, at_least
from pilothouse.core.store import Tx
from pilothouse.runtime.auditing import record
from pilothouse.runtime.letting_in import let_in
from pilothouse.runtime.standing import role_of

OPEN_S = 600.0
TRIES = 5
TRIES_WITHIN_S = 3600.0
TRIES_OF_ALL = 50
"""Of forty bits that is nothing; a code that was guessed at so often is withdrawn all the same."""
ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
"""Crockford's: no letter that reads like another."""

_FACT = "pairing"
_SIGN = f"[{ALPHABET}]"
_MARKS = r"[\s`*_]*"
"""Somebody may pass it on as code, or in bold."""
_BARE = re.compile(rf"{_MARKS}({_SIGN}{{4}})-({_SIGN}{{4}}){_MARKS}", re.IGNORECASE)
_COMMAND = re.compile(rf"\s*/pair(?:@\w+)?\s+({_SIGN}{{4}})[- ]?({_SIGN}{{4}})\s*", re.IGNORECASE)

_CALLED: Mapping[Role, str] = {"owner": "the owner", "admin": "an admin", "member": "a member"}


class Pairing(Struct, frozen=True):
    hash: str
    role: Role
    workspace: str
    expires_at: float


def parse_code(text: str) -> str | None:
    """The code that a message consists of, alone or behind `/pair`."""
    found = _COMMAND.fullmatch(text) or _BARE.fullmatch(text)
    return "".join(found.groups()).upper() if found else None


def offered_code(tx: Tx, text: str) -> str | None:
    """The code that a message consists of, if it is the one that was shown last and that let nobody in yet. Its time may
    be over."""
    code, kept = parse_code(text), _kept(tx)
    return code if code and kept and hmac.compare_digest(kept.hash, _digest(code)) else None


def offer_pairing(
    tx: Tx, code: str, *, role: Role, workspace: str, at: float, open_s: float = OPEN_S
) -> Pairing:
    """Replaces the code of before. Whoever calls this has drawn `code` at random from the alphabet."""
    pairing = Pairing(_digest(code), role, workspace, at + open_s)
    tx.set_fact(_FACT, msgspec.json.encode(pairing).decode())
    record(tx, at, "shell", "pairing.offered", role=role, workspace=workspace)
    return pairing


def has_owner(tx: Tx, people: People, machine: UserId) -> bool:
    """Whether the house belongs to anybody but the person at the machine's own terminal."""
    owners = {user for user, role in people.roles.items() if role == "owner"}
    owners |= {grant.user for grant in tx.people.everybody() if grant.role == "owner" and not grant.workspace}
    return bool(owners - {machine})


def pair(
    tx: Tx, ids: IdMaker, people: People, code: str, author: Author, at: float
) -> tuple[Grant | None, str]:
    """What the code gave its sender, if anything, and what they should be told."""
    if tx.tally(f"pair:{author.id}", at, TRIES_WITHIN_S) > TRIES:
        return None, "That were too many tries. Wait an hour, and ask for a new code."
    pairing = _offered(tx, at)
    if pairing is None or not hmac.compare_digest(pairing.hash, _digest(code)):
        if tx.tally("pair", at, OPEN_S) >= TRIES_OF_ALL:
            tx.set_fact(_FACT, "")
        record(tx, at, author.id, "pairing.refused")
        return (
            None,
            "That code is not right, or its time is over. On the machine, pilothouse pair shows a new one.",
        )
    held = role_of(tx, people, author.id, pairing.workspace)
    if at_least(held, pairing.role):
        return None, f"You are {_CALLED[held]} here already. The code is still good, for somebody else."
    tx.set_fact(_FACT, "")
    grant = Grant(author.id, pairing.role, pairing.workspace, author.name, "pairing", at)
    let_in(tx, ids, grant, at)
    record(tx, at, author.id, "people.paired", role=grant.role, workspace=grant.workspace)
    where = f" of {grant.workspace}" if grant.workspace else ""
    return grant, f"You are let in as {grant.role}{where}. Send a message to begin; /help lists the commands."


def _offered(tx: Tx, at: float) -> Pairing | None:
    pairing = _kept(tx)
    return pairing if pairing is not None and pairing.expires_at > at else None


def _kept(tx: Tx) -> Pairing | None:
    kept = tx.get_fact(_FACT)
    return msgspec.json.decode(kept, type=Pairing) if kept else None


def _digest(code: str) -> str:
    return hashlib.sha256(f"pilothouse pairing {code}".encode()).hexdigest()
