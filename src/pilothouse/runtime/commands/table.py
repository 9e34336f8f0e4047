"""The commands, the same on every channel: recognise one, run it, reply.

Only a first word of the form `/name` is looked at, and only a complete known name runs: `/stopp` gives a hint,
`/etc/hosts is broken` is a message. A command is a row in the control waitlist and runs in the transaction that stores it,
so it neither waits behind a turn nor runs twice. It changes only rows and returns the reply; stopping is a flag on the
turn's row, which the node that runs the turn sees.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

import msgspec
from msgspec import Struct

from pilothouse.core.channel import Menu, MenuCommand, Receipt
from pilothouse.core.conversation import Conversation
from pilothouse.core.ids import ConversationId, MessageId
from pilothouse.core.message import Author, Content, InboundMessage
from pilothouse.core.people import AUTHORITY, Role
from pilothouse.core.queue import CONTROL_WAITLIST, QueueRow
from pilothouse.core.schedule import Schedule
from pilothouse.core.store import Tx
from pilothouse.core.text import first_line
from pilothouse.core.turn import Turn
from pilothouse.runtime.admission import pair, parse_code
from pilothouse.runtime.audit import record
from pilothouse.runtime.commands.call import (
    CommandCall,
    CommandSpec,
    NotDone,
    Opening,
    Prepared,
    Reply,
    queued,
    refusal,
)
from pilothouse.runtime.commands.engines import set_engine
from pilothouse.runtime.commands.files import send_file
from pilothouse.runtime.commands.folders import set_workspace
from pilothouse.runtime.commands.lanes import show_lanes
from pilothouse.runtime.commands.mode import set_mode
from pilothouse.runtime.commands.queue import cancel, show_queue
from pilothouse.runtime.commands.reports import show, show_asks, show_cost, show_session, show_status
from pilothouse.runtime.commands.retry import retry
from pilothouse.runtime.commands.search import search
from pilothouse.runtime.commands.servers import show_servers
from pilothouse.runtime.commands.sessions import list_sessions, resume
from pilothouse.runtime.commands.settings import open_topic, set_model, set_trigger
from pilothouse.runtime.commands.tasks import show_tasks
from pilothouse.runtime.commands.watch import watch
from pilothouse.runtime.conversations.binding import session_owner, set_session, workspace_of
from pilothouse.runtime.conversations.exchange import unended_exchanges
from pilothouse.runtime.conversations.pieces import cleaned, keep_message, note_pieces, without_known
from pilothouse.runtime.conversations.places import ensure_place, message_key, place_id
from pilothouse.runtime.facts import STOPPED
from pilothouse.runtime.outbox import reply_key, say
from pilothouse.runtime.ports import ASKS, INBOX, OUTBOX, PLACES, SCHEDULES, Ports, control_of
from pilothouse.runtime.roles import may, note_author, role_of
from pilothouse.runtime.schedules.runs import unended_turns
from pilothouse.runtime.settings import Settings

_encode = msgspec.json.Encoder().encode

ALIASES: Mapping[str, str] = {"thread": "topic", "lane": "lanes"}
"""Other platforms' names for our commands; not listed in `/help`."""

_SLASH_WORD = re.compile(r"^/([a-zA-Z][a-zA-Z0-9_-]*)(?:@\w+)?(?:\s+|$)")

UNUSED = "This command takes no files: the attached ones were not used. Send them again without it."


def _help(call: CommandCall) -> Reply:
    """List the commands of this place under their headings, in lines that fit on a phone."""
    menu: Menu = "private" if call.conversation.private else "group"
    topics: dict[str, list[str]] = {}
    for spec in COMMANDS.values():
        if menu in spec.menus:
            topics.setdefault(spec.topic, []).append(f"{spec.usage} – {spec.summary}")
    engine, listed = call.prepared.commands
    if own := [f"/{name}" for name in listed if name not in COMMANDS and name not in ALIASES]:
        topics[f"Commands of {engine}"] = [", ".join(own)]
    return Reply("\n\n".join("\n".join([topic, *lines]) for topic, lines in topics.items()))


def _new(call: CommandCall) -> Reply:
    kept = session_owner(call.tx, call.settings, call.conversation, call.at)
    set_session(call.tx, kept, call.conversation, None)
    if call.has_message:
        return Reply("This starts a new session.")
    return Reply(f"Your next message starts a new session.{_runs_first(call)}")


