"""Commands that only read: what runs here, what is queued, what was asked and answered, and the cost."""

from __future__ import annotations

import msgspec

from pilothouse.core.ask import AskRow, matching_asks, payload_bytes
from pilothouse.core.budget import day_of
from pilothouse.core.conversation import Session
from pilothouse.core.message import InboundMessage
from pilothouse.core.text import ago, code_block, first_line, span
from pilothouse.core.turn import Turn
from pilothouse.runtime.asks.text import INLINE, file_name, is_long, payload_text
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
from pilothouse.runtime.delivery.undelivered import was_told_in
from pilothouse.runtime.trust import LAPSED, has_lapsed, is_trusted

_decode = msgspec.json.Decoder(InboundMessage).decode


def show_status(call: CommandCall) -> Reply:
    session, live = session_of(call), call.tx.turns.live_in(call.conversation.id)
    rows = {
        "state": _state(call, live),
        "engine": engine_of(call, session),
        "model": binding_of(call).model or (session.model if session else None) or "the engine's default",
        "workspace": workspace_in(call, session),
        "trust": _trust(call, workspace_in(call, session)),
        "session": session.id if session else "a new one with your next message",
        "queue": f"{len(queued(call))} waiting",
        "asks": f"{len(call.tx.asks.open_in(call.conversation.id))} open",
        "busy": binding_of(call).busy or call.settings.busy,
    }
    return Reply("```\n" + "\n".join(f"{key:<10} {value}" for key, value in rows.items()) + "\n```")


def _state(call: CommandCall, live: Turn | None) -> str:
    if live is None:
        parked = call.tx.turns.of(call.conversation.id, statuses=("parked",), limit=1)
        if parked and call.tx.spending.get(parked[0].id):
            return "held: it does not fit into the day's budget"
        return "parked until the limit resets" if parked else "idle"
    if live.status == "waiting":
        return "waiting for your answer"
    return f"working for {span(call.at - (live.started_at or call.at))}"


def _trust(call: CommandCall, workspace: str) -> str:
    if is_trusted(call.tx, workspace):
        return "trusted"
    said = f"not trusted; `pilothouse trust {workspace}` would add its settings, hooks, servers and CLAUDE.md"
    return f"{said}. {LAPSED}" if has_lapsed(call.tx, workspace) else said


def show_queue(call: CommandCall) -> Reply:
    rows = queued(call)
    if not rows:
        return Reply("Nothing waits.")
    return Reply("\n".join(f"- `#{row.seq}` {first_line(_decode(row.body).whole_text)}" for row in rows))


def show_session(call: CommandCall) -> Reply:
    session = session_of(call)
    if session is None:
        return Reply("No session yet: your next message starts one.")
    token = session.resume.value if session.resume else "not known yet"
    rows = {
        "session": session.id,
        "engine": session.engine,
        "token": token,
        "workspace": session.workspace,
        "turns": str(session.turns),
        "used": ago(call.at - session.used_at),
    }
    table = "```\n" + "\n".join(f"{key:<10} {value}" for key, value in rows.items()) + "\n```"
    lines = call.settings.resume_lines.get(session.engine)
    if lines is None or session.resume is None:
        return Reply(table)
    return Reply(f"{table}\nTo go on in a terminal:\n```\n{lines.command(session.resume)}\n```")


def show_cost(call: CommandCall) -> Reply:
    """Show the cost of this conversation, and the state of the daily caps that cover it."""
    day, here = day_of(call.at, call.settings.zone), call.conversation.id
    today = [row for row in call.tx.spending.of(since=day) if row.conversation_id == here]
    session = session_of(call)
    if session is None and not today and not call.settings.caps.any:
        return Reply("Nothing spent here yet.")
    rows = {"this session": _session_cost(session), "today, here": describe_line(total(today))}
    rows |= {f"  {line.name}": describe_line(line) for line in sum_up(today, "cause")}
    for scope, cap_usd in call.settings.caps.of(workspace_in(call, session), here):
        rows[f"cap: {scope.kind}"] = describe_cap(call.tx.spending.cap_status(scope, day, cap_usd))
    width = max(map(len, rows))
    table = "\n".join(f"{key:<{width}}  {value}" for key, value in rows.items())
    return Reply(f"```\n{table}\n```\nAs reported by the engines. Days are in {call.settings.zone}.")


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
    found = [row for row in call.tx.asks.find(call.args) if here in (row.conversation_id, *row.shown_in)]
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


def _show_ask(call: CommandCall, row: AskRow) -> Reply:
    """Show an ask. A long one comes as two files: one to read, and the exact bytes that were hashed."""
    ask, tx, at = row.ask, call.tx, call.at
    about = [f"Why: {ask.why}"] if ask.why else []
    about += [f"{offer.remember}: {offer.rule}" for offer in ask.offers]
    about += [code_block(ask.preview, "diff")] if 0 < len(ask.preview) <= INLINE else []
    head = "\n".join([ask.title, row.state, *about])
    tail, diff = f"SHA-256 {ask.payload_hash}", ()
    if len(ask.preview) > INLINE:
        diff = (tx.blobs.attach(ask.preview.encode(), f"{ask.id}.diff", "text/plain", at),)
    if not is_long(ask):
        payload = msgspec.json.format(msgspec.json.encode(ask.payload), indent=2).decode()
        return Reply(f"{head}\n{code_block(payload, 'json')}\n{tail}", diff)
    text = tx.blobs.attach(payload_text(ask).encode(), f"{ask.id}.txt", "text/plain", at)
    exact = tx.blobs.attach(payload_bytes(ask.payload), file_name(ask), "application/json", at)
    return Reply(f"{head}\n{tail} of {exact.name}", (*diff, text, exact))
