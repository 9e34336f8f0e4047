"""The commands, the same on every channel: recognise one, run it, reply.

Only a first word of the form `/name` is looked at, and only a complete known name runs: `/stopp` gives a hint,
`/etc/hosts is broken` is a message. A command is a row in the control lane and runs in the transaction that stores it,
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

from pilothouse.core.channel import MenuCommand, Receipt
from pilothouse.core.conversation import Conversation
from pilothouse.core.facts import STOPPED
from pilothouse.core.ids import ConversationId, MessageId
from pilothouse.core.message import Author, Content, InboundMessage
from pilothouse.core.people import AUTHORITY, Role
from pilothouse.core.queue import CONTROL_LANE, QueueRow
from pilothouse.core.store import Tx
from pilothouse.core.text import first_line
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
from pilothouse.runtime.commands.files import send_file
from pilothouse.runtime.commands.reports import show, show_cost, show_queue, show_session, show_status
from pilothouse.runtime.commands.settings import (
    open_topic,
    resume,
    set_engine,
    set_model,
    set_trigger,
    set_workspace,
)
from pilothouse.runtime.conversations.binding import session_owner, set_session, workspace_of
from pilothouse.runtime.conversations.pieces import cleaned, keep_message, note_pieces, without_known
from pilothouse.runtime.conversations.places import ensure_place, message_key, place_id
from pilothouse.runtime.outbox import reply_key, say
from pilothouse.runtime.ports import Ports
from pilothouse.runtime.roles import may, note_author, role_of
from pilothouse.runtime.settings import Settings
from pilothouse.runtime.signals import ASKS, INBOX, OUTBOX, PLACES, control_of

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(InboundMessage).decode

ALIASES: Mapping[str, str] = {"thread": "topic"}
"""Other platforms' names for our commands; not listed in `/help`."""

_SLASH_WORD = re.compile(r"^/([a-zA-Z][a-zA-Z0-9_-]*)(?:@\w+)?(?:\s+|$)")

UNUSED = "This command takes no files: the attached ones were not used. Send them again without it."


def _help(_call: CommandCall) -> Reply:
    width = max(len(spec.usage) for spec in COMMANDS.values())
    lines = [f"{spec.usage:<{width}}  {spec.summary}" for spec in COMMANDS.values()]
    return Reply("```\n" + "\n".join(lines) + "\n```")


def _new(call: CommandCall) -> Reply:
    kept = session_owner(call.tx, call.settings, call.conversation, call.at)
    set_session(call.tx, kept, call.conversation, None)
    if call.has_message:
        return Reply("This starts a new session.")
    live = call.tx.turns.live_in(call.conversation.id)
    tail = " The running turn finishes first; /stop ends it." if live else ""
    return Reply(f"Your next message starts a new session.{tail}")


def _stop(call: CommandCall) -> Reply:
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
        return Reply(f"Nothing is running here.{tail}")
    for message in coming:
        _withdraw_message(call, message)
    _note_stop(call)
    return Reply(f"{_stopped_coming(len(coming))}{_left(waiting)}")


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
        return Reply("/pair CODE takes a code such as K7QM-2XFP. `pilothouse pair` on the machine shows one.")
    grant, told = pair(call.tx, call.ids, call.settings.people, code, call.by, call.at)
    return NotDone(told) if grant is None else Reply(told)


COMMANDS: Mapping[str, CommandSpec] = {
    "help": CommandSpec("/help", "this list", _help),
    "new": CommandSpec("/new", "start a new session; text after it is its first message", _new, opens=True),
    "stop": CommandSpec("/stop", "stop the running turn; it is not resumed", _stop),
    "status": CommandSpec("/status", "what runs here, and how", show_status),
    "queue": CommandSpec("/queue", "list queued messages", show_queue),
    "cancel": CommandSpec("/cancel N", "drop a queued message", _cancel),
    "engine": CommandSpec("/engine NAME", "change the engine", set_engine),
    "model": CommandSpec("/model NAME", "change the model", set_model),
    "bind": CommandSpec("/bind WORKSPACE", "change the workspace", set_workspace),
    "topic": CommandSpec("/topic NAME", "open a topic or thread as a separate conversation", open_topic),
    "trigger": CommandSpec("/trigger HOW", "choose what I react to in a group", set_trigger),
    "resume": CommandSpec("/resume TOKEN", "continue an earlier session", resume),
    "session": CommandSpec("/session", "this session, and how to continue it in a terminal", show_session),
    "cost": CommandSpec("/cost", "cost of this session and this day", show_cost),
    "show": CommandSpec("/show ID", "a question or an answer in full", show),
    "send": CommandSpec("/send PATH", "send a file of the workspace here", send_file),
    "pair": CommandSpec("/pair CODE", "get access with a code from the machine", _pair),
}


def menu() -> tuple[MenuCommand, ...]:
    """Return the commands for the menus of channels."""
    return tuple(
        MenuCommand(name, spec.summary, AUTHORITY[f"command.{name}"], spec.usage, _aliases_of(name))
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
            lane=CONTROL_LANE,
            conversation_id=conversation.id,
            kind="command",
            body=_encode({"by": by.id, "command": msgspec.to_builtins(way)}),
            at=at,
        )
        if not put.fresh:
            return Receipt("duplicate", put.row.id), conversation.id
        note_pieces(tx, ports.ids, message, put.row, at)
        note_author(tx, by, conversation)
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
        content = Content(text, "reply", files, reply_to=native_id, formatted=formatted)
        say(tx, ports.ids, conversation.id, content, key=reply_key(put.row.id), at=at)
        return Receipt("queued", put.row.id), conversation.id

    receipt, place = await ports.store.write(unit)
    ports.signals.poke(INBOX, OUTBOX, ASKS, PLACES, control_of(place))
    return receipt


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
    record(call.tx, call.at, call.by.id, deed, args=call.args, conversation=call.conversation.id)
    return refusal(call, deed) or COMMANDS[way.name].run(call)


def _role(tx: Tx, settings: Settings, by: Author, conversation: Conversation) -> Role:
    return role_of(tx, settings.people, by.id, workspace_of(tx, conversation.id, settings.default_workspace))


def _unknown_hint(way: Unknown | PlainText) -> str:
    word = way.word if isinstance(way, Unknown) else ""
    nearest = way.nearest if isinstance(way, Unknown) else None
    hint = f"Did you mean /{nearest}? " if nearest else ""
    return f"There is no command /{word}. {hint}/help lists them."