def _runs_first(call: CommandCall) -> str:
    """Name the turn that the next message waits for, and how to end it."""
    if call.tx.turns.live_in(call.conversation.id):
        return " The running turn finishes first; /stop ends it."
    if call.tx.turns.of(call.conversation.id, statuses=("parked", "queued"), limit=1):
        return " An earlier message waits to run again, and goes first; /stop drops it."
    return ""


def _stop(call: CommandCall) -> Reply:
    named = [
        (task, turn) for task, turn in unended_turns(call.tx, call.conversation.id) if turn.id == call.args
    ]
    if named:
        return _stop_tasks(call, named)
    live = call.tx.turns.live_in(call.conversation.id)
    waiting, coming = queued(call), _arriving_messages(call)
    tail = _left(waiting, coming)
    if live is not None:
        call.tx.turns.note(live.id, stop_requested=True)
        return Reply(f"Stopping.{tail}")
    held = call.tx.turns.of(call.conversation.id, statuses=("queued", "parked"))
    for turn in held:
        call.tx.turns.note(turn.id, stop_requested=True)
    if held:
        return Reply(f"Stopped. It will not be resumed.{tail}")
    if not coming:
        return _stop_others(call) or Reply(f"Nothing is running here.{tail}")
    for message in coming:
        _withdraw_message(call, message)
    _note_stop(call)
    return Reply(f"{_stopped_coming(len(coming))}{_left(waiting)}")


def _stop_others(call: CommandCall) -> Reply | None:
    """Stop what runs beside the conversation: tasks that it made, and agents that were asked here."""
    if tasks := unended_turns(call.tx, call.conversation.id):
        return _stop_tasks(call, tasks)
    agents = unended_exchanges(call.tx, call.conversation.id)
    for turn in agents:
        call.tx.turns.note(turn.id, stop_requested=True)
    names = dict.fromkeys(turn.prompt.chain.agent for turn in agents if turn.prompt.chain)
    return Reply(f"Stopping what another agent was asked to do: {', '.join(names)}") if agents else None


def _stop_tasks(call: CommandCall, tasks: Sequence[tuple[Schedule, Turn]]) -> Reply:
    """Stop running tasks. They run again at their next time."""
    for _, turn in tasks:
        call.tx.turns.note(turn.id, stop_requested=True)
    names = ", ".join(first_line(task.prompt, 40) for task, _ in tasks)
    return Reply(f"Stopping this run of the task: {names}")


def _arriving_messages(call: CommandCall) -> list[InboundMessage]:
    """List messages of this conversation that are still being fetched. Those of strangers are refused on arrival."""
    place, people = call.conversation.id, call.settings.people
    workspace = workspace_of(call.tx, place, call.settings.default_workspace)
    here = [message for message in call.prepared.expected if place_id(call.tx, message.address) == place]
    known = [
        message for message in here if may(call.tx, people, message.author.id, "desk.expecting", workspace)
    ]
    return [fresh for message in known if (fresh := without_known(call.tx, message)) is not None]


def _withdraw_message(call: CommandCall, message: InboundMessage) -> None:
    """Store the message as withdrawn, without the files that were not fetched yet."""
    put = keep_message(call.tx, call.ids, cleaned(message), call.conversation.id, call.at)
    call.tx.inbox.withdraw(put.row.id, call.at, f"stopped by {call.by.id}")


def _note_stop(call: CommandCall) -> None:
    """Note the time of the stop: messages sent before it that arrive later are stopped too."""
    if call.prepared.said_at:
        call.tx.set_fact(STOPPED.of(call.conversation.id), repr(call.prepared.said_at))


def _left(waiting: Sequence[QueueRow], coming: Sequence[InboundMessage] = ()) -> str:
    """Describe what still runs after a stop."""
    runs = (
        "queued message runs next; /stop ends it"
        if len(waiting) == 1
        else "queued messages run next; /stop ends them"
    )
    told = [f" {len(waiting)} {runs} too."] if waiting else []
    if len(coming) == 1:
        told.append(" A message whose file is still downloading runs when it is complete.")
    elif coming:
        told.append(f" {len(coming)} messages whose files are still downloading run when they are complete.")
    return "".join(told)


