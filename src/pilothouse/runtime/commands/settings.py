"""Commands that change a conversation's binding: engine, model, workspace, topic, trigger, session."""

from __future__ import annotations

import msgspec

from pilothouse.core.conversation import Conversation, Session
from pilothouse.core.engine import ListsModels
from pilothouse.core.event import ResumeToken
from pilothouse.core.ids import EngineId, SessionId
from pilothouse.core.message import Content
from pilothouse.core.people import AUTHORITY, allows
from pilothouse.core.store import Tx
from pilothouse.core.trigger import describe_trigger, parse_trigger, trigger_problem
from pilothouse.runtime.commands.call import (
    QUOTES,
    CommandCall,
    Listed,
    NotDone,
    Reply,
    binding_of,
    engine_of,
    refusal,
    save,
    session_of,
    workspace_in,
)
from pilothouse.runtime.conversations.binding import bound
from pilothouse.runtime.conversations.places import ensure_place, keep_trigger, trigger_of
from pilothouse.runtime.conversations.sessions import Refused, bind, find_session, may_continue, parse_resume
from pilothouse.runtime.outbox import say
from pilothouse.runtime.ports import Ports
from pilothouse.runtime.roles import role_of

MODELS_NAMED = 20
TRIGGER_USAGE = "/trigger all, mention, reply, pattern WORDS, or default changes it."


def list_models(ports: Ports) -> Listed:
    """List the models of every engine that can. Call it outside of a transaction, which runs in another thread."""
    listed: dict[EngineId, tuple[str, ...]] = {}
    for id, engine in ports.engines.items():
        try:
            if isinstance(engine, ListsModels):
                listed[id] = tuple(model.name for model in engine.models())
        except Exception as error:  # noqa: BLE001 - without a list, people can still type a name
            ports.log("engine.models_failed", level="warning", engine=id, error=error)
    return listed


def models_to_choose(tx: Tx, conversation: Conversation, engine: EngineId, listed: Listed) -> list[str]:
    """Return the models to offer: those used in this conversation, then those that the engine lists."""
    sessions = sorted(tx.sessions.of(conversation.id), key=lambda one: one.used_at, reverse=True)
    used = [session.model for session in sessions if session.engine == engine]
    names = (bound(tx, conversation).model, *used, *listed.get(engine, ()))
    return list(dict.fromkeys(name for name in names if name))


def set_engine(call: CommandCall) -> Reply:
    names = ", ".join(sorted(set(call.settings.engine_names.values())))
    if not call.args:
        return Reply(f"The engine is {engine_of(call, session_of(call))}. There are: {names}.")
    if refused := refusal(call, "command.engine.set"):
        return refused
    engine = call.settings.engine_names.get(call.args.lower())
    if engine is None:
        return NotDone(f"There is no engine {call.args!r}. There are: {names}.")
    if call.prepared.unusable:
        now = engine_of(call, session_of(call))
        return NotDone(
            f"{engine} does not work here: {call.prepared.unusable} Nothing was changed: the engine is {now}."
        )
    save(call, engine=engine, model=None, session_id=None)
    return Reply(f"From your next message on: {engine}, in a new session.")


def set_model(call: CommandCall) -> Reply:
    said = call.args.strip(QUOTES)
    if not said:
        now = f"The model is {binding_of(call).model or 'the engine’s default'}."
        names = models_to_choose(
            call.tx, call.conversation, engine_of(call, session_of(call)), call.prepared.models
        )
        known = f" Known models: {', '.join(names[:MODELS_NAMED])}." if names else ""
        return Reply(f"{now} /model NAME changes it, /model default resets it.{known}")
    if refused := refusal(call, "command.model.set"):
        return refused
    model = None if said.lower() in ("default", "none") else said
    save(call, model=model)
    session = session_of(call)
    if session is not None:  # else the session would restore the model it was opened with
        call.tx.sessions.save(msgspec.structs.replace(session, model=model))
    return Reply(f"From your next message on: {model or 'the engine’s default model'}.")


