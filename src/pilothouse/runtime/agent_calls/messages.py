"""Messages and files that an agent sends by a tool: where they go, and what became of them.

A message goes where the turn came from, or to a destination that the workspace was granted in the configuration. A call
waits a moment for the delivery, and tells what is known then. A message has a small number for the agent: one that came
with this turn's prompt has the number shown there, one that a tool sent has the number that the tool returned.

A file goes by the rule of `/send`, and is copied before the call returns. One that a rule would ask about, or whose name
suggests secrets, is not sent: an agent may be talked into that. An owner can send it with `/send`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Literal

import msgspec
from msgspec import Struct

from pilothouse.core.channel import AtMachine, LimitsFiles
from pilothouse.core.errors import ConfigError
from pilothouse.core.ids import ChannelId, ConversationId, MessageId
from pilothouse.core.message import Address, Content, InboundMessage, MessageRef
from pilothouse.core.queue import QueueRow
from pilothouse.core.store import Tx
from pilothouse.core.text import file_size
from pilothouse.runtime.agent_calls.caller import Caller, CallRefused, check_live
from pilothouse.runtime.commands.call import NamedFile
from pilothouse.runtime.commands.files import FoundFile, at_machine, look_for_file
from pilothouse.runtime.conversations.places import ensure_place
from pilothouse.runtime.outbox import say, tool_of
from pilothouse.runtime.ports import OUTBOX, Ports, Signals
from pilothouse.runtime.settings import Settings

WAIT_S = 5.0
"""The longest that a call waits for the delivery of its message."""
SENT_FROM = 1000
"""Numbers of sent messages are above this, those of a prompt's messages below."""
RECENT_TURNS = 50
"""Messages that tools sent in so many turns of the session can be changed."""

_decode = msgspec.json.Decoder(InboundMessage).decode


class Target(Struct, frozen=True):
    """A destination as an agent names it: by its name, or by the channel's own ids. Empty: here."""

    name: str | None = None
    channel: str | None = None
    place: str | None = None
    thread: str | None = None

    @property
    def is_here(self) -> bool:
        return not (self.name or self.channel or self.place or self.thread)


class Delivery(Struct, frozen=True):
    """The state of a sent message: `why` it failed, and its id on the platform."""

    state: Literal["delivered", "queued", "failed"]
    number: int
    native_id: str = ""
    why: str = ""


async def send(ports: Ports, caller: Caller, content: Content, target: Target) -> str:
    """Queue a message, wait a moment, and return what became of it. Raises `CallRefused`."""
    settings = ports.settings()
    if not content.text.strip() and not content.attachments:
        raise CallRefused("The message has no text. Nothing was sent.")
    if len(content.text) > settings.max_message_chars:
        most = settings.max_message_chars
        raise CallRefused(f"The text has {len(content.text)} characters, and {most} is the most.")

    def unit(tx: Tx) -> QueueRow:
        check_live(tx, caller)
        place = find_place(tx, settings, caller, target, ports.clock.now())
        _check_sizes(tx, ports, place, content)
        whole = msgspec.structs.replace(content, turn_id=caller.turn.id)
        say(tx, ports.ids, place, whole, key=caller.key, at=ports.clock.now())
        row = tx.outbox.by_key(caller.key)
        assert row is not None, "it was put above"
        return row

    row = await ports.store.write(unit)
    ports.signals.poke(OUTBOX)
    return report(await wait_for(ports, row))


def _check_sizes(tx: Tx, ports: Ports, place: ConversationId, content: Content) -> None:
    """Raise `CallRefused` if the channel would leave a file out."""
    known = tx.conversations.get(place)
    channel = ports.channels.get(known.address.channel) if known else None
    if known is None or not isinstance(channel, LimitsFiles):
        return
    most = channel.file_bytes(known.address)
    for file in content.attachments:
        if file.size > most:
            raise CallRefused(
                f"{file.name} is not sent: it has {file_size(file.size)}, and {file_size(most)} is the most there."
            )


def report(delivery: Delivery) -> str:
    """Say what became of a message. Raises `CallRefused` if it failed."""
    match delivery.state:
        case "failed":
            raise CallRefused(f"Not delivered: {delivery.why}")
        case "delivered":
            return f"Delivered. messageId: {delivery.number} (on the platform: {delivery.native_id})"
        case _:
            return (
                f"Queued. messageId: {delivery.number}. The platform has not confirmed it yet; "
                "if it cannot be delivered, you are told in a later turn."
            )


async def wait_for(ports: Ports, row: QueueRow) -> Delivery:
    """Return the state of a row, as soon as it is final, or after `WAIT_S`."""
    until = ports.clock.monotonic() + WAIT_S
    while True:
        ticket = ports.signals.ticket(OUTBOX)
        found = await ports.store.read(lambda tx: delivery_of(tx, row.id))
        left_s = until - ports.clock.monotonic()
        if found.state != "queued" or left_s <= 0:
            return found
        await Signals.wait(ticket, left_s)


