"""A command is a row too, in the control lane; it is carried out in the transaction that stores it, so that it neither
waits behind a turn nor happens twice."""

from __future__ import annotations

import msgspec

from pilothouse.core.channel import Receipt
from pilothouse.core.conversation import Conversation
from pilothouse.core.ids import ConversationId, MessageId
from pilothouse.core.message import Author, Content, InboundMessage
from pilothouse.core.people import Role
from pilothouse.core.queue import CONTROL_LANE
from pilothouse.core.store import Tx
from pilothouse.runtime.accepting import Opening
from pilothouse.runtime.auditing import record
from pilothouse.runtime.awaiting import reply_key
from pilothouse.runtime.binding import workspace_of
from pilothouse.runtime.command_call import CommandCall, NotDone, Prepared, Reply, refusal
from pilothouse.runtime.commands import COMMANDS
from pilothouse.runtime.growing import note_pieces
from pilothouse.runtime.outgoing import say
from pilothouse.runtime.placing import ensure_place, message_key
from pilothouse.runtime.ports import Ports
from pilothouse.runtime.routing import Command, Route, Say, Unknown
from pilothouse.runtime.settings import Settings
from pilothouse.runtime.signals import ASKS, INBOX, OUTBOX, PLACES, control_of
from pilothouse.runtime.standing import note_heard, role_of

_encode = msgspec.json.Encoder().encode


UNUSED = "What came with it was not used: this command takes no files. Send them again without it."


async def carry_out(
    ports: Ports,
    way: Route,
    message: InboundMessage,
    prepared: Prepared,
) -> Receipt:
    """Stores the command and does it, at once and once: the row's key makes a repeat a duplicate. Of files that came with it
    the person is told that nobody took them."""
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
        note_heard(tx, by, conversation)
        if isinstance(way, Command):
            role = _role(tx, settings, by, conversation)
            call = CommandCall(tx, conversation, by, way.args, settings, ports.ids, at, role, prepared)
            reply = _run(way, call)
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


def opening(ports: Ports, way: Command, by: Author) -> Opening:
    """The same for a command that a message stands behind: it shares the message's row, and so its key."""
    settings, at = ports.settings(), ports.clock.now()

    def run(tx: Tx, conversation: Conversation) -> Reply:
        role = _role(tx, settings, by, conversation)
        call = CommandCall(tx, conversation, by, "", settings, ports.ids, at, role, has_message=True)
        return _run(way, call)

    return run


def _run(way: Command, call: CommandCall) -> Reply:
    deed = f"command.{way.name}"
    record(call.tx, call.at, call.by.id, deed, args=call.args, conversation=call.conversation.id)
    return refusal(call, deed) or COMMANDS[way.name].run(call)


def _role(tx: Tx, settings: Settings, by: Author, conversation: Conversation) -> Role:
    return role_of(tx, settings.people, by.id, workspace_of(tx, conversation.id, settings.default_workspace))


def _unknown_hint(way: Unknown | Say) -> str:
    word = way.word if isinstance(way, Unknown) else ""
    nearest = way.nearest if isinstance(way, Unknown) else None
    hint = f"Did you mean /{nearest}? " if nearest else ""
    return f"There is no command /{word}. {hint}/help lists them."
