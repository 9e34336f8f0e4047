"""Commands that only read: what runs here, what is queued, what was asked and answered, and the cost."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping

import msgspec

from pilothouse.core.ask import ASK_STATES, AskRow, matching_asks, payload_bytes
from pilothouse.core.ask_view import headline, payload_text, reason, remark
from pilothouse.core.budget import day_of
from pilothouse.core.conversation import BusyPolicy, Session
from pilothouse.core.people import allows, may_say_no
from pilothouse.core.store import Tx
from pilothouse.core.text import ago, code_block, first_line, reveal_hidden, span
from pilothouse.core.turn import Turn
from pilothouse.runtime.asks.outcome import changed_payload, effect, outcome
from pilothouse.runtime.asks.settle import REASON
from pilothouse.runtime.asks.show import INLINE, bring_here, file_name, is_long
from pilothouse.runtime.budget.ledger import CostLine, describe_cap, describe_line, sum_up, total
from pilothouse.runtime.commands.call import (
    CommandCall,
    NotDone,
    Reply,
    binding_of,
    engine_of,
    queued,
    session_of,
    workspace_in,
)
from pilothouse.runtime.commands.mode import MEANS, mode_here
from pilothouse.runtime.commands.sessions import describe
from pilothouse.runtime.delivery.undelivered import was_told_in
from pilothouse.runtime.roles import may
from pilothouse.runtime.trust import LAPSED, changed_notice, has_lapsed, look_at_trust

SEARCHED_ASKS = 200
LISTED_ASKS = 8
BUSY: Mapping[BusyPolicy, str] = {
    "collect": "collect messages",
    "queue": "one turn for each message",
    "steer": "pass messages on to the running turn",
    "interrupt": "stop the running turn",
}


def show_status(call: CommandCall) -> Reply:
    session, live = session_of(call), call.tx.turns.live_in(call.conversation.id)
    folder, mode = workspace_in(call, session), mode_here(call)
    rows = {
        "State": _state(call, live),
        "Engine": engine_of(call, session),
        "Model": binding_of(call).model or (session.model if session else None) or "the engine's default",
        "Folder": folder,
        "Approval mode": f"{mode} ({MEANS[mode]})",
        "Isolation": call.settings.isolation_of(folder, engine_of(call, session)),
        "Session": describe(call, session) if session else "a new one with your next message",
        "Queue": f"{len(queued(call))} waiting",
        "Questions": f"{len(call.tx.asks.open_in(call.conversation.id))} open",
        "While busy": BUSY[binding_of(call).busy or call.settings.busy],
    }
    lines = [f"{key}: {value}" for key, value in rows.items() if value]
    return Reply("\n".join([*lines, _trust(call, folder)]))


def _state(call: CommandCall, live: Turn | None) -> str:
    if live is None:
        parked = call.tx.turns.of(call.conversation.id, statuses=("parked",), limit=1)
        if parked and call.tx.spending.get(parked[0].id):
            return "held: it does not fit into the day's budget"
        return "parked until the limit resets" if parked else "idle"
    if live.status == "waiting":
        return "waiting for your answer"
    return f"working for {span(call.at - (live.started_at or call.at))}"


def _trust(call: CommandCall, folder: str) -> str:
    state = look_at_trust(call.tx, os.path.realpath(folder), call.settings.trusted_files)
    if state.holds:
        return "The folder is trusted: its CLAUDE.md, hooks and MCP servers are used."
    if state.was_given:
        return changed_notice(folder, state)
    told = (
        "The folder is not trusted: its CLAUDE.md, hooks and MCP servers are ignored "
        f"(on the machine: `pilothouse trust {shlex.quote(folder)}`)."
    )
    return f"{told} {LAPSED}" if has_lapsed(call.tx, folder) else told


def show_session(call: CommandCall) -> Reply:
    session = session_of(call)
    if session is None:
        return Reply("No session yet: your next message starts one.")
    token = session.resume.value if session.resume else "not known yet"
    rows = {
        "Session": session.id,
        "Engine": session.engine,
        "Token": token,
        "Folder": session.workspace,
        "Turns": str(session.turns),
        "Last used": ago(call.at - session.used_at),
    }
    told = "\n".join(f"{key}: {value}" for key, value in rows.items())
    lines = call.settings.resume_lines.get(session.engine)
    if lines is None or session.resume is None:
        return Reply(told)
    told = f"{told}\n\nTo go on in a terminal:\n```\n{lines.command(session.resume)}\n```"
    if lines.beside:
        told += f"\nTo see it live in a terminal, as long as the engine runs:\n```\n{lines.beside.replace('{id}', token)}\n```"
    return Reply(told)


def show_cost(call: CommandCall) -> Reply:
    """Show the cost of this conversation, and the state of the daily caps that cover it."""
    day, here = day_of(call.at, call.settings.zone), call.conversation.id
    today = [row for row in call.tx.spending.of(since=day) if row.conversation_id == here]
    session = session_of(call)
    if session is None and not today and not call.settings.caps.any:
        return Reply("Nothing spent here yet.")
    rows = {"This session": _session_cost(session), "Today, here": describe_line(total(today))}
    rows |= {f"· by {line.name}": describe_line(line) for line in sum_up(today, "cause")}
    for scope, cap_usd in call.settings.caps.of(workspace_in(call, session), here):
        rows[f"Daily cap ({scope.kind})"] = describe_cap(call.tx.spending.cap_status(scope, day, cap_usd))
    lines = [f"{key}: {value}" for key, value in rows.items()]
    return Reply("\n".join([*lines, f"Prices as reported by the engines. Days in {call.settings.zone}."]))


def _session_cost(session: Session | None) -> str:
    if session is None:
        return "nothing yet"
    untold = session.turns if session.cost_usd is None else 0
    return describe_line(CostLine("", session.turns, session.cost_usd or 0.0, untold, 0.0))


def show(call: CommandCall) -> Reply:
    """Show an ask or an answer in full."""
    if not call.args:
        return Reply("/show ID shows a question or an answer in full.")
    here = call.conversation.id
    found = [row for row in call.tx.asks.find(call.args) if _may_see(call, row)]
    if len(asks := matching_asks(found, call.args)) == 1:
        return _show_ask(call, asks[0])
    turns = [
        turn
        for turn in call.tx.turns.find(call.args)
        if turn.conversation_id == here or was_told_in(call.tx, turn.id, here)
    ]
    if len(turns) == 1:
        answer, failure = turns[0].answer, turns[0].failure
        return Reply(answer or (failure.text if failure else "No answer yet."), formatted=bool(answer))
    return NotDone(f"Nothing here is called {call.args!r}.")


def show_asks(call: CommandCall) -> Reply:
    """List open asks and the last settled ones: of this conversation, or of all for an owner in private.

    Open ones of other conversations that the caller may answer are shown here, so that they can be."""
    tx, here = call.tx, call.conversation.id
    newest = tx.asks.newest(states=ASK_STATES, limit=SEARCHED_ASKS)
    found = [row for row in newest if row.topic != REASON and _may_see(call, row)]
    waiting = [row for row in found if row.state == "open"][:LISTED_ASKS]
    settled = [row for row in found if row.state != "open"][:LISTED_ASKS]
    for row in waiting:
        if here not in (row.conversation_id, *row.shown_in) and may_say_no(
            row.authority, call.by.id, call.role
        ):
            bring_here(tx, call.ids, row, here, call.at)
    if not found:
        return Reply("No questions or approvals yet.")
    told = ["Open:", *(_open_line(row, call.at) for row in waiting)] if waiting else ["Nothing is open."]
    told += ["Settled:", *(_settled_line(tx, row, call.at) for row in settled)] if settled else []
    return Reply("\n".join([*told, "/show and an id shows one in full."]))


def _may_see(call: CommandCall, row: AskRow) -> bool:
    """True for an ask of this conversation; in private, an owner sees all of the folders that they own."""
    here, people = call.conversation, call.settings.people
    if here.id in (row.conversation_id, *row.shown_in):
        return True
    if not here.private or not allows(call.role, "command.asks.all"):
        return False
    return may(call.tx, people, call.by.id, "command.asks.all", row.authority.workspace)


def _open_line(row: AskRow, now: float) -> str:
    left = "" if row.ask.expires_at is None else f", {span(row.ask.expires_at - now)} left"
    return f"- `{row.ask.id}` {first_line(headline(row.ask), 120).replace('`', '')}{left}"


def _settled_line(tx: Tx, row: AskRow, now: float) -> str:
    when = "" if row.answered_at is None else f", {ago(now - row.answered_at)}"
    return f"- `{row.ask.id}` {outcome(tx, row)}{when}"


def _ended(tx: Tx, row: AskRow) -> list[str]:
    """Say how the ask ended, and what ran because of it; nothing of an open one, since this message stays."""
    if row.state == "open":
        return []
    ran = effect(row)
    return [f"{outcome(tx, row)}.", *([f"Ran: {ran}."] if ran else [])]


def _show_ask(call: CommandCall, row: AskRow) -> Reply:
    """Show an ask. A long one comes as two files: one to read, and the exact bytes that were hashed."""
    ask, tx, at = row.ask, call.tx, call.at
    about = [words] if (words := remark(ask)) else []
    about += [why] if (why := reason(ask)) else []
    about += [f"{offer.remember}: {offer.rule}" for offer in ask.offers]
    about += [code_block(ask.preview, "diff")] if 0 < len(ask.preview) <= INLINE else []
    about += [f"Changed to:\n{code_block(changed)}"] if (changed := changed_payload(row)) else []
    head = "\n".join([headline(ask), *_ended(tx, row), *about])
    tail, diff = f"SHA-256 {ask.payload_hash}", ()
    if len(ask.preview) > INLINE:
        diff = (tx.blobs.attach(ask.preview.encode(), f"{ask.id}.diff", "text/plain", at),)
    if not is_long(ask):
        payload = msgspec.json.format(msgspec.json.encode(ask.payload), indent=2).decode()
        return Reply(reveal_hidden(f"{head}\n{code_block(payload, 'json')}\n{tail}"), diff)
    text = tx.blobs.attach(reveal_hidden(payload_text(ask)).encode(), f"{ask.id}.txt", "text/plain", at)
    exact = tx.blobs.attach(payload_bytes(ask.payload), file_name(ask), "application/json", at)
    return Reply(reveal_hidden(f"{head}\n{tail} of {exact.name}"), (*diff, text, exact))
