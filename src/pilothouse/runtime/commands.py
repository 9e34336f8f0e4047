"""The commands, the same on every channel: a table of small functions.

Each runs inside the transaction that stored it, changes only rows, and returns what the person reads. Stopping is
a flag on the turn's row: whoever runs the turn sees it, on whichever node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec
from msgspec import Struct

from pilothouse.core.ask import payload_bytes
from pilothouse.core.ask_rows import AskRow
from pilothouse.core.budget import day_of
from pilothouse.core.conversation import Conversation, Session
from pilothouse.core.event import ResumeToken
from pilothouse.core.ids import EngineId, IdMaker, SessionId
from pilothouse.core.message import Address, Attachment, Author, Content, InboundMessage
from pilothouse.core.people import AUTHORITY, Role, allows
from pilothouse.core.queue import QueueRow
from pilothouse.core.store import Tx
from pilothouse.core.trigger import describe_trigger, parse_trigger, trigger_problem
from pilothouse.core.turn import Turn
from pilothouse.core.wording import span
from pilothouse.runtime.ask_words import INLINE, file_name, is_long, readable
from pilothouse.runtime.binding import bound
from pilothouse.runtime.choosing import Listed, models_to_choose
from pilothouse.runtime.continuing import Refused, bind, find_session, may_continue, parse_resume
from pilothouse.runtime.costs import CostLine, line_words, standing_words, sum_up, total
from pilothouse.runtime.outgoing import say
from pilothouse.runtime.pairing import pair, parse_code
from pilothouse.runtime.placing import ensure_place
from pilothouse.runtime.settings import Settings
from pilothouse.runtime.sharing import keep_session, keeper
from pilothouse.runtime.standing import role_of
from pilothouse.runtime.triggering import keep_trigger, trigger_of
from pilothouse.runtime.trusting import is_trusted
from pilothouse.runtime.wording import ago, fenced, first_line

_decode = msgspec.json.Decoder(InboundMessage).decode

QUOTES = "\"'`“”‘’ "
"""Around a name, these are how somebody writes it, and no part of it."""
MODELS_NAMED = 20
TRIGGER_USAGE = "/trigger all, mention, reply, pattern WORDS, or default changes it."


class CommandCall(Struct, frozen=True):
    tx: Tx
    conversation: Conversation
    by: Author
    args: str
    settings: Settings
    ids: IdMaker
    at: float
    role: Role
    """Of whoever said it, in the workspace of the conversation."""
    models: Listed
    """Which ones the engines say that they have."""
    opened: Address | str = ""
    """Of `/topic`: where the new thread is, or why there is none."""


class Reply(Struct, frozen=True):
    text: str
    attachments: tuple[Attachment, ...] = ()


class CommandSpec(Struct, frozen=True):
    usage: str
    summary: str
    run: Callable[[CommandCall], Reply]


def _help(_call: CommandCall) -> Reply:
    width = max(len(spec.usage) for spec in COMMANDS.values())
    lines = [f"{spec.usage:<{width}}  {spec.summary}" for spec in COMMANDS.values()]
    return Reply("```\n" + "\n".join(lines) + "\n```")


def _new(call: CommandCall) -> Reply:
    kept = keeper(call.tx, call.settings, call.conversation, call.at)
    keep_session(call.tx, kept, call.conversation, None)
    live = call.tx.turns.live_in(call.conversation.id)
    tail = " The running turn finishes first; /stop ends it." if live else ""
    return Reply(f"Your next message starts a new session.{tail}")


def _stop(call: CommandCall) -> Reply:
    live = call.tx.turns.live_in(call.conversation.id)
    waiting = _queued(call)
    tail = f" {len(waiting)} queued: /queue shows, /cancel drops." if waiting else ""
    if live is not None:
        call.tx.turns.note(live.id, stop_requested=True)
        return Reply(f"Stopping.{tail}")
    held = call.tx.turns.of(call.conversation.id, statuses=("queued", "parked"))
    for turn in held:
        call.tx.turns.note(turn.id, stop_requested=True)
    if held:
        return Reply(f"Stopped. It will not be resumed.{tail}")
    return Reply(f"Nothing is running here.{tail}")


def _status(call: CommandCall) -> Reply:
    session, live = _session(call), call.tx.turns.live_in(call.conversation.id)
    rows = {
        "state": _state(call, live),
        "engine": _engine(call, session),
        "model": _bound(call).model or (session.model if session else None) or "the engine's own",
        "workspace": _workspace(call, session),
        "trust": _trust(call, _workspace(call, session)),
        "session": session.id if session else "a new one with your next message",
        "queue": f"{len(_queued(call))} waiting",
        "asks": f"{len(call.tx.asks.open_in(call.conversation.id))} open",
        "busy": _bound(call).busy or call.settings.busy,
    }
    return Reply("```\n" + "\n".join(f"{key:<10} {value}" for key, value in rows.items()) + "\n```")


def _trust(call: CommandCall, workspace: str) -> str:
    if is_trusted(call.tx, workspace):
        return "trusted"
    return f"not trusted; `pilothouse trust {workspace}` would add its settings, hooks, servers and CLAUDE.md"


def _queue(call: CommandCall) -> Reply:
    rows = _queued(call)
    if not rows:
        return Reply("Nothing waits.")
    return Reply("\n".join(f"- `#{row.seq}` {first_line(_decode(row.body).text)}" for row in rows))


def _cancel(call: CommandCall) -> Reply:
    number = call.args.lstrip("#")
    row = next((row for row in _queued(call) if str(row.seq) == number), None)
    if row is None:
        return Reply(f"Nothing waits under {call.args or 'that number'}. /queue shows the numbers.")
    message = _decode(row.body)
    if message.author.id != call.by.id and (refused := _refusal(call, "command.cancel.foreign")):
        return refused
    call.tx.inbox.withdraw(row.id, call.at, f"cancelled by {call.by.id}")
    return Reply(f"Dropped: {first_line(message.text)}")


def _set_engine(call: CommandCall) -> Reply:
    names = ", ".join(sorted(set(call.settings.engine_names.values())))
    if not call.args:
        return Reply(f"The engine is {_engine(call, _session(call))}. There are: {names}.")
    if refused := _refusal(call, "command.engine.set"):
        return refused
    engine = call.settings.engine_names.get(call.args.lower())
    if engine is None:
        return Reply(f"There is no engine {call.args!r}. There are: {names}.")
    _save(call, engine=engine, model=None, session_id=None)
    return Reply(f"From your next message on: {engine}, in a new session.")


def _set_model(call: CommandCall) -> Reply:
    said = call.args.strip(QUOTES)
    if not said:
        now = f"The model is {_bound(call).model or 'the engine’s own'}."
        names = models_to_choose(call.tx, call.conversation, _engine(call, _session(call)), call.models)
        known = f" Known are: {', '.join(names[:MODELS_NAMED])}." if names else ""
        return Reply(f"{now} /model NAME sets another, /model default the engine’s own.{known}")
    if refused := _refusal(call, "command.model.set"):
        return refused
    model = None if said.lower() in ("default", "none") else said
    _save(call, model=model)
    session = _session(call)
    if session is not None:  # else the session would bring back the model that it was opened with
        call.tx.sessions.save(msgspec.structs.replace(session, model=model))
    return Reply(f"From your next message on: {model or 'the engine’s own model'}.")


def _bind(call: CommandCall) -> Reply:
    """Only to a folder that the configuration names, and only by somebody who is an admin here and there."""
    names = ", ".join(call.settings.workspaces) or "none; the configuration names them under [workspaces]"
    if not call.args:
        return Reply(f"The workspace is {_workspace(call, _session(call))}. There are: {names}.")
    folder = call.settings.workspaces.get(call.args)
    if folder is None:
        return Reply(f"There is no workspace {call.args!r}. There are: {names}.")
    there = role_of(call.tx, call.settings.people, call.by.id, folder)
    if refused := _refusal(call, "command.bind.set"):
        return refused
    if not allows(there, "command.bind.set"):
        return Reply(f"Only an {AUTHORITY['command.bind.set']} of {call.args} may do that.")
    _save(call, workspace=folder, session_id=None)
    return Reply(f"From your next message on: {folder}, in a new session.")


def _topic(call: CommandCall) -> Reply:
    """A conversation of its own, bound as its place is: nothing is chosen for it, so it inherits."""
    if isinstance(call.opened, str):
        return Reply(call.opened)
    place = ensure_place(call.tx, call.opened, call.at)
    here = bound(call.tx, place)
    works = f"{here.engine or call.settings.default_engine} in {here.workspace or call.settings.default_workspace}"
    first = Content(f"What is said here is a conversation of its own, with {works}.")
    say(call.tx, call.ids, place.id, first, key=f"opened:{place.id}", at=call.at)
    return Reply(f"Opened: {' '.join(call.args.split())}")


def _trigger(call: CommandCall) -> Reply:
    """Of the place alone in which it is said, whatever the configuration says about that one."""
    if call.conversation.private:
        return Reply("We are alone here: I hear everything you say.")
    chosen, said = trigger_of(call.tx, call.conversation.id), call.args.strip()
    if not said:
        now = f"Here I hear {describe_trigger(chosen)}." if chosen else "Here I hear what is configured."
        return Reply(f"{now} {TRIGGER_USAGE}")
    if refused := _refusal(call, "command.trigger.set"):
        return refused
    if said.lower() == "default":
        keep_trigger(call.tx, call.conversation.id, None)
        return Reply("From now on I hear here what is configured.")
    trigger = parse_trigger(said)
    if trigger is None:
        return Reply(f"There is no trigger {said!r}. {TRIGGER_USAGE}")
    if problem := trigger_problem(trigger):
        return Reply(f"Nothing was changed: {problem}.")
    keep_trigger(call.tx, call.conversation.id, trigger)
    return Reply(f"From now on I hear here {describe_trigger(trigger)}. Commands I always hear.")


def _resume(call: CommandCall) -> Reply:
    """Takes our own session id, an engine's token or a resume line; a token of another engine is refused, not guessed
    at. An id that only a terminal knows is taken in."""
    word = call.args.strip("` ")
    if not word:
        return Reply("/resume TOKEN continues a session. `pilothouse sessions` lists them.")
    engine = _engine(call, None)
    token = _token(call, word, engine)
    if token is None:
        other = _owner_of(call, word, engine)
        if other is not None:
            return Reply(
                f"That is a session of {other}, not of {engine}. /engine {other} first, then /resume."
            )
        return Reply(f"No session {word!r} of {engine} is known here. `pilothouse sessions` lists them.")
    if isinstance(token, ResumeToken):
        found = find_session(call.tx, call.ids, call.settings, call.conversation, call.by, token, call.at)
    else:
        found = may_continue(call.tx, call.settings, call.conversation, call.by, token)
    if isinstance(found, Refused):
        return Reply(found.why)
    bind(call.tx, call.settings, call.conversation, found)
    if not found.turns:
        return Reply(f"From your next message on: that session of {found.engine}, in {found.workspace}.")
    return Reply(f"From your next message on: session {found.id} ({found.turns} turns, {found.engine}).")


def _token(call: CommandCall, word: str, engine: EngineId) -> Session | ResumeToken | None:
    """What was meant: a session of ours, a resume line, or the id of one that we never saw."""
    said, _ = parse_resume(call.settings, call.args)
    known = call.tx.sessions.get(SessionId(word)) or call.tx.sessions.by_resume(engine, word)
    if said is not None or known is not None or _owner_of(call, word, engine) is not None:
        return said or known
    lines = call.settings.resume_lines.get(engine)
    return lines.read(word) if lines else None


def _show_session(call: CommandCall) -> Reply:
    session = _session(call)
    if session is None:
        return Reply("No session yet: your next message starts one.")
    token = session.resume.value if session.resume else "not told by the engine yet"
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


def _cost(call: CommandCall) -> Reply:
    """What this place cost, and how the day's caps that cover it stand."""
    day, here = day_of(call.at, call.settings.zone), call.conversation.id
    today = [row for row in call.tx.spending.of(since=day) if row.conversation_id == here]
    session = _session(call)
    if session is None and not today and not call.settings.caps.any:
        return Reply("Nothing was spent here yet.")
    rows = {"this session": _session_cost(session), "today, here": line_words(total(today))}
    rows |= {f"  {line.name}": line_words(line) for line in sum_up(today, "cause")}
    for scope, cap_usd in call.settings.caps.of(_workspace(call, session), here):
        rows[f"cap: {scope.kind}"] = standing_words(call.tx.spending.standing(scope, day, cap_usd))
    width = max(map(len, rows))
    table = "\n".join(f"{key:<{width}}  {value}" for key, value in rows.items())
    return Reply(f"```\n{table}\n```\nAs the engines tell it. A day is as in {call.settings.zone}.")


