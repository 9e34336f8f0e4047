"""Hands what people did to the desk: files are fetched first, aside, and the person is told what became of their message.

When `take` returns, the message is in the inbox for good, or is refused, or is not for us: its update may be
confirmed. Whoever may not talk to us costs us no download.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import anyio
from msgspec.structs import replace

from pilothouse.channels.failures import NOT_TAKEN, SORRY
from pilothouse.channels.receipts import ReceiptReporter, Tell, accept_fetched, may_talk
from pilothouse.channels.telegram.addresses import Us, address_of, author_of, is_for_us
from pilothouse.channels.telegram.client import BotClient
from pilothouse.channels.telegram.content import WantedFile, name_of
from pilothouse.channels.telegram.pieces import message_of
from pilothouse.channels.telegram.receive import (
    Changed,
    Faceless,
    Happening,
    Nothing,
    Pressed,
    Reacted,
    Said,
    ToOthers,
    Unread,
    translate,
)
from pilothouse.channels.telegram.trouble import NetworkDown, RetryAfter, ServerDown, Trouble
from pilothouse.channels.telegram.updates import Aside
from pilothouse.channels.telegram.wire import Update
from pilothouse.core.channel import Desk, Receipt
from pilothouse.core.clock import Clock
from pilothouse.core.engine import Blobs
from pilothouse.core.message import Address, Attachment, InboundMessage, MessageRef, Piece, made_of, pieces_of
from pilothouse.core.trigger import Trigger

FETCH_TRIES = 4
FETCH_PAUSE_S = 1.0
FETCHES_AT_ONCE = 32
"""Fewer than there are connections: downloads that hang leave some for everything else."""
UNREAD = (
    "I cannot read this kind of message yet ({kinds}), so it was not taken. Send it as text, or as a file."
)
FACELESS = (
    "You speak as the group here, so I cannot tell who you are, and nothing was done. Switch off “Remain anonymous” in "
    "your administrator's rights, or choose yourself as the sender, and say it again."
)

Pass = Callable[[Happening], Awaitable[None]]


class Taker:
    """`trigger_of` knows what a group wants to hear us for; `others` gets whatever is no message."""

    def __init__(
        self,
        desk: Desk,
        client: BotClient,
        blobs: Blobs,
        us: Us,
        clock: Clock,
        *,
        trigger_of: Callable[[Address], Awaitable[Trigger]],
        tell: Tell,
        others: Pass,
        log: Callable[..., None],
    ) -> None:
        self._desk = desk
        self._client = client
        self._blobs = blobs
        self._us = us
        self._clock = clock
        self._trigger_of = trigger_of
        self._others = others
        self._log = log
        self._fetches = anyio.CapacityLimiter(FETCHES_AT_ONCE)
        self._tell = tell
        self._telling = ReceiptReporter(tell, clock)

    async def take(self, updates: Sequence[Update], address: Address | None, aside: Aside) -> None:
        trigger = await self._trigger_of(address) if address is not None else Trigger()
        match translate(updates, self._us, trigger):
            case Said() as said:
                await self._accept(said, aside)
            case ToOthers(said=said):
                if (await self._accept(said, aside)).state == "refused":
                    self._pass_over(updates, "not for us")
            case Reacted(note=note):
                about = MessageRef(note.address, note.reply_to or "")
                await self._desk.accept(replace(note, address=await self._desk.address_of(about)))
            case Changed(edit=edit, said=said):
                receipt = await self._telling.edit(self._desk, edit)
                if said is not None and receipt.message_id is None:
                    await self._accept(said, aside)
            case Unread() as unread:
                await self._say_unread(unread, aside)
            case Faceless(message=message):
                await self._tell(message.address, FACELESS, message.native_id)
            case Nothing(why=why):
                self._pass_over(updates, why)
            case Pressed() as press:
                # Its buttons change when their chat has room for it: nobody waits for that.
                async with aside():
                    await self._others(press)
            case happening:
                await self._others(happening)

    def _pass_over(self, updates: Sequence[Update], why: str) -> None:
        self._log("telegram.update_passed_over", update_id=updates[0].update_id, why=why)

    async def apologise(self, updates: Sequence[Update]) -> None:
        """Whoever talks with us hears that their message broke us; a stranger or a group that we overheard does not."""
        if query := updates[0].callback_query:
            await self._client.answer_callback(query.id, NOT_TAKEN, alert=True)
            return
        message = message_of(updates[0]) or updates[0].edited_message
        author = None if message is None else author_of(message)
        if message is None or author is None or not is_for_us(message, self._us, Trigger("mention")):
            return
        said = InboundMessage(address_of(message), author, str(message.message_id), "")
        if await may_talk(self._desk, said):
            await self._tell(said.address, SORRY.format(what="message"), said.native_id)

    async def _accept(self, said: Said, aside: Aside) -> Receipt:
        message = said.message
        if said.files:
            receipt = await accept_fetched(self._desk, message, lambda: self._fetched(said, aside))
        else:
            receipt = await self._desk.accept(message)
        await self._telling.accepted(message, receipt, to_us=said.to_us)
        return receipt

    async def _fetched(self, said: Said, aside: Aside) -> InboundMessage:
        message = said.message
        if not await may_talk(self._desk, message):
            return message
        async with aside():
            pieces = zip(pieces_of(message), said.wanted, strict=True)
            return made_of(message, [await self._with_files(*piece) for piece in pieces])

    async def _say_unread(self, unread: Unread, aside: Aside) -> None:
        """Whoever may not talk to us hears what they always hear."""
        message, kinds = unread.message, ", ".join(map(name_of, unread.kinds))
        self._log("telegram.kind_unread", kinds=list(unread.kinds))
        if await may_talk(self._desk, message):
            await self._tell(message.address, UNREAD.format(kinds=kinds), message.native_id)
        else:
            await self._accept(Said(message), aside)

    async def _with_files(self, piece: Piece, files: Sequence[WantedFile]) -> Piece:
        """What cannot be fetched is named below the words, with the reason: nobody wonders where it went."""
        kept: list[Attachment] = []
        lines: list[str] = []
        for file in files:
            data = await self._fetch(file)
            if isinstance(data, Trouble):
                self._log("telegram.file_not_fetched", name=file.name, why=data.text)
                lines.append(f"[{file.name} was not fetched: {data.text}]")
            else:
                kept.append(await self._blobs.put(data, file.name, file.media_type))
        return replace(piece, file_text="\n".join(lines), attachments=tuple(kept))

    async def _fetch(self, file: WantedFile) -> bytes | Trouble:
        """A network that is down for a moment is waited for; a long one must not hold up the conversation."""
        data: bytes | Trouble = b""
        for attempt in range(FETCH_TRIES):
            async with self._fetches:
                data = await self._client.download(file.file_id, size=file.size)
            if not isinstance(data, NetworkDown | ServerDown | RetryAfter):
                break
            pause_s = data.after_s if isinstance(data, RetryAfter) else FETCH_PAUSE_S * 2**attempt
            if attempt + 1 < FETCH_TRIES:
                await self._clock.sleep(pause_s)
        return data
