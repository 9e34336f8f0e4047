"""Saved rules, and the policy that applies them together with the rules of the configuration and the workspace.

An answer saves only rules that its ask offered, in the same transaction. A session's rule ends with the session. An
allow rule for a workspace is bound to the folder itself, as trust is; a deny rule holds for the path.
Every call of every engine is judged here. The store is read for each decision, so that changes count at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial

import anyio
import anyio.to_thread
import msgspec
from msgspec import Struct

from pilothouse.core.ask import Ask, AskRow, Decision
from pilothouse.core.call import Call
from pilothouse.core.errors import ConfigError, StoreError
from pilothouse.core.ids import IdMaker, RuleId, SessionId
from pilothouse.core.policy import MODES, ApprovalMode, Judge, Rule, RuleRow, Ruling, Site, parse_rule
from pilothouse.core.store import Store, Tx
from pilothouse.runtime.audit import record
from pilothouse.runtime.trust import folder_mark

EVERYWHERE = ""
UNREADABLE = Rule("ask", "tool", ("*",))
"""Replaces a saved rule that cannot be parsed: a person decides everything until it is removed."""

NO_STORE = Ruling("ask", "the rules cannot be read at the moment")
MAX_AT_ONCE = 4096
"""Bytes of a call that is judged on the event loop. Longer ones are judged in a thread."""
LONG_AT_A_TIME = 2


class Folder(Struct, frozen=True):
    """A folder's real path and its mark. An empty path means everywhere; without a mark, allow rules do not hold."""

    path: str = EVERYWHERE
    mark: str = ""


def find_folder(workspace: str) -> Folder:
    """Resolve a workspace on the disk."""
    path = os.path.realpath(workspace) if workspace else EVERYWHERE
    return Folder(path, (folder_mark(path) or "") if path else "")


def remember_answer(tx: Tx, ids: IdMaker, row: AskRow, decision: Decision, at: float) -> None:
    """Save the rules that the ask offered for this answer. A changed input saves none."""
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
        place = find_folder(session.workspace)  # once for all rules: it reads the disk inside a transaction
        of_session = session.id if decision.remember == "session" else None
        for line in lines:
            keep_rule(tx, ids, place, parse_rule(line), str(decision.by or ""), at, of_session)


def keep_rule(
    tx: Tx,
    ids: IdMaker,
    place: Folder,
    rule: Rule,
    by: str,
    at: float,
    session_id: SessionId | None = None,
) -> RuleRow | None:
    """Save a rule; None if it exists already."""
    row = RuleRow(RuleId(ids("rule")), place.path, place.mark, str(rule), by, at, session_id)
    if not tx.rules.add(row):
        return None
    record(tx, at, by, "rule.added", id=row.id, rule=str(rule), workspace=place.path, session=session_id)
    return row


def drop_rule(tx: Tx, id: RuleId, by: str, at: float) -> RuleRow | None:
    """Remove and return a rule."""
    row = tx.rules.remove(id)
    if row is not None:
        record(tx, at, by, "rule.removed", id=row.id, rule=row.rule, workspace=row.workspace)
    return row


def kept_rules(tx: Tx, workspace: str, session_id: SessionId) -> list[Rule]:
    place = os.path.realpath(workspace)
    rows = tx.rules.of(place, session_id)
    mark = folder_mark(place) if rows else None
    return [rule for row in rows if holds(row, rule := _read(row), mark)]


def holds(row: RuleRow, rule: Rule, mark: str | None) -> bool:
    """True if the rule applies to the folder that now has its path and this mark."""
    return rule.outcome != "allow" or not row.workspace or row.mark == mark


def lapsed_rules(rows: Sequence[RuleRow]) -> set[RuleId]:
    """Return allow rules whose folder no longer exists. Reads the disk."""
    marks = {place: folder_mark(place) for place in {row.workspace for row in rows} if place}
    return {row.id for row in rows if not holds(row, _read(row), marks.get(row.workspace))}


def _read(row: RuleRow) -> Rule:
    try:
        return parse_rule(row.rule)
    except ConfigError:
        return UNREADABLE


class WorkspaceRules(Struct, frozen=True):
    """The configured rules of one workspace. `at_most` is the widest mode that the workspace accepts."""

    rules: tuple[Rule, ...] = ()
    at_most: ApprovalMode = "full-access"


class RulePolicy:
    def __init__(self, store: Store, judge: Judge, told: Callable[[str], WorkspaceRules]) -> None:
        self._store = store
        self._judge = judge
        self._told = told
        self._limiter = anyio.CapacityLimiter(LONG_AT_A_TIME)

    async def judge(self, ask: Ask, site: Site) -> Ruling:
        try:
            kept = await self._store.read(lambda tx: kept_rules(tx, site.workspace, site.session_id))
        except StoreError:
            return NO_STORE
        told = self._told(site.workspace)
        here = msgspec.structs.replace(site, mode=min(site.mode, told.at_most, key=MODES.index))
        judge = partial(self._judge, ask, [*told.rules, *kept], here)
        if _size(ask.call) <= MAX_AT_ONCE:
            return judge()
        return await anyio.to_thread.run_sync(judge, limiter=self._limiter)


def _size(call: Call | None) -> int:
    try:
        return len(msgspec.json.encode(call))
    except (TypeError, ValueError):
        return MAX_AT_ONCE + 1  # not JSON, so not from an engine: judge it in a thread