def _session_cost(session: Session | None) -> str:
    if session is None:
        return "nothing yet"
    return line_words(CostLine("", session.turns, session.cost_usd, 0, 0.0))


def _show(call: CommandCall) -> Reply:
    """An ask whole, never cut; or a message as it was sent."""
    if not call.args:
        return Reply("/show ID shows a question or a message whole.")
    here = call.conversation.id
    asks = [row for row in call.tx.asks.find(call.args) if here in (row.conversation_id, *row.shown_in)]
    if len(asks) == 1:
        return _show_ask(call, asks[0])
    turns = [turn for turn in call.tx.turns.find(call.args) if turn.conversation_id == call.conversation.id]
    if len(turns) == 1:
        return Reply(turns[0].answer or (turns[0].failure.text if turns[0].failure else "No answer yet."))
    return Reply(f"Nothing here is called {call.args!r}.")


def _show_ask(call: CommandCall, row: AskRow) -> Reply:
    """What is long is a file, to be read, and the bytes that the hash is of, to be checked."""
    ask, tx, at = row.ask, call.tx, call.at
    about = [f"Why: {ask.why}"] if ask.why else []
    about += [f"{offer.remember}: {offer.rule}" for offer in ask.offers]
    about += [fenced(ask.preview, "diff")] if 0 < len(ask.preview) <= INLINE else []
    head = "\n".join([ask.title, row.state, *about])
    tail, diff = f"SHA-256 {ask.payload_hash}", ()
    if len(ask.preview) > INLINE:
        diff = (tx.blobs.attach(ask.preview.encode(), f"{ask.id}.diff", "text/plain", at),)
    if not is_long(ask):
        payload = msgspec.json.format(msgspec.json.encode(ask.payload), indent=2).decode()
        return Reply(f"{head}\n{fenced(payload, 'json')}\n{tail}", diff)
    text = tx.blobs.attach(readable(ask).encode(), f"{ask.id}.txt", "text/plain", at)
    exact = tx.blobs.attach(payload_bytes(ask.payload), file_name(ask), "application/json", at)
    return Reply(f"{head}\n{tail}, which {exact.name} has", (*diff, text, exact))


