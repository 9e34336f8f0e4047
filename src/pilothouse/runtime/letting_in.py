"""Lets somebody in, whichever way they came: the grant, and the end of the question whether they may."""

from __future__ import annotations

from pilothouse.core.ids import IdMaker
from pilothouse.core.people import Grant
from pilothouse.core.store import Tx
from pilothouse.runtime.joining import JOIN, MOST_OPEN
from pilothouse.runtime.lapsing import lapse


def let_in(tx: Tx, ids: IdMaker, grant: Grant, at: float) -> None:
    tx.people.grant(grant)
    for row in tx.asks.open_about(JOIN, limit=MOST_OPEN):
        if row.ask.payload["user"] == grant.user:
            lapse(tx, ids, row, at, because=f"let in as {grant.role}")