def _stopped_coming(count: int) -> str:
    if count == 1:
        return "Stopped before it began, while its file was downloading."
    return f"Stopped {count} messages before they began, while files were downloading."


def _pair(call: CommandCall) -> Reply:
    code = parse_code(f"/pair {call.args}")
    if code is None:
        return Reply(
            "/pair CODE takes a code such as K7QM-2XFP, which `pilothouse pair` shows on the machine."
        )
    grant, told = pair(call.tx, call.ids, call.settings.people, code, call.by, call.at)
    return NotDone(told) if grant is None else Reply(told)


WORK, CHOOSE, LOOK, GROUP, ACCESS = "Work", "Choose", "Look", "In a group", "Access"
COMMANDS: Mapping[str, CommandSpec] = {
    "help": CommandSpec("/help", "this list", _help, topic=WORK),
    "new": CommandSpec("/new", "new session; /new TEXT sends TEXT at once", _new, opens=True, topic=WORK),
    "stop": CommandSpec("/stop", "stop what runs", _stop, topic=WORK),
    "retry": CommandSpec("/retry", "run again what failed", retry, topic=WORK),
    "queue": CommandSpec("/queue", "waiting messages", show_queue, topic=WORK),
    "cancel": CommandSpec("/cancel N", "drop a waiting message", cancel, topic=WORK),
    "watch": CommandSpec("/watch PR", "wake me when its checks fail", watch, topic=WORK),
    "topic": CommandSpec("/topic NAME", "start a separate topic", open_topic, topic=WORK),
    "lanes": CommandSpec("/lanes WHAT", "agents on branches of their own", show_lanes, topic=WORK),
    "tasks": CommandSpec("/tasks WHAT", "tasks at set times", show_tasks, topic=WORK),
    "sessions": CommandSpec("/sessions", "earlier sessions, to continue", list_sessions, topic=CHOOSE),
    "resume": CommandSpec("/resume ID", "continue one of them", resume, topic=CHOOSE),
    "search": CommandSpec("/search WORDS", "find what was said", search, topic=CHOOSE),
    "bind": CommandSpec("/bind FOLDER", "the folder to work in", set_workspace, topic=CHOOSE),
    "engine": CommandSpec("/engine NAME", "the engine", set_engine, topic=CHOOSE),
    "model": CommandSpec("/model NAME", "the model", set_model, topic=CHOOSE),
    "mode": CommandSpec("/mode NAME", "what needs no approval", set_mode, topic=CHOOSE),
    "status": CommandSpec("/status", "what runs here, and how", show_status, topic=LOOK),
    "session": CommandSpec("/session", "this session, and its terminal command", show_session, topic=LOOK),
    "cost": CommandSpec("/cost", "cost of this session and this day", show_cost, topic=LOOK),
    "asks": CommandSpec("/asks", "open approvals, and how others ended", show_asks, topic=LOOK),
    "mcp": CommandSpec("/mcp", "MCP servers; /mcp auth NAME logs in", show_servers, topic=LOOK),
    "show": CommandSpec("/show ID", "a question or an answer in full", show, topic=LOOK),
    "send": CommandSpec("/send PATH", "send a file of the folder here", send_file, topic=LOOK),
    "trigger": CommandSpec("/trigger HOW", "what I react to", set_trigger, topic=GROUP, menus=("group",)),
    "pair": CommandSpec("/pair CODE", "get access with a code", _pair, topic=ACCESS, menus=()),
}


def menu() -> tuple[MenuCommand, ...]:
    """Return the commands for the menus of channels."""
    return tuple(
        MenuCommand(
            name, spec.summary, AUTHORITY[f"command.{name}"], spec.usage, _aliases_of(name), spec.menus
        )
        for name, spec in COMMANDS.items()
    )


def _aliases_of(name: str) -> tuple[str, ...]:
    return tuple(alias for alias, meant in ALIASES.items() if meant == name)


class PlainText(Struct, frozen=True):
    """Text for the engine."""


class Command(Struct, frozen=True):
    name: str
    args: str


class Unknown(Struct, frozen=True):
    """An unknown slash word, and the nearest known one."""

    word: str
    nearest: str | None


