"""Hands messages to the desk: fetches their files, then tells the person the result.

When `handle` returns, the message is durable in the inbox, refused or ignored, so its update may be confirmed.
Files of people who may not talk to us are not downloaded.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import anyio
from msgspec.structs import replace

from pilothouse.channels.failures import NOT_TAKEN, SORRY
from pilothouse.channels.receipts import ReceiptReporter, Tell, accept_fetched, may_talk
from pilothouse.channels.telegram.addresses import Bot, address_of, author_of, is_for_us
from pilothouse.channels.telegram.client import BotClient
from pilothouse.channels.telegram.content import WantedFile, kind_name
from pilothouse.channels.telegram.pieces import message_of
from pilothouse.channels.telegram.receive import (
    Anonymous,
    Changed,
    Happening,
    Ignored,
    Overheard,
    Pressed,
    Reacted,
    Said,
    Unread,
    translate,
)
from pilothouse.channels.telegram.trouble import NetworkDown, RetryAfter, ServerDown, Trouble
from pilothouse.channels.telegram.updates import SlowSection
from pilothouse.channels.telegram.wire import Update
from pilothouse.core.channel import Desk, Receipt
from pilothouse.core.clock import Clock
from pilothouse.core.engine import Blobs
from pilothouse.core.message import Address, Attachment, InboundMessage, MessageRef, Piece, made_of, pieces_of
from pilothouse.core.trigger import Trigger

FETCH_TRIES = 4
FETCH_PAUSE_S = 1.0
FETCHES_AT_ONCE = 32
"""Fewer than the connections, so that downloads that hang leave some for other calls."""
UNREAD = "I cannot read this kind of message yet ({kinds}), so it was ignored. Send it as text, or as a file."
ANONYMOUS = (
    "You are posting as the group, so I cannot tell who you are, and nothing was done. Switch off “Remain anonymous” in "
    "your administrator rights, or choose yourself as the sender, and send it again."
)

HandleOther = Callable[[Happening], Awaitable[None]]


class Acceptor:
    """Handles updates. `trigger_of` gives a group's trigger; `others` handles everything but messages."""

    def __init__(
        self,
        desk: Desk,
        client: BotClient,
        blobs: Blobs,
        bot: Bot,
        clock: Clock,
        *,
        trigger_of: Callable[[Address], Awaitable[Trigger]],
        tell: Tell,
        others: HandleOther,
        log: Callable[..., None],
    ) -> None:
        self._desk = desk
        self._client = client
        self._blobs = blobs
        self._bot = bot
        self._clock = clock
        self._trigger_of = trigger_of
        self._others = others
        self._log = log
        self._fetches = anyio.CapacityLimiter(FETCHES_AT_ONCE)
        self._tell = tell
        self._receipts = ReceiptReporter(tell, clock)

    async def handle(
        self, updates: Sequence[Update], address: Address | None, slow_section: SlowSection
    ) -> None:
        trigger = await self._trigger_of(address) if address is not None else Trigger()
        match translate(updates, self._bot, trigger):
            case Said() as said:
                await self._accept(said, slow_section)
            case Overheard(said=said):
                if (await self._accept(said, slow_section)).state == "refused":
                    self._log_ignored(updates, "not for us")
            case Reacted(note=note):
                about = MessageRef(note.address, note.reply_to or "")
                await self._desk.accept(replace(note, address=await self._desk.address_of(about)))
            case Changed(edit=edit, said=said):
                receipt = await self._receipts.edit(self._desk, edit)
                if said is not None and receipt.message_id is None:
                    await self._accept(said, slow_section)
            case Unread() as unread:
                await self._say_unread(unread, slow_section)
            case Anonymous(message=message):
                await self._tell(message.address, ANONYMOUS, message.native_id)
            case Ignored(why=why):
                self._log_ignored(updates, why)
            case Pressed() as press:
                # Changing its buttons waits for the chat's pace, which must not delay other updates.
                async with slow_section():
                    await self._others(press)
            case happening:
                await self._others(happening)

    def _log_ignored(self, updates: Sequence[Update], why: str) -> None:
        self._log("telegram.update_passed_over", update_id=updates[0].update_id, why=why)

    async def apologise(self, updates: Sequence[Update]) -> None:
        """Tell the sender that handling failed. Strangers, and groups that did not address us, are not told."""
        if query := updates[0].callback_query:
            await self._client.answer_callback(query.id, NOT_TAKEN, alert=True)
            return
        message = message_of(updates[0]) or updates[0].edited_message
        author = None if message is None else author_of(message)
        if message is None or author is None or not is_for_us(message, self._bot, Trigger("mention")):
            return
        said = InboundMessage(address_of(message), author, str(message.message_id), "")
        if await may_talk(self._desk, said):
            await self._tell(said.address, SORRY.format(what="message"), said.native_id)

    async def _accept(self, said: Said, slow_section: SlowSection) -> Receipt:
        message = said.message
        if said.files:
            receipt = await accept_fetched(self._desk, message, lambda: self._fetched(said, slow_section))
        else:
            receipt = await self._desk.accept(message)
        await self._receipts.accepted(message, receipt, to_us=said.to_us)
        return receipt

    async def _fetched(self, said: Said, slow_section: SlowSection) -> InboundMessage:
        message = said.message
        if not await may_talk(self._desk, message):
            return message
        async with slow_section():
            pieces = zip(pieces_of(message), said.wanted, strict=True)
            return made_of(message, [await self._with_files(*piece) for piece in pieces])

    async def _say_unread(self, unread: Unread, slow_section: SlowSection) -> None:
        """Tell the sender that we cannot read this kind. Strangers get the usual refusal."""
        message, kinds = unread.message, ", ".join(map(kind_name, unread.kinds))
        self._log("telegram.kind_unread", kinds=list(unread.kinds))
        if await may_talk(self._desk, message):
            await self._tell(message.address, UNREAD.format(kinds=kinds), message.native_id)
        else:
            await self._accept(Said(message), slow_section)

    async def _with_files(self, piece: Piece, files: Sequence[WantedFile]) -> Piece:
        """Fetch the files. One that fails is named below the text with the reason."""
        kept: list[Attachment] = []
        lines: list[str] = []
        for file in files:
            data = await self._fetch(file)
            if isinstance(data, Trouble):
                self._log("telegram.file_not_fetched", name=file.name, why=data.text)
                lines.append(f"[{file.name} could not be downloaded: {data.text}]")
            else:
                kept.append(await self._blobs.put(data, file.name, file.media_type))
        return replace(piece, file_text="\n".join(lines), attachments=tuple(kept))

    async def _fetch(self, file: WantedFile) -> bytes | Trouble:
        """Download a file, retrying for a few seconds. A long outage must not hold up the conversation."""
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
