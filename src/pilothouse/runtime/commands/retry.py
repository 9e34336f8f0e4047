"""`/retry`: run the last failed turn again. A *Retry* button below a failure runs `/retry TURN`, so it never repeats another.

`/retry ENGINE` runs a turn that could not begin with another engine. `/retry TURN` in the chat that made a schedule reaches
the schedule's turns too; they go on in the schedule's own conversation and session.
"""

from __future__ import annotations

import msgspec

from pilothouse.core.ids import TurnId
from pilothouse.core.people import allows
from pilothouse.core.schedule import split_task_place
from pilothouse.runtime.commands.call import CommandCall, NotDone, Reply
from pilothouse.runtime.commands.engines import retry_with
from pilothouse.runtime.roles import role_of
from pilothouse.runtime.turns.recover import retry_turn

NOTHING = "Nothing failed here, so there is nothing to retry."
BUSY = "Still working. /stop ends it."
WAITS = "It runs again by itself. /stop drops it."
OLDER = "Newer messages came after that one. Send it again instead."
OLDER_RUN = "That task has run again since. /tasks run ID starts another run."
NO_ACCESS = "You have no access to the folder of that task."


def retry(call: CommandCall) -> Reply:
    words = call.args.split()
    named = next((word.lower() for word in words if word.lower() in call.settings.engine_names), "")
    turns = [word for word in words if word.lower() != named]
    there = _in_task(call, turns[0]) if turns else None
    if there is not None and not allows(there.role, "command.retry"):
        return NotDone(NO_ACCESS)
    return _retry_newest(there or call, turns[0] if turns else "", named, OLDER_RUN if there else OLDER)


def _in_task(call: CommandCall, id: str) -> CommandCall | None:
    """Return the call in the conversation of the schedule that the turn belongs to; None if it is no schedule's of here."""
    turn = call.tx.turns.get(TurnId(id))
    place = call.tx.conversations.get(turn.conversation_id) if turn is not None else None
    session = call.tx.sessions.get(turn.session_id) if turn is not None else None
    if place is None or session is None or place.id == call.conversation.id:
        return None
    if split_task_place(place.id)[0] != call.conversation.id:
        return None
    role = role_of(call.tx, call.settings.people, call.by.id, session.workspace)
    return msgspec.structs.replace(call, conversation=place, role=role)


def _retry_newest(call: CommandCall, id: str, named: str, older: str) -> Reply:
    newest = next(iter(call.tx.turns.of(call.conversation.id, limit=1)), None)
    if newest is None:
        return NotDone(NOTHING)
    if not newest.id.startswith(id):
        return NotDone(older)
    match newest.status:
        case "running" | "waiting":
            return NotDone(BUSY)
        case "failed" | "parked" if named:
            return retry_with(call, newest, named)
        case "queued" | "parked" | "lost":
            return NotDone(WAITS)
        case "failed":
            again = retry_turn(call.tx, call.ids, call.settings, newest, call.at)
            return NotDone(NOTHING) if again is None else Reply("Trying again.")
        case _:
            return NotDone(NOTHING)
