"""The end of an ask for `pilothouse asks`: the answer, the person who gave it, and what ran because of it."""

from __future__ import annotations

from collections.abc import Callable

from pilothouse.cli.table import plain
from pilothouse.core.ask import AskRow
from pilothouse.core.ids import UserId
from pilothouse.core.store import Tx
from pilothouse.core.text import ago
from pilothouse.runtime.asks.outcome import decision_text, effect
from pilothouse.runtime.roles import display_name, name_of

ENDED = {
    "expired": "expired: nobody answered in time, which counts as a no",
    "withdrawn": "withdrawn: it no longer needed an answer",
    "superseded": "superseded by a newer message",
}


def outcome(tx: Tx, row: AskRow) -> str:
    """Says what was decided and by whom, in a few words; `open` while nothing was."""
    return _decided(row, tx, name_of)


def full_outcome(tx: Tx, row: AskRow, now: float) -> str:
    """Says the same in a sentence, with the id of the person and the time."""
    text = ENDED.get(row.state) or _decided(row, tx, display_name)
    return text if row.answered_at is None else f"{text}, {ago(now - row.answered_at)}"


def _decided(row: AskRow, tx: Tx, name: Callable[[Tx, UserId], str]) -> str:
    decision = row.decision
    if row.state != "answered" or decision is None:
        return row.state
    return f"{decision_text(row.ask, decision)}{f', by {name(tx, decision.by)}' if decision.by else ''}"


def facts(tx: Tx, row: AskRow, now: float) -> dict[str, str]:
    """Returns everything about an ask but its payload, by name, for `asks show`."""
    from pilothouse.core.people import describe_approvers

    ask = row.ask
    found = {
        "ask": ask.id,
        "kind": row.subject,
        "result": full_outcome(tx, row, now),
        "ran": effect(row),
        "where": row.conversation_id or "-",
        "sha256": ask.payload_hash,
        "who": describe_approvers(row.authority.approvers)
        or "The requester, an admin or an owner may answer.",
        "yes": ", ".join(name_of(tx, vote.by) for vote in row.votes) if row.state == "open" else "",
        "why": ask.why,
    }
    return {name: plain(value) for name, value in found.items() if value}
