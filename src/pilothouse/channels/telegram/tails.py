"""What people said last in each place, as far as the rest of it may come. The desk keeps it; here it is remembered.

Nobody else takes messages in these places, so that the desk is asked once for each person and place.
"""

from __future__ import annotations

from collections.abc import Sequence

from pilothouse.channels.telegram.addressing import address_of, author_of
from pilothouse.channels.telegram.joining import message_of
from pilothouse.channels.telegram.pieces import Tail, read_tails
from pilothouse.channels.telegram.wire import Update
from pilothouse.core.channel import Desk, Receipt
from pilothouse.core.ids import UserId
from pilothouse.core.message import Address, InboundMessage

MOST = 1000
REMEMBERED = 4

Who = tuple[Address, UserId]


class Tails:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._known: dict[Who, Sequence[Tail]] = {}

    async def before(self, update: Update) -> Sequence[Tail]:
        """Of what its sender said in that place, the newest first: this may be the rest of one."""
        message = message_of(update)
        author = None if message is None else author_of(message)
        if message is None or author is None or author.is_bot:
            return ()
        who = (address_of(message), author.id)
        if who not in self._known:
            tails = read_tails(await self._desk.growing(who[0], author))
            if len(self._known) >= MOST:
                del self._known[next(iter(self._known))]
            self._known[who] = tails
        return self._known[who]

    def taken(self, message: InboundMessage, receipt: Receipt) -> None:
        who = (message.address, message.author.id)
        if receipt.state == "duplicate":  # what the desk has of it may be more than we saw
            self._known.pop(who, None)
        elif receipt.state == "queued" and message.growth and who in self._known:
            others = (tail for tail in self._known[who] if str(tail.message_id) != message.rest_of)
            self._known[who] = [*read_tails([message.growth]), *others][:REMEMBERED]