def delivery_of(tx: Tx, id: MessageId) -> Delivery:
    row = tx.outbox.get(id)
    if row is None:
        return Delivery("failed", 0, why="it is no longer stored")
    number = row.seq + SENT_FROM
    if row.status in ("failed", "withdrawn"):
        return Delivery("failed", number, why=row.why)
    if row.status != "done":
        return Delivery("queued", number)
    refs = [part.ref for part in tx.outbox.parts(row.id) if part.ref]
    return Delivery("delivered", number, ", ".join(ref.native_id for ref in refs), row.why)


def find_place(tx: Tx, settings: Settings, caller: Caller, target: Target, at: float) -> ConversationId:
    """Return where a message goes. Raises `CallRefused` for a destination that was not granted."""
    if target.is_here:
        return caller.conversation.id
    granted = settings.destinations.get(os.path.realpath(caller.session.workspace), {})
    own = caller.conversation.address
    for name, address in granted.items():
        if _is_meant(target, name, address):
            return ensure_place(tx, address, at).id
    if _is_meant(target, "", own):
        return caller.conversation.id
    known = ", ".join(granted) or "none"
    raise CallRefused(
        f"That destination is not granted to this workspace. Granted destinations: {known}. "
        "Without a destination, the message goes to this conversation."
    )


def _is_meant(target: Target, name: str, address: Address) -> bool:
    if target.name:
        return target.name == name
    wanted = (target.channel or address.channel, target.place, target.thread or address.thread)
    return wanted == (address.channel, address.place, address.thread)


def parse_destinations(granted: Mapping[str, str]) -> dict[str, Address]:
    """Read `CHANNEL:PLACE`, or `CHANNEL:PLACE#THREAD`, as `pilothouse status` shows them. Raises `ConfigError`."""
    return {name: _parse_address(name, text) for name, text in granted.items()}


def _parse_address(name: str, text: str) -> Address:
    channel, mark, rest = text.partition(":")
    place, _, thread = rest.partition("#")
    if not channel or not mark or not place:
        raise ConfigError(
            f"The destination {name} = {text!r} is not an address. Write it as channel:place, such as telegram:12345."
        )
    return Address(ChannelId(channel), place.replace("%23", "#").replace("%25", "%"), thread or None)


def find_message(tx: Tx, caller: Caller, number: int) -> tuple[MessageRef, QueueRow | None]:
    """Return the platform's message that a number stands for; with the row, if a tool of this session sent it.

    Raises `CallRefused` for a number that this turn cannot know."""
    if number > SENT_FROM:
        return _sent_message(tx, caller, number)
    rows = tx.inbox.of_turn(caller.turn.id)
    if not 0 < number <= len(rows):
        raise CallRefused(
            f"There is no message {number} in this turn. Use the id of a message in the prompt, or a messageId that "
            "a tool returned."
        )
    message = _decode(rows[number - 1].body)
    return MessageRef(message.address, message.native_id), None


def _sent_message(tx: Tx, caller: Caller, number: int) -> tuple[MessageRef, QueueRow | None]:
    turns = [turn for turn in tx.turns.of(caller.conversation.id) if turn.session_id == caller.session.id]
    sent = (row for turn in turns[:RECENT_TURNS] for row in tx.outbox.of_turn(turn.id))
    row = next((row for row in sent if row.seq == number - SENT_FROM and tool_of(row)), None)
    if row is None:
        raise CallRefused(f"No tool of this session has sent a message {number} lately.")
    refs = [part.ref for part in tx.outbox.parts(row.id) if part.ref]
    if not refs:
        raise CallRefused(f"The message {number} has not been delivered yet. Try again later.")
    return refs[-1], row


NAME_CHARS = 200


async def read_allowed(ports: Ports, caller: Caller, path: str) -> NamedFile:
    """Read a file of the workspace that an agent may pass on. Raises `CallRefused`."""
    found = await _find(ports, caller, path)
    return found.named(PurePosixPath(found.path).name[:NAME_CHARS])


async def _find(ports: Ports, caller: Caller, path: str) -> FoundFile:
    found = await look_for_file(ports, caller.session.workspace, path)
    if isinstance(found, str):
        raise CallRefused(found)
    if found.guarded:
        raise CallRefused(
            f"{path} is not sent by a tool: {found.guarded}. An owner can send it with /send {path}."
        )
    return found


async def send_file(ports: Ports, caller: Caller, path: str, text: str, name: str, target: Target) -> str:
    """Raises `CallRefused` if the file is not sent."""
    workspace = caller.session.workspace
    found = await _find(ports, caller, path)
    if isinstance(ports.channels.get(caller.conversation.address.channel), AtMachine) and target.is_here:
        words = "\n".join(filter(None, (text, at_machine(workspace, found))))
        return await send(ports, caller, Content(words, "notice"), target)
    named, at = found.named(PurePosixPath(name).name[:NAME_CHARS]), ports.clock.now()
    file = await ports.store.write(lambda tx: tx.blobs.attach(named.data, named.name, named.media_type, at))
    content = Content(text or named.name, "notice", (file,), formatted=bool(text))
    return await send(ports, caller, content, target)
