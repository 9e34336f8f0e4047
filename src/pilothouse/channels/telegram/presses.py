"""What people press: an answer to an ask, or a stop. Each press gets its toast, whatever became of it.

A button says nothing that we believe: it names an ask or a turn, and the desk knows what that is, and who may do what.
"""

from __future__ import annotations

from collections.abc import Callable

from pilothouse.channels.telegram.callback import AskPress, StopPress, parse_press
from pilothouse.channels.telegram.choices import decide, keyboard, toggled
from pilothouse.channels.telegram.client import BotClient
from pilothouse.channels.telegram.receive import Pressed, Stopped
from pilothouse.channels.telegram.sending import draft_number
from pilothouse.channels.telegram.trouble import NotModified, TooOld, Trouble
from pilothouse.channels.telegram.wire import CallbackQuery
from pilothouse.core.ask import Ask
from pilothouse.core.channel import Desk
from pilothouse.core.errors import PilothouseError, StoreError
from pilothouse.core.ids import TurnId, UserId
from pilothouse.core.message import Address, Author, conversation_id

TOAST_CHARS = 200
UNKNOWN = "This button is not known any more."
NOT_YOURS = "You may not answer this."
NOT_YOURS_TO_STOP = "You may not stop this."
ENDED = "That is over already."
STOPPING = "Stopping."
CHOOSE = "Choose at least one first."


class Presses:
    def __init__(self, desk: Desk, client: BotClient, log: Callable[..., None]) -> None:
        self._desk = desk
        self._client = client
        self._log = log

    async def pressed(self, press: Pressed) -> None:
        try:
            text, alert = await self._carry_out(press)
        except StoreError:
            raise  # it is taken up again once the store works
        except PilothouseError as error:
            text, alert = str(error), True
        answer = await self._client.answer_callback(press.query.id, text[:TOAST_CHARS], alert=alert)
        if isinstance(answer, Trouble) and not isinstance(answer, TooOld):
            self._log("telegram.toast_failed", why=answer.text)

    async def stopped(self, stop: Stopped, address: Address) -> None:
        """In a private chat, whoever stops a draft is the one who talks with us there."""
        by = Author(UserId(f"{address.channel}:{stop.stop.chat.id}"), "Person")
        number = stop.stop.draft_id
        try:
            live = await self._live(address, by)
            if live is not None and draft_number(live) == number:
                await self._desk.command(address, by, "/stop", f"stop:{live}")
        except StoreError:
            raise
        except PilothouseError as error:
            self._log("telegram.stop_refused", why=str(error))

    async def _carry_out(self, press: Pressed) -> tuple[str, bool]:
        match parse_press(press.query.data or ""):
            case StopPress(turn_id=turn_id):
                return await self._stop(press, turn_id)
            case AskPress() as found:
                return await self._answer(press, found)
            case None:
                self._log("telegram.press_unknown", level="warning", by=press.by.id)
                return UNKNOWN, False

    async def _stop(self, press: Pressed, turn_id: TurnId | None) -> tuple[str, bool]:
        address = press.address
        if address is None:
            return UNKNOWN, False
        try:
            live = await self._live(address, press.by)
        except StoreError:
            raise
        except PilothouseError:
            return NOT_YOURS_TO_STOP, True
        if live is None or turn_id not in (None, live):
            return ENDED, False
        await self._desk.command(address, press.by, "/stop", f"stop:{live}")
        return STOPPING, False

    async def _live(self, address: Address, by: Author) -> TurnId | None:
        turn = await self._desk.query("live_turn", by, conversation=conversation_id(address))
        return None if turn is None else turn.id

    async def _answer(self, press: Pressed, found: AskPress) -> tuple[str, bool]:
        try:
            row = await self._desk.query("ask", press.by, id=found.ask_id)
        except StoreError:
            raise
        except PilothouseError:
            return NOT_YOURS, True
        if row is None or not found.is_about(row.ask):
            return UNKNOWN, False
        decision = decide(row.ask, found)
        if decision is None and found.act == "choose":
            return UNKNOWN, False
        if decision is None:
            return await self._choose(press.query, found, row.ask) if row.state == "open" else (ENDED, False)
        answered = await self._desk.answer(row.ask.id, row.ask.payload_hash, decision, press.by)
        if row.state != "open" and press.query.message is not None:
            # A crash may leave a question that nobody knows the number of; who presses tells us.
            message = press.query.message
            await self._client.edit_keyboard(message.chat.id, message.message_id, None)
        return answered.text, not answered.accepted

    async def _choose(self, query: CallbackQuery, found: AskPress, ask: Ask) -> tuple[str, bool]:
        """The keyboard is the state: a press that chooses only changes the buttons."""
        if found.act != "toggle" or query.message is None:
            return CHOOSE, False
        message = query.message
        shown = keyboard(ask, toggled(ask, found))
        edited = await self._client.edit_keyboard(message.chat.id, message.message_id, shown)
        if isinstance(edited, Trouble) and not isinstance(edited, NotModified):
            self._log("telegram.choice_not_shown", why=edited.text)
            return "That did not work. Try again.", False
        return "", False
