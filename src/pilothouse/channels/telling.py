"""Tells people what became of what they sent or changed, and that it waited long where it did. Shared by every channel."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from pilothouse.channels.lateness import Lateness
from pilothouse.core.channel import Desk, Receipt
from pilothouse.core.clock import Clock
from pilothouse.core.message import Address, InboundMessage, MessageEdited

Tell = Callable[[Address, str, str], Awaitable[None]]
"""Says something at once, as an answer to a message; it may be lost, and nothing depends on it."""


class Telling:
    def __init__(self, tell: Tell, clock: Clock) -> None:
        self._tell = tell
        self._clock = clock
        self._lateness = Lateness()

    async def accepted(self, message: InboundMessage, receipt: Receipt, *, to_us: bool) -> None:
        """A repeat was told already; whoever did not speak to us hears of no refusal."""
        overheard = receipt.state == "refused" and not to_us
        if message.kind != "chat" or receipt.state == "duplicate" or overheard:
            return
        if receipt.text:
            await self._tell(message.address, receipt.text, message.native_id)
        waited_s = self._clock.now() - message.sent_at
        if text := self._lateness.word(message.address, waited_s, queued=receipt.state == "queued"):
            await self._tell(message.address, text, message.native_id)

    async def edit(self, desk: Desk, edit: MessageEdited) -> Receipt:
        receipt = await desk.edited(edit)
        # A refusal is said by the desk, where the message is one that it knows.
        if receipt.text and receipt.state == "queued":
            await self._tell(edit.address, receipt.text, edit.native_id)
        return receipt
