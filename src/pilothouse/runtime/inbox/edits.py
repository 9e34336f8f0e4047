"""Edits and deletions by the sender: a queued message is changed; a running one is not, but may be stopped."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2s
from typing import Literal

import msgspec

from pilothouse.core.channel import Receipt
from pilothouse.core.message import (
    Content,
    InboundMessage,
    MessageDeleted,
    MessageEdited,
    clean_text,
    made_of,
    pieces_of,
    with_words,
    words_of,
)
from pilothouse.core.people import Role, allows
from pilothouse.core.queue import CONTROL_WAITLIST, QueueRow
from pilothouse.core.store import Tx
from pilothouse.runtime.conversations.binding import find_target
from pilothouse.runtime.conversations.pieces import head_of, too_much
from pilothouse.runtime.conversations.places import ensure_place
from pilothouse.runtime.outbox import say
from pilothouse.runtime.ports import INBOX, OUTBOX, Ports

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(InboundMessage).decode

EDITED_INTO_COMMAND = "A queued message cannot be edited into a command; the earlier text stays queued. Send the command as a new message."


async def edit(
    ports: Ports, message: MessageEdited, role: Role, is_command: Callable[[Tx, InboundMessage], bool]
) -> Receipt:
    """Change the text of a queued message, or of one of its pieces. It cannot become a command."""
    settings, text, at = ports.settings(), clean_text(message.text), ports.clock.now()

    def change(tx: Tx, row: QueueRow) -> Receipt:
        said = with_words(_decode(row.body), message.native_id, text)
        if why := too_much(said, settings):
            return Receipt("refused", row.id, why)
        if said.kind == "chat":
            if is_command(tx, said):
                return Receipt("refused", row.id, EDITED_INTO_COMMAND)
            conversation = ensure_place(tx, said.address, at)
            target = find_target(tx, ports.ids, settings, conversation, said, at)
            if target.refusal:
                return Receipt("refused", row.id, target.refusal)
            said = target.message
        tx.inbox.rewrite(row.id, _encode(said))
        return Receipt("queued", row.id, "Changed: the new text is queued in its place.")

    return await _amend(ports, message, role, "edited", change)


async def delete(ports: Ports, message: MessageDeleted, role: Role) -> Receipt:
    at = ports.clock.now()

    def drop(tx: Tx, row: QueueRow) -> Receipt:
        said = _decode(row.body)
        left = [piece for piece in pieces_of(said) if piece.native_id != message.native_id]
        if left:
            tx.inbox.rewrite(row.id, _encode(made_of(said, left)))
            return Receipt("queued", row.id, "Removed from the queued message.")
        tx.inbox.withdraw(row.id, at, "deleted by its sender")
        return Receipt("queued", row.id, "Withdrawn: it will not run.")

    return await _amend(ports, message, role, "deleted", drop)


async def _amend(
    ports: Ports,
    message: MessageEdited | MessageDeleted,
    role: Role,
    what: Literal["edited", "deleted"],
    act: Callable[[Tx, QueueRow], Receipt],
) -> Receipt:
    """Check permission, sender and state, then run `act`; refusals are also said in the conversation."""
    at = ports.clock.now()
    if not allows(role, f"desk.{what}"):
        return Receipt("refused")

    def unit(tx: Tx) -> Receipt:
        conversation = ensure_place(tx, message.address, at)
        row = head_of(tx, message.address, message.native_id)
        if row is None:
            return Receipt("duplicate")
        if row.waitlist == CONTROL_WAITLIST or row.status in ("done", "failed", "withdrawn"):
            return Receipt("duplicate", row.id)
        said = _decode(row.body)
        if message.author is not None and said.author.id != message.author.id:
            return Receipt("refused", row.id, "Only the sender may change a message.")
        if isinstance(message, MessageEdited) and _says(said, message):
            # A killed channel repeats unconfirmed edits; the sender is not told twice.
            return Receipt("duplicate", row.id)
        if row.status == "claimed":
            text = f"That message runs already, so it was not {what}. /stop stops it."
            receipt = Receipt("refused", row.id, text)
        else:
            receipt = act(tx, row)
        if receipt.state == "refused":
            notice, key = Content(receipt.text, "notice"), f"{what}:{row.id}:{_digest(message)}"
            say(tx, ports.ids, conversation.id, notice, key=key, at=at)
        return receipt

    receipt = await ports.store.write(unit)
    ports.signals.poke(INBOX, OUTBOX)
    return receipt


def _says(said: InboundMessage, message: MessageEdited) -> bool:
    return words_of(said, message.native_id) == clean_text(message.text)


def _digest(message: MessageEdited | MessageDeleted) -> str:
    """Identify a change, so that a repeat after a restart is refused in the chat only once."""
    text = message.text if isinstance(message, MessageEdited) else ""
    return blake2s(clean_text(text).encode(), digest_size=8).hexdigest()