def _pair(call: CommandCall) -> Reply:
    code = parse_code(f"/pair {call.args}")
    if code is None:
        return Reply(
            "/pair CODE takes a code that `pilothouse pair` shows on the machine, such as K7QM-2XFP."
        )
    return Reply(pair(call.tx, call.ids, code, call.by, call.at)[1])


COMMANDS: Mapping[str, CommandSpec] = {
    "help": CommandSpec("/help", "this list", _help),
    "new": CommandSpec("/new", "start a new session", _new),
    "stop": CommandSpec("/stop", "stop the running turn; it is not resumed", _stop),
    "status": CommandSpec("/status", "what runs here, and how", _status),
    "queue": CommandSpec("/queue", "what waits", _queue),
    "cancel": CommandSpec("/cancel N", "drop a waiting message", _cancel),
    "engine": CommandSpec("/engine NAME", "change the engine", _set_engine),
    "model": CommandSpec("/model NAME", "change the model", _set_model),
    "bind": CommandSpec("/bind WORKSPACE", "change the workspace", _bind),
    "topic": CommandSpec("/topic NAME", "open a topic, or a thread, for something of its own", _topic),
    "trigger": CommandSpec("/trigger HOW", "choose what I react to in a group", _trigger),
    "resume": CommandSpec("/resume TOKEN", "continue an earlier session", _resume),
    "session": CommandSpec("/session", "this session, and how to go on in a terminal", _show_session),
    "cost": CommandSpec("/cost", "what this session and this day cost", _cost),
    "show": CommandSpec("/show ID", "a question or an answer, whole", _show),
    "pair": CommandSpec("/pair CODE", "be let in with a code from the machine", _pair),
}