Route = PlainText | Command | Unknown


def route(text: str, commands: Collection[str], aliases: Mapping[str, str] = MappingProxyType({})) -> Route:
    """Classify a text as a command, an unknown slash word, or text for the engine."""
    match = _SLASH_WORD.match(text)
    if match is None:
        return PlainText()
    said = match.group(1).lower()
    word = aliases.get(said, said)
    if word in commands:
        return Command(word, text[match.end() :].strip())
    near = difflib.get_close_matches(word, list(commands), n=1, cutoff=0.6)
    return Unknown(word, near[0] if near else None)


async def run_command(
    ports: Ports,
    way: Route,
    message: InboundMessage,
    prepared: Prepared,
) -> Receipt:
    """Store the command and run it in one transaction; the row's key makes a repeat a duplicate."""
    address, by, native_id = message.address, message.author, message.native_id
    settings, at = ports.settings(), ports.clock.now()

    def unit(tx: Tx) -> tuple[Receipt, ConversationId]:
        conversation = ensure_place(tx, address, at)
        put = tx.inbox.put(
            id=MessageId(ports.ids("msg")),
            key=message_key(address, native_id),
            waitlist=CONTROL_WAITLIST,
            conversation_id=conversation.id,
            kind="command",
            body=_encode({"by": by.id, "command": msgspec.to_builtins(_without_code(way))}),
            at=at,
        )
        if not put.fresh:
            return Receipt("duplicate", put.row.id), conversation.id
        note_pieces(tx, ports.ids, message, put.row, at)
        note_author(tx, by, conversation, at)
        if isinstance(way, Command):
            role = _role(tx, settings, by, conversation)
            call = CommandCall(tx, conversation, by, way.args, settings, ports.ids, at, role, prepared)
            reply = _call(way, call)
        else:
            reply = NotDone(_unknown_hint(way))
        tx.inbox.claim([put.row.id])
        if isinstance(reply, NotDone):
            tx.inbox.fail(put.row.id, at, "not carried out")
        else:
            tx.inbox.done(put.row.id, at, "carried out")
        text = f"{reply.text}\n\n{UNUSED}" if has_files(message) else reply.text
        files, formatted = reply.attachments, reply.formatted
        content = Content(
            text, "reply", files, reply_to=native_id, formatted=formatted, buttons=reply.buttons
        )
        say(tx, ports.ids, conversation.id, content, key=reply_key(put.row.id), at=at)
        return Receipt("queued", put.row.id), conversation.id

    receipt, place = await ports.store.write(unit)
    ports.signals.poke(INBOX, OUTBOX, ASKS, PLACES, SCHEDULES, control_of(place))
    return receipt


def _without_code(way: Route) -> Route:
    """Leave a pairing code out of what is stored: it may still be valid."""
    return msgspec.structs.replace(way, args="") if isinstance(way, Command) and way.name == "pair" else way


def has_files(message: InboundMessage) -> bool:
    return bool(message.attachments or message.file_text)


def opening_command(ports: Ports, way: Command, by: Author) -> Opening:
    """Prepare a command that a message follows: it runs with the message and shares its row and key."""
    settings, at = ports.settings(), ports.clock.now()

    def run(tx: Tx, conversation: Conversation) -> Reply:
        role = _role(tx, settings, by, conversation)
        call = CommandCall(tx, conversation, by, "", settings, ports.ids, at, role, has_message=True)
        return _call(way, call)

    return run


def _call(way: Command, call: CommandCall) -> Reply:
    deed = f"command.{way.name}"
    args = "" if way.name == "pair" else call.args
    record(call.tx, call.at, call.by.id, deed, args=args, conversation=call.conversation.id)
    return refusal(call, deed) or COMMANDS[way.name].run(call)


def _role(tx: Tx, settings: Settings, by: Author, conversation: Conversation) -> Role:
    return role_of(tx, settings.people, by.id, workspace_of(tx, conversation.id, settings.default_workspace))


def _unknown_hint(way: Unknown | PlainText) -> str:
    word = way.word if isinstance(way, Unknown) else ""
    nearest = way.nearest if isinstance(way, Unknown) else None
    hint = f"Did you mean /{nearest}? " if nearest else ""
    return f"There is no command /{word}. {hint}/help lists them."
