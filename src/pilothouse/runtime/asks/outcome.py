"""The end of an ask in words: the line that replaces its message, and how lists and `/show` tell it."""

from __future__ import annotations

from msgspec.structs import replace

from pilothouse.core.ask import Ask, AskRow, AskState, Decision, Remember, is_secret
from pilothouse.core.ask_view import command_of, payload_text, subject
from pilothouse.core.store import Tx
from pilothouse.core.text import first_line, long_span
from pilothouse.runtime.roles import name_of

REASON_CHARS = 200
ALLOWED: dict[Remember, str] = {
    "once": "Allowed",
    "session": "Allowed for this session",
    "always": "Always allowed",
}


def decision_text(ask: Ask, decision: Decision) -> str:
    """Describe a decision in one phrase."""
    if decision.verdict == "allow":
        changed = " with a change" if decision.input is not None else ""
        kept = {"once": "", "session": " for this session", "always": " always here"}[decision.remember]
        return f"allowed{changed}{kept}"
    if decision.verdict == "deny":
        return f"denied: {first_line(decision.text, REASON_CHARS)}" if decision.text else "denied"
    return _said(ask, decision) or "answered"


def closed_line(
    ask: Ask, state: AskState, decision: Decision | None = None, name: str = "", because: str = ""
) -> str:
    """Say how the ask ended, by whom, and what it was about: `Allowed by Alice: npm test`."""
    if state != "answered" or decision is None:
        how = {"expired": "No answer in time"}.get(state, "No longer open")
        return f"{how}: {subject(ask)}{f' ({because})' if because else ''}"
    who = name or decision.by or ""
    by, what = f" by {who}" if who else "", subject(_as_allowed(ask, decision))
    match decision.verdict:
        case "allow":
            changed = " with a change" if decision.input is not None else ""
            return f"{ALLOWED[decision.remember]}{changed}{by}: {what}"
        case "deny":
            why = f". Reason: {first_line(decision.text, REASON_CHARS)}" if decision.text else ""
            return f"Denied{by}: {what}{why}"
        case "answer":
            return f"Answered{by}: {_said(ask, decision)} ({what})"


def reason_line(decision: Decision, name: str) -> str:
    """Say which reason was given for a denial, in place of the question for it."""
    return f"Denied by {name or decision.by}: {first_line(decision.text, REASON_CHARS)}"


def outcome(tx: Tx, row: AskRow) -> str:
    """Say how an ask ended, for a list; for an open one, what it is about."""
    if row.state == "open":
        return subject(row.ask)
    decision = row.decision
    name = name_of(tx, decision.by) if decision is not None and decision.by else ""
    return closed_line(row.ask, row.state, decision, name)


def effect(row: AskRow) -> str:
    """Say whether what was asked for ran; empty for an ask that would have run nothing."""
    if row.ask.kind != "approval" or row.ask.of_house:
        return ""
    if row.state == "open":
        return "not yet: it waits for an answer"
    if row.decision is None or row.decision.verdict != "allow":
        return "no"
    if not row.used:
        return "not yet: the engine has not received the answer"
    return "yes, with the change below" if row.decision.input is not None else "yes, exactly as shown below"


def changed_payload(row: AskRow) -> str:
    """Return the payload with the input that a person put in place of the asked one; empty if nobody did."""
    if row.decision is None or row.decision.input is None:
        return ""
    return payload_text(replace(row.ask, payload={**row.ask.payload, "input": row.decision.input}))


def waited(row: AskRow) -> str:
    """Say how long the ask waited in vain: `12 hours`."""
    return long_span((row.ask.expires_at or row.asked_at) - row.asked_at)


def _as_allowed(ask: Ask, decision: Decision) -> Ask:
    """Return the ask about the command that a person put in place of the asked one."""
    call = ask.call
    if call is None or call.kind != "command" or decision.input is None:
        return ask
    command = command_of(replace(ask, payload={**ask.payload, "input": decision.input}))
    return replace(ask, call=replace(call, command=command or call.command))


def _said(ask: Ask, decision: Decision) -> str:
    if is_secret(ask) and decision.text:
        return "a secret"
    labels = {one.key: one.chosen_label or one.label.partition(": ")[0] for one in ask.options}
    chosen = [labels.get(key, key) for key in decision.options]
    return first_line(", ".join([*chosen, *filter(None, [decision.text])]), REASON_CHARS)