def set_workspace(call: CommandCall) -> Reply:
    """Change the workspace to a configured one. The caller must be an admin both here and there."""
    names = ", ".join(call.settings.workspaces) or "none; add them to the configuration under [workspaces]"
    if not call.args:
        return Reply(f"The workspace is {workspace_in(call, session_of(call))}. There are: {names}.")
    folder = call.settings.workspaces.get(call.args)
    if folder is None:
        return NotDone(f"There is no workspace {call.args!r}. There are: {names}.")
    there = role_of(call.tx, call.settings.people, call.by.id, folder)
    if refused := refusal(call, "command.bind.set"):
        return refused
    if not allows(there, "command.bind.set"):
        return NotDone(f"Only an {AUTHORITY['command.bind.set']} of {call.args} may do that.")
    save(call, workspace=folder, session_id=None)
    return Reply(f"From your next message on: {folder}, in a new session.")


def open_topic(call: CommandCall) -> Reply:
    """Announce the new thread. It chooses nothing itself, so it inherits its parent's binding."""
    if isinstance(call.prepared.opened, str):
        return NotDone(call.prepared.opened)
    place = ensure_place(call.tx, call.prepared.opened, call.at)
    here = bound(call.tx, place)
    works = f"{here.engine or call.settings.default_engine} in {here.workspace or call.settings.default_workspace}"
    first = Content(f"This is a separate conversation, with {works}.")
    say(call.tx, call.ids, place.id, first, key=f"opened:{place.id}", at=call.at)
    return Reply(f"Opened: {' '.join(call.args.split())}")


def set_trigger(call: CommandCall) -> Reply:
    """Set the trigger of this place alone; it overrides the configuration."""
    if call.conversation.private:
        return Reply("This is a private chat: I react to every message.")
    chosen, said = trigger_of(call.tx, call.conversation.id), call.args.strip()
    if not said:
        now = (
            f"Here I react to {describe_trigger(chosen)}."
            if chosen
            else "Here the configured trigger applies."
        )
        return Reply(f"{now} {TRIGGER_USAGE}")
    if refused := refusal(call, "command.trigger.set"):
        return refused
    if said.lower() == "default":
        keep_trigger(call.tx, call.conversation.id, None)
        return Reply("Trigger reset to the configured default.")
    trigger = parse_trigger(said)
    if trigger is None:
        return NotDone(f"There is no trigger {said!r}. {TRIGGER_USAGE}")
    if problem := trigger_problem(trigger):
        return NotDone(f"Nothing was changed: {problem}.")
    keep_trigger(call.tx, call.conversation.id, trigger)
    return Reply(f"From now on I react here to {describe_trigger(trigger)}, and always to commands.")


def resume(call: CommandCall) -> Reply:
    """Continue a session by its id, an engine's token or a resume line. A token of another engine is refused; a session
    only known to a terminal is adopted."""
    word = call.args.strip("` ")
    if not word:
        return Reply("/resume TOKEN continues a session. `pilothouse sessions` lists them.")
    engine = engine_of(call, None)
    token = _token(call, word, engine)
    if token is None:
        other = _owner_of(call, word, engine)
        if other is not None:
            return NotDone(
                f"That is a session of {other}, not of {engine}. /engine {other} first, then /resume."
            )
        return NotDone(f"No session {word!r} of {engine} is known here. `pilothouse sessions` lists them.")
    if isinstance(token, ResumeToken):
        found = find_session(call.tx, call.ids, call.settings, call.conversation, call.by, token, call.at)
    else:
        found = may_continue(call.tx, call.settings, call.conversation, call.by, token)
    if isinstance(found, Refused):
        return NotDone(found.why)
    bind(call.tx, call.settings, call.conversation, found)
    if not found.turns:
        return Reply(f"From your next message on: that session of {found.engine}, in {found.workspace}.")
    return Reply(f"From your next message on: session {found.id} ({found.turns} turns, {found.engine}).")


def _token(call: CommandCall, word: str, engine: EngineId) -> Session | ResumeToken | None:
    """Find what was named: a stored session, a resume line, or a token of a session not stored yet."""
    said, _ = parse_resume(call.settings, call.args)
    known = call.tx.sessions.get(SessionId(word)) or call.tx.sessions.by_resume(engine, word)
    if said is not None or known is not None or _owner_of(call, word, engine) is not None:
        return said or known
    lines = call.settings.resume_lines.get(engine)
    return lines.read(word) if lines else None


def _owner_of(call: CommandCall, token: str, engine: EngineId) -> EngineId | None:
    others = set(call.settings.engine_names.values()) - {engine}
    return next((other for other in sorted(others) if call.tx.sessions.by_resume(other, token)), None)
