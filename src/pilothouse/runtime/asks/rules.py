"""Rules that people chose to keep: saved in the transaction that settles the ask, and only what the ask offered.

Rules: a rule for a session dies with it; one for a workspace is bound to the folder itself, as trust is; a rule that
forbids holds for the path, whatever folder stands there.

The house's policy: the rules of the configuration, of the workspace and of the store, and one decision over them.

Every call of every engine ends here, and so does every ask that becomes a row. The store is read for each decision, so
that a rule counts from the moment it is made and a removed one no longer does.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import msgspec
from msgspec import Struct

from pilothouse.core.ask import Ask, AskRow, Decision
from pilothouse.core.errors import ConfigError, StoreError
from pilothouse.core.ids import IdMaker, RuleId, SessionId
from pilothouse.core.policy import ApprovalMode, Judge, Ruling, Site, narrower
from pilothouse.core.rules import Rule, RuleRow, parse_rule
from pilothouse.core.store import Store, Tx
from pilothouse.runtime.audit import record
from pilothouse.runtime.trust import mark_of

EVERYWHERE = ""
UNREADABLE = Rule("ask", "tool", ("*",))
"""What stands for a kept rule that cannot be read: a person decides everything until it is removed."""

NO_STORE = Ruling("ask", "the rules cannot be read at the moment")
MAX_AT_ONCE = 4096
"""Bytes of a call that is judged where it stands. A longer one may take a while, so others go on meanwhile."""
LONG_AT_A_TIME = 2


class Place(Struct, frozen=True):
    """A folder as rules know it: where it leads, and what it is known by. Empty is everywhere; a folder without a mark
    cannot be told from the next one in its place, and what is allowed there does not hold."""

    path: str = EVERYWHERE
    mark: str = ""


def find_place(workspace: str) -> Place:
    """Looks at the disk."""
    path = os.path.realpath(workspace) if workspace else EVERYWHERE
    return Place(path, (mark_of(path) or "") if path else "")


def remember_answer(tx: Tx, ids: IdMaker, row: AskRow, decision: Decision, at: float) -> None:
    """Saves the rules that the ask offered for this answer. What was changed before it was allowed was not offered."""
    session = tx.sessions.get(row.session_id)
    lasting = decision.verdict == "allow" and decision.remember != "once" and decision.input is None
    if session is None or not lasting:
        return
    lines = [
        line
        for offer in row.ask.offers
        if offer.remember == decision.remember
        for line in offer.rule.splitlines()
    ]
    if lines:
        place = find_place(session.workspace)  # once, however many rules: nothing else here waits for a disk
        of_session = session.id if decision.remember == "session" else None
        for line in lines:
            keep_rule(tx, ids, place, parse_rule(line), str(decision.by or ""), at, of_session)


def keep_rule(
    tx: Tx,
    ids: IdMaker,
    place: Place,
    rule: Rule,
    by: str,
    at: float,
    session_id: SessionId | None = None,
) -> RuleRow | None:
    """None if it is there already."""
    row = RuleRow(RuleId(ids("rule")), place.path, place.mark, str(rule), by, at, session_id)
    if not tx.rules.add(row):
        return None
    record(tx, at, by, "rule.added", id=row.id, rule=str(rule), workspace=place.path, session=session_id)
    return row


def drop_rule(tx: Tx, id: RuleId, by: str, at: float) -> RuleRow | None:
    """What was there."""
    row = tx.rules.remove(id)
    if row is not None:
        record(tx, at, by, "rule.removed", id=row.id, rule=row.rule, workspace=row.workspace)
    return row


def kept_rules(tx: Tx, workspace: str, session_id: SessionId) -> list[Rule]:
    place = os.path.realpath(workspace)
    rows = tx.rules.of(place, session_id)
    mark = mark_of(place) if rows else None
    return [rule for row in rows if holds(row, rule := _read(row), mark)]


def holds(row: RuleRow, rule: Rule, mark: str | None) -> bool:
    """Whether it counts in the folder that now stands at its path, and is known by this mark."""
    return rule.outcome != "allow" or not row.workspace or row.mark == mark


def lapsed_rules(rows: Sequence[RuleRow]) -> set[RuleId]:
    """Those that allowed something in a folder that is not there any more. Looks at the disk."""
    marks = {place: mark_of(place) for place in {row.workspace for row in rows} if place}
    return {row.id for row in rows if not holds(row, _read(row), marks.get(row.workspace))}


def _read(row: RuleRow) -> Rule:
    try:
        return parse_rule(row.rule)
    except ConfigError:
        return UNREADABLE


class Told(Struct, frozen=True):
    """What configuration says about one workspace. `at_most` is the widest mode that the workspace itself accepts."""

    rules: tuple[Rule, ...] = ()
    at_most: ApprovalMode = "full-access"


class HousePolicy:
    def __init__(self, store: Store, judge: Judge, told: Callable[[str], Told]) -> None:
        self._store = store
        self._judge = judge
        self._told = told
        self._seats = anyio.CapacityLimiter(LONG_AT_A_TIME)

    async def judge(self, ask: Ask, site: Site) -> Ruling:
        try:
            kept = await self._store.read(lambda tx: kept_rules(tx, site.workspace, site.session_id))
        except StoreError:
            return NO_STORE
        told = self._told(site.workspace)
        here = msgspec.structs.replace(site, mode=narrower(site.mode, told.at_most))
        judge = partial(self._judge, ask, [*told.rules, *kept], here)
        if _size(ask.payload) <= MAX_AT_ONCE:
            return judge()
        return await anyio.to_thread.run_sync(judge, limiter=self._seats)


def _size(payload: Mapping[str, Any]) -> int:
    try:
        return len(msgspec.json.encode(payload))
    except (TypeError, ValueError):
        return MAX_AT_ONCE + 1  # what no JSON can hold was not made by an engine: nobody waits for it
