"""Whether somebody may talk to us, asked before anything of theirs is fetched; and how what is fetched goes to the desk.
Shared by every channel.

What we say where we were added: how to talk to us there, as short as can be. Shared by every channel with groups.

A word for whoever waited long for us: once per conversation, until a message comes in time again.

Tells people what became of what they sent or changed, and that it waited long where it did. Shared by every channel.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from pilothouse.core.channel import Desk, Receipt
from pilothouse.core.clock import Clock
from pilothouse.core.errors import PilothouseError, StoreError
from pilothouse.core.message import Address, InboundMessage, MessageEdited, conversation_id
from pilothouse.core.trigger import Trigger, describe_trigger

HELLO = (
    "Hello. Here I react to commands, and to {heard}.{name} /bind chooses the folder that I work in, /trigger what I "
    "react to."
)
MY_NAME = " My name is @{name}."

OLD_S = 600.0
"""A message that waited for us longer than this is answered with a word about it."""

Tell = Callable[[Address, str, str], Awaitable[None]]
"""Says something at once, as an answer to a message; it may be lost, and nothing depends on it."""


async def may_talk(desk: Desk, message: InboundMessage) -> bool:
    """The desk tells strangers nothing; that is all that we need to know before we fetch."""
    try:
        await desk.query("last_seq", message.author, conversation=conversation_id(message.address))
    except StoreError:
        raise
    except PilothouseError:
        return False
    return True


async def accept_fetched(
    desk: Desk, message: InboundMessage, fetch: Callable[[], Awaitable[InboundMessage]]
) -> Receipt:
    """`fetch` gives the message with what came with it. If a `/stop` takes it back meanwhile, it is one that the desk has."""
    with desk.expecting(message):
        return await desk.accept(await fetch())
    return Receipt("duplicate")


def greeting(name: str, trigger: Trigger) -> str:
    return HELLO.format(heard=describe_trigger(trigger), name=MY_NAME.format(name=name) if name else "")


class Lateness:
    def __init__(self) -> None:
        self._late: set[Address] = set()

    def word(self, address: Address, waited_s: float, *, queued: bool) -> str:
        """Empty if there is nothing to say."""
        if waited_s <= OLD_S:
            self._late.discard(address)
            return ""
        if not queued or address in self._late:
            return ""
        self._late.add(address)
        return f"You sent this {_ago(waited_s)} ago, while I was away. I take it up now."


def _ago(seconds: float) -> str:
    for size, name in ((86_400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= size:
            count = int(seconds // size)
            return f"{count} {name}{'' if count == 1 else 's'}"
    return "a moment"


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
