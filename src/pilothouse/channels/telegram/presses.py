"""Handles button presses: answers to asks, and stops. Every press gets a toast."""

from __future__ import annotations

from collections.abc import Callable

import anyio
from msgspec import Struct
from msgspec.structs import replace

from pilothouse.channels.presses import (
    CHOOSE,
    ENDED,
    NOT_YOURS,
    NOT_YOURS_TO_STOP,
    UNKNOWN,
    ButtonDesk,
)
from pilothouse.channels.telegram.client import BotClient
from pilothouse.channels.telegram.keyboard import AskPress, StopPress, keyboard, parse_press, toggled
from pilothouse.channels.telegram.posts import Target
from pilothouse.channels.telegram.receive import Pressed, Stopped
from pilothouse.channels.telegram.sender import Sender, draft_number
from pilothouse.channels.telegram.shapes import KeyboardShape
from pilothouse.channels.telegram.trouble import TooOld, Trouble
from pilothouse.channels.telegram.wire import CallbackQuery
from pilothouse.core.ask import Ask, AskRow
from pilothouse.core.channel import Desk
from pilothouse.core.errors import DeliveryError, PilothouseError, StoreError
from pilothouse.core.ids import AskId, TurnId, UserId
from pilothouse.core.message import Address, Author, MessageRef

TOAST_CHARS = 200
STOPPING = "Stopping."
REMEMBERED = 200
"""Messages whose ticked boxes are kept in memory."""


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
        match parse_press(press.query.data or ""):
            case StopPress(turn_id=turn_id):
                return await self._stop(press, turn_id)
            case AskPress() as found:
                return await self._answer(press, found)
            case None:
                return Toast(self._buttons.unknown(press.by))

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

    async def _set_keyboard(self, query: CallbackQuery, shown: KeyboardShape | None) -> bool:
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
