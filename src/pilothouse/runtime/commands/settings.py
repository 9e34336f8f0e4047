"""Commands that change how a conversation works: model, topic, trigger."""

from __future__ import annotations

import msgspec

from pilothouse.core.conversation import Conversation
from pilothouse.core.engine import ListsModels, Model
from pilothouse.core.ids import EngineId
from pilothouse.core.message import CommandButton, Content
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
)
from pilothouse.runtime.conversations.binding import bound
from pilothouse.runtime.conversations.places import ensure_place, keep_trigger, trigger_of
from pilothouse.runtime.outbox import say
from pilothouse.runtime.ports import Ports

MODELS_NAMED = 20
DEFAULT_MODEL = "the engine's default"
TRIGGER_USAGE = "/trigger all, mention, reply, pattern WORDS, or default changes it."


def list_models(ports: Ports) -> Listed:
    """List the names of the models of every engine that can."""
    return {id: tuple(model.name for model in models) for id, models in model_facts(ports).items()}


def model_facts(ports: Ports) -> dict[EngineId, tuple[Model, ...]]:
    """List the models of every engine that can. Call it outside of a transaction, which runs in another thread."""
    listed: dict[EngineId, tuple[Model, ...]] = {}
    for id, engine in ports.engines.items():
        try:
            if isinstance(engine, ListsModels):
                listed[id] = tuple(engine.models())
        except Exception as error:  # noqa: BLE001 - without a list, people can still type a name
            ports.log("engine.models_failed", level="warning", engine=id, error=error)
    return listed


def models_to_choose(tx: Tx, conversation: Conversation, engine: EngineId, listed: Listed) -> list[str]:
    """Return the models to offer: those used in this conversation, then those that the engine lists."""
    sessions = sorted(tx.sessions.of(conversation.id), key=lambda one: one.used_at, reverse=True)
    used = [session.model for session in sessions if session.engine == engine]
    names = (bound(tx, conversation).model, *used, *listed.get(engine, ()))
    return list(dict.fromkeys(name for name in names if name))


def set_model(call: CommandCall) -> Reply:
    said = call.args.strip(QUOTES)
    if not said:
        return _list_models(call)
    if refused := refusal(call, "command.model.set"):
        return refused
    model = None if said.lower() in ("default", "none") else said
    save(call, model=model)
    session = session_of(call)
    if session is not None:  # else the session would restore the model it was opened with
        call.tx.sessions.save(msgspec.structs.replace(session, model=model))
    return Reply(f"From your next message on: {model or f'{DEFAULT_MODEL} model'}.")


def _list_models(call: CommandCall) -> Reply:
    now = binding_of(call).model
    found = models_to_choose(
        call.tx, call.conversation, engine_of(call, session_of(call)), call.prepared.models
    )
    names = found[:MODELS_NAMED]
    known = f" Known models: {', '.join(names)}." if names else ""
    others = [*(name for name in names if name != now), *(["default"] if now else [])]
    text = f"The model is {now or DEFAULT_MODEL}. /model NAME changes it, /model default resets it."
    return Reply(f"{text}{known}", buttons=tuple(CommandButton(name, f"/model {name}") for name in others))


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
        return Reply("In a private chat I answer every message.")
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
