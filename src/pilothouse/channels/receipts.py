"""Hands incoming messages to the desk, and sends the short replies to them. Shared by every channel.

Nothing of a stranger's message is downloaded. A late message is mentioned once per conversation, until one is in time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from pilothouse.core.channel import Desk, Receipt
from pilothouse.core.clock import Clock
from pilothouse.core.errors import PilothouseError, StoreError
from pilothouse.core.message import (
    Address,
    Author,
    InboundMessage,
    MessageEdited,
    MessageRef,
    conversation_id,
)
from pilothouse.core.trigger import Trigger, describe_trigger

HELLO = (
    "Hello. Here I react to commands, and to {heard}.{name} /bind chooses the folder that I work in, /trigger what I "
    "react to."
)
MY_NAME = " My name is @{name}."

OLD_S = 600.0
"""A message that waited longer than this is mentioned as late."""
LATE = "You sent this {ago} ago, while I was away. I am working on it now."

Tell = Callable[[Address, str, str], Awaitable[None]]
"""Replies to a message at once. The reply may be lost; nothing depends on it."""


async def may_talk(desk: Desk, message: InboundMessage) -> bool:
    """Returns true if the author is no stranger: the desk answers no query of a stranger."""
    try:
        await desk.query("last_seq", message.author, conversation=conversation_id(message.address))
    except StoreError:
        raise
    except PilothouseError:
        return False
    return True


async def sent_text(desk: Desk, by: Author, ref: MessageRef, since: float) -> str | None:
    """Return the text of a message of ours that was sent since then; None for any other, and for strangers."""
    try:
        conversation = conversation_id(ref.address)
        return await desk.query("sent", by, conversation=conversation, ref=ref, since=since)
    except StoreError:
        raise
    except PilothouseError:
        return None


async def accept_fetched(
    desk: Desk, message: InboundMessage, fetch: Callable[[], Awaitable[InboundMessage]]
) -> Receipt:
    """Accepts the message once `fetch` has downloaded its files. A `/stop` meanwhile withdraws it: then a duplicate."""
    with desk.expecting(message):
        return await desk.accept(await fetch())
    return Receipt("duplicate")


def greeting(name: str, trigger: Trigger) -> str:
    return HELLO.format(heard=describe_trigger(trigger), name=MY_NAME.format(name=name) if name else "")


def _ago(seconds: float) -> str:
    for size, name in ((86_400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= size:
            count = int(seconds // size)
            return f"{count} {name}{'' if count == 1 else 's'}"
    return "a moment"


class ReceiptReporter:
    def __init__(self, tell: Tell, clock: Clock) -> None:
        self._tell = tell
        self._clock = clock
        self._late: set[Address] = set()
        """Conversations that were told."""

    async def accepted(self, message: InboundMessage, receipt: Receipt, *, to_us: bool) -> None:
        """Replies with the receipt's text, but not to a duplicate, nor with a refusal to a message not meant for us."""
        overheard = receipt.state == "refused" and not to_us
        if message.kind != "chat" or receipt.state == "duplicate" or overheard:
            return
        if receipt.text:
            await self._tell(message.address, receipt.text, message.native_id)
        waited_s = self._clock.now() - message.sent_at
        if waited_s <= OLD_S:
            self._late.discard(message.address)
        elif receipt.state == "queued" and message.address not in self._late:
            self._late.add(message.address)
            await self._tell(message.address, LATE.format(ago=_ago(waited_s)), message.native_id)

    async def edit(self, desk: Desk, edit: MessageEdited) -> Receipt:
        receipt = await desk.edited(edit)
        # The desk itself replies with a refusal, if it knows the message.
        if receipt.text and receipt.state == "queued":
            await self._tell(edit.address, receipt.text, edit.native_id)
        return receipt