ALIASES: Mapping[str, str] = {"thread": "topic"}
"""What some platforms call a thing that we have one name for. They stand in no list."""


def _save(call: CommandCall, **changes: object) -> None:
    call.tx.conversations.save(msgspec.structs.replace(call.conversation, **changes))


def _refusal(call: CommandCall, deed: str) -> Reply | None:
    return None if allows(call.role, deed) else Reply(f"Only an {AUTHORITY[deed]} may do that here.")


def _bound(call: CommandCall) -> Conversation:
    return bound(call.tx, call.conversation)


def _session(call: CommandCall) -> Session | None:
    kept = keeper(call.tx, call.settings, call.conversation, call.at)
    return call.tx.sessions.get(kept.session_id) if kept.session_id else None


def _queued(call: CommandCall) -> list[QueueRow]:
    return call.tx.inbox.waiting(call.conversation.id)


def _engine(call: CommandCall, session: Session | None) -> EngineId:
    return _bound(call).engine or (session.engine if session else None) or call.settings.default_engine


def _workspace(call: CommandCall, session: Session | None) -> str:
    chosen = _bound(call).workspace or (session.workspace if session else None)
    return chosen or call.settings.default_workspace


def _state(call: CommandCall, live: Turn | None) -> str:
    if live is None:
        parked = call.tx.turns.of(call.conversation.id, statuses=("parked",), limit=1)
        if parked and call.tx.spending.get(parked[0].id):
            return "held: the day's budget has no room for it"
        return "parked until the limit resets" if parked else "idle"
    if live.status == "waiting":
        return "waiting for your answer"
    return f"working for {span(call.at - (live.started_at or call.at))}"


def _owner_of(call: CommandCall, token: str, engine: EngineId) -> EngineId | None:
    others = set(call.settings.engine_names.values()) - {engine}
    return next((other for other in sorted(others) if call.tx.sessions.by_resume(other, token)), None)
