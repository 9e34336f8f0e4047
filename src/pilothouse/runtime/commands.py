"""The commands, the same on every channel: a table of small functions.

Each runs inside the transaction that stored it, changes only rows, and returns what the person reads. Stopping is
a flag on the turn's row: whoever runs the turn sees it, on whichever node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from pilothouse.core.channel import MenuCommand
from pilothouse.core.message import InboundMessage
from pilothouse.core.people import AUTHORITY
from pilothouse.core.queue import QueueRow
from pilothouse.runtime.command_call import CommandCall, CommandSpec, NotDone, Reply, queued, refusal
from pilothouse.runtime.expecting import note_stop, still_expected, take_back
from pilothouse.runtime.growing import lingering
from pilothouse.runtime.handing_out import send_file
from pilothouse.runtime.pairing import pair, parse_code
from pilothouse.runtime.rebinding import open_topic, resume, set_engine, set_model, set_trigger, set_workspace
from pilothouse.runtime.reporting import show, show_cost, show_queue, show_session, show_status
from pilothouse.runtime.sharing import keep_session, keeper
from pilothouse.runtime.wording import first_line

_decode = msgspec.json.Decoder(InboundMessage).decode


def _help(_call: CommandCall) -> Reply:
    width = max(len(spec.usage) for spec in COMMANDS.values())
    lines = [f"{spec.usage:<{width}}  {spec.summary}" for spec in COMMANDS.values()]
    return Reply("```\n" + "\n".join(lines) + "\n```")


def _new(call: CommandCall) -> Reply:
    kept = keeper(call.tx, call.settings, call.conversation, call.at)
    keep_session(call.tx, kept, call.conversation, None)
    if call.has_message:
        return Reply("This starts a new session.")
    live = call.tx.turns.live_in(call.conversation.id)
    tail = " The running turn finishes first; /stop ends it." if live else ""
    return Reply(f"Your next message starts a new session.{tail}")


def _stop(call: CommandCall) -> Reply:
    live = call.tx.turns.live_in(call.conversation.id)
    waiting, coming = queued(call), still_expected(call)
    tail = _left(waiting, coming)
    if live is not None:
        call.tx.turns.note(live.id, stop_requested=True)
        return Reply(f"Stopping.{tail}")
    held = call.tx.turns.of(call.conversation.id, statuses=("queued", "parked"))
    for turn in held:
        call.tx.turns.note(turn.id, stop_requested=True)
    if held:
        return Reply(f"Stopped. It will not be resumed.{tail}")
    for row in (unbegun := lingering(waiting, call.at)):
        call.tx.inbox.withdraw(row.id, call.at, f"stopped by {call.by.id}")
    for message in coming:
        take_back(call, message)
    tail = _left([row for row in waiting if row not in unbegun])
    if coming:
        note_stop(call)
        return Reply(f"{_stopped_coming(len(coming) + len(unbegun))}{tail}")
    return Reply(f"Stopped before it began.{tail}" if unbegun else f"Nothing is running here.{tail}")


def _left(waiting: Sequence[QueueRow], coming: Sequence[InboundMessage] = ()) -> str:
    """What begins in spite of a stop, in its turn."""
    told = [f" {len(waiting)} queued: /queue shows, /cancel drops."] if waiting else []
    if len(coming) == 1:
        told.append(" A message whose file is still on its way begins when that is here.")
    elif coming:
        told.append(f" {len(coming)} messages whose files are still on their way begin when those are here.")
    return "".join(told)


def _stopped_coming(count: int) -> str:
    if count == 1:
        return "Stopped before it began, while its file was still on its way."
    return f"Stopped {count} messages before they began, while files were still on their way."


def _cancel(call: CommandCall) -> Reply:
    number = call.args.lstrip("#")
    row = next((row for row in queued(call) if str(row.seq) == number), None)
    if row is None:
        return NotDone(f"Nothing waits under {call.args or 'that number'}. /queue shows the numbers.")
    message = _decode(row.body)
    if message.author.id != call.by.id and (refused := refusal(call, "command.cancel.foreign")):
        return refused
    call.tx.inbox.withdraw(row.id, call.at, f"cancelled by {call.by.id}")
    return Reply(f"Dropped: {first_line(message.whole_text)}")


def _pair(call: CommandCall) -> Reply:
    code = parse_code(f"/pair {call.args}")
    if code is None:
        return Reply(
            "/pair CODE takes a code that `pilothouse pair` shows on the machine, such as K7QM-2XFP."
        )
    grant, told = pair(call.tx, call.ids, call.settings.people, code, call.by, call.at)
    return NotDone(told) if grant is None else Reply(told)


COMMANDS: Mapping[str, CommandSpec] = {
    "help": CommandSpec("/help", "this list", _help),
    "new": CommandSpec(
        "/new", "start a new session; words behind it are its first message", _new, opens=True
    ),
    "stop": CommandSpec("/stop", "stop the running turn; it is not resumed", _stop),
    "status": CommandSpec("/status", "what runs here, and how", show_status),
    "queue": CommandSpec("/queue", "what waits", show_queue),
    "cancel": CommandSpec("/cancel N", "drop a waiting message", _cancel),
    "engine": CommandSpec("/engine NAME", "change the engine", set_engine),
    "model": CommandSpec("/model NAME", "change the model", set_model),
    "bind": CommandSpec("/bind WORKSPACE", "change the workspace", set_workspace),
    "topic": CommandSpec("/topic NAME", "open a topic, or a thread, for something of its own", open_topic),
    "trigger": CommandSpec("/trigger HOW", "choose what I react to in a group", set_trigger),
    "resume": CommandSpec("/resume TOKEN", "continue an earlier session", resume),
    "session": CommandSpec("/session", "this session, and how to go on in a terminal", show_session),
    "cost": CommandSpec("/cost", "what this session and this day cost", show_cost),
    "show": CommandSpec("/show ID", "a question or an answer, whole", show),
    "send": CommandSpec("/send PATH", "a file of the workspace, sent here", send_file),
    "pair": CommandSpec("/pair CODE", "be let in with a code from the machine", _pair),
}

ALIASES: Mapping[str, str] = {"thread": "topic"}
"""What some platforms call a thing that we have one name for. They stand in no list."""


def menu() -> tuple[MenuCommand, ...]:
    """All of them, as channels are told of them."""
    return tuple(
        MenuCommand(name, spec.summary, AUTHORITY[f"command.{name}"], spec.usage, _aliases_of(name))
        for name, spec in COMMANDS.items()
    )


def _aliases_of(name: str) -> tuple[str, ...]:
    return tuple(alias for alias, meant in ALIASES.items() if meant == name)
