"""Hands messages and button presses to the desk: fetches files, then tells the person the result.

When `handle` returns, the message is durable in the inbox, refused or ignored, so its update may be confirmed.
Files of people who may not talk to us are not downloaded. Every press gets a toast.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import anyio
from msgspec import Struct
from msgspec.structs import replace

from pilothouse.channels.intake_queue import NOT_TAKEN, SORRY
from pilothouse.channels.presses import (
    CHOOSE,
    ENDED,
    NOT_YOURS,
    NOT_YOURS_TO_STOP,
    UNKNOWN,
    AskPress,
    ButtonDesk,
    CommandPress,
    StopPress,
    parse_key,
)
from pilothouse.channels.receipts import ReceiptReporter, Tell, accept_fetched, may_talk, sent_text
from pilothouse.channels.telegram.client import BotClient
from pilothouse.channels.telegram.content import Bot, WantedFile, address_of, author_of, is_for_us, kind_name
from pilothouse.channels.telegram.payload import Keyboard, Target, keyboard, toggled
from pilothouse.channels.telegram.pieces import message_of
from pilothouse.channels.telegram.receive import (
    Anonymous,
    Changed,
    Happening,
    Ignored,
    Pressed,
    Reacted,
    Said,
    Stopped,
    Unread,
    translate,
)
from pilothouse.channels.telegram.sender import Sender, draft_number
from pilothouse.channels.telegram.trouble import NetworkDown, RetryAfter, ServerDown, TooOld, Trouble
from pilothouse.channels.telegram.updates import SlowSection
from pilothouse.channels.telegram.wire import CallbackQuery, Update
from pilothouse.core.ask import Ask, AskRow
from pilothouse.core.channel import Desk, Receipt
from pilothouse.core.clock import Clock
from pilothouse.core.engine import Blobs
from pilothouse.core.errors import DeliveryError, PilothouseError, StoreError
from pilothouse.core.ids import AskId, TurnId, UserId
from pilothouse.core.message import (
    Address,
    Attachment,
    Author,
    InboundMessage,
    MessageDeleted,
    MessageRef,
    Piece,
    made_of,
    pieces_of,
)
from pilothouse.core.trigger import Trigger

OLDEST_S = 24 * 3600.0
"""A reaction to an older message starts no turn."""
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


TOAST_CHARS = 200
STOPPING = "Stopping."
REMEMBERED = 200
"""Messages whose ticked boxes are kept in memory."""


class Acceptor:
    """Handles updates. `reactions` start turns if true; `trigger_of` gives a group's trigger; `others` handles the rest."""

    def __init__(
        self,
        desk: Desk,
        client: BotClient,
        blobs: Blobs,
        bot: Bot,
        clock: Clock,
        *,
        reactions: bool = False,
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
        self._reactions = reactions
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
                receipt = await self._accept(said, slow_section)
                if said.message.overheard and receipt.state == "refused":
                    self._log_ignored(updates, "not for us")
            case Reacted() as reacted:
                await self._take_reaction(reacted)
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

    async def _take_reaction(self, reacted: Reacted) -> None:
        """Start a turn with a reaction to a recent message of ours, if that is switched on; else, in private, note it."""
        said = reacted.note.reply_to or ""
        address = await self._desk.address_of(MessageRef(reacted.note.address, said))
        note = replace(reacted.note, address=address)
        if self._reactions and reacted.removed:
            withdrawn = MessageDeleted(address, note.author, reacted.id_of(reacted.removed))
            await self._desk.deleted(withdrawn)
        since, quoted = self._clock.now() - OLDEST_S, None
        if self._reactions and reacted.added:
            quoted = await sent_text(self._desk, note.author, MessageRef(address, said), since)
        if quoted is not None:
            receipt = await self._desk.accept(replace(reacted, note=note).as_work(quoted))
            if receipt.text and receipt.state != "duplicate":
                whose = "" if note.private else f"{note.author.name}: "
                await self._tell(address, whose + receipt.text, said)
        elif reacted.added and note.private:
            await self._desk.accept(note)

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


class Toast(Struct, frozen=True):
    """The notice that only the person who pressed sees. `stale`: the button belongs to something that has ended."""

    text: str = ""
    alert: bool = False
    stale: bool = False


class Presses:
    """Handles presses. `sender` changes keyboards at the chat's pace."""

    def __init__(self, desk: Desk, client: BotClient, sender: Sender, log: Callable[..., None]) -> None:
        self._desk = desk
        self._buttons = ButtonDesk(desk, "telegram", log)
        self._client = client
        self._sender = sender
        self._log = log
        self._ticked: dict[tuple[int, int], int] = {}
        """Choices by chat and message: people press faster than the buttons can be updated."""
        self._removing: set[tuple[int, int]] = set()
        """Messages whose buttons are being removed."""
        self._in_order = anyio.Lock()
        """Keeps presses in order: two queries of an ask may finish in the other order."""

    async def pressed(self, press: Pressed) -> None:
        try:
            toast = await self._act(press)
        except StoreError:
            raise  # handled again once the store works
        except PilothouseError as error:
            toast = Toast(str(error), alert=True)
        text = toast.text[:TOAST_CHARS]
        answer = await self._client.answer_callback(press.query.id, text, alert=toast.alert)
        if isinstance(answer, Trouble) and not isinstance(answer, TooOld):
            self._log("telegram.toast_failed", why=answer.text)
        if toast.stale:
            await self._remove_buttons(press.query)

    async def _remove_buttons(self, query: CallbackQuery) -> None:
        """Remove buttons that a crash left behind. The press tells us the message; repeated presses cause one edit."""
        place = _place(query)
        if place is None or place in self._removing:
            return
        self._removing.add(place)
        try:
            await self._set_keyboard(query, None)
        finally:
            self._removing.discard(place)

    async def stopped(self, stop: Stopped, address: Address) -> None:
        """Stop the turn of a draft. Drafts exist only in private chats, so the person is the chat."""
        by = Author(UserId(f"{address.channel}:{stop.stop.chat.id}"), "Person")
        number = stop.stop.draft_number
        if number is None:
            self._log("telegram.stop_unknown", level="warning", draft=stop.stop.draft_id)
            return
        try:
            address = await self._address_of_turn(address, lambda turn: draft_number(turn) == number)
            await self._buttons.stop(address, by, lambda turn: draft_number(turn) == number)
        except StoreError:
            raise
        except PilothouseError as error:
            self._log("telegram.stop_refused", why=str(error))

    async def _act(self, press: Pressed) -> Toast:
        match parse_key(press.query.data or ""):
            case StopPress(turn_id=turn_id):
                return await self._stop(press, turn_id)
            case CommandPress(line=line):
                return await self._run(press, line)
            case AskPress() as found:
                return await self._answer(press, found)
            case None:
                return Toast(await self._buttons.unknown(press.by))

    async def _stop(self, press: Pressed, turn_id: TurnId | None) -> Toast:
        if press.address is None:
            return Toast(UNKNOWN)
        address = await self._address_of_turn(press.address, lambda turn: turn == turn_id)
        refused = await self._buttons.press_stop(address, press.by, turn_id)
        # Remove a button that a crash left, but not the buttons of a message that a forged press names.
        message = press.query.message
        has_button = message is not None and message.has_button(press.query.data)
        return Toast(
            refused or STOPPING, alert=refused == NOT_YOURS_TO_STOP, stale=refused == ENDED and has_button
        )

    async def _run(self, press: Pressed, line: str) -> Toast:
        """Run a command. Telegram may omit the topic of an old message, so the desk is asked for it."""
        message = press.query.message
        if press.address is None or message is None:
            return Toast(UNKNOWN)
        address = await self._desk.address_of(MessageRef(press.address, str(message.message_id)))
        refused = await self._buttons.run(address, press.by, line, f"press:{press.query.id}")
        return Toast(refused, alert=bool(refused))

    async def _address_of_turn(self, address: Address, is_meant: Callable[[TurnId], bool]) -> Address:
        """Return the address where the turn runs: for old messages and drafts, Telegram may omit the topic."""
        running = await self._desk.running(address)
        return next((where for turn, where in running.items() if is_meant(turn)), address)

    async def _answer(self, press: Pressed, found: AskPress) -> Toast:
        async with self._in_order:
            row = await self._buttons.ask(found, press.by)
            if not isinstance(row, AskRow):
                return Toast(row, alert=row == NOT_YOURS)
            place = _place(press.query)
            before = None if place is None else self._ticked.get(place)
            chosen = toggled(row.ask, found, before)
            if found.act == "toggle" and row.state == "open" and place is not None:
                self._keep_ticks(place, chosen)
        if found.act == "details":
            return await self._show_details(press, row)
        if found.act == "toggle":
            if row.state != "open":
                return Toast(ENDED)
            if chosen == before:
                return Toast()
            return Toast(CHOOSE) if place is None else await self._tick(press.query, place, row.ask, chosen)
        if found.act == "done" and before is not None:
            found = replace(found, chosen=before)
        answered = await self._buttons.answer(row, found, press.by)
        if isinstance(answered, str):
            return Toast(answered)
        is_stale = await self._is_stale(press, row.ask.id)
        return Toast(answered.text, alert=not answered.accepted, stale=is_stale)

    async def _show_details(self, press: Pressed, row: AskRow) -> Toast:
        if press.address is None:
            return Toast(UNKNOWN)
        await self._buttons.show_details(row, press.address, press.by, press.query.id)
        return Toast()

    async def _is_stale(self, press: Pressed, ask_id: AskId) -> bool:
        message = press.query.message
        if message is None or press.address is None:
            return False
        ref = MessageRef(press.address, str(message.message_id))
        return await self._buttons.has_dead_buttons(ref, ask_id, press.by)

    def _keep_ticks(self, place: tuple[int, int], chosen: int) -> None:
        self._ticked[place] = chosen
        if len(self._ticked) > REMEMBERED:
            del self._ticked[next(iter(self._ticked))]

    async def _tick(self, query: CallbackQuery, place: tuple[int, int], ask: Ask, chosen: int) -> Toast:
        """Show the new choice in the buttons."""
        if await self._set_keyboard(query, keyboard(ask, chosen)):
            return Toast()
        self._ticked.pop(place, None)  # the buttons are the state again
        return Toast("Telegram did not accept the change. Try again.")

    async def _set_keyboard(self, query: CallbackQuery, shown: Keyboard | None) -> bool:
        message = query.message
        if message is None:
            return False
        try:
            await self._sender.set_keyboard(Target(message.chat.id), message.message_id, shown)
        except DeliveryError as error:
            self._log("telegram.buttons_not_changed", why=str(error))
            return False
        return True


def _place(query: CallbackQuery) -> tuple[int, int] | None:
    return (query.message.chat.id, query.message.message_id) if query.message else None
