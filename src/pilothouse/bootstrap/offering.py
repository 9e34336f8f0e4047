"""A code that lets somebody in, drawn and offered."""

from __future__ import annotations

import secrets

from msgspec import Struct

from pilothouse.bootstrap.people import make_people, terminal_user
from pilothouse.config import Config
from pilothouse.core.people import Role
from pilothouse.core.store import Tx


class Offer(Struct, frozen=True):
    code: str
    """As it is shown: two halves."""
    role: Role


def offer(
    tx: Tx, config: Config, *, at: float, open_s: float, role: Role | None = None, folder: str = ""
) -> Offer:
    """A new code, and what it gives: without a `role` an owner's, if there is none yet, else a member's."""
    from pilothouse.runtime.pairing import ALPHABET, has_owner, offer_pairing

    code = "".join(secrets.choice(ALPHABET) for _ in range(8))
    first = not folder and not has_owner(tx, make_people(config), terminal_user())
    given: Role = role or ("owner" if first else "member")
    offer_pairing(tx, code, role=given, workspace=folder, at=at, open_s=open_s)
    return Offer(f"{code[:4]}-{code[4:]}", given)
