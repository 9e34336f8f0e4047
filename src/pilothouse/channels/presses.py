"""Acts on a pressed button, and says what to tell the person who pressed. Shared by every channel.

A button's key is not trusted: it names an ask or a turn, and the desk knows what that is and who may act on it.
An error of the store is raised, so that the press is handled again.
"""

from __future__ import annotations

from collections.abc import Callable

from pilothouse.channels.button_keys import AskPress
from pilothouse.channels.choices import decide, decide_words
from pilothouse.core.ask import AskRow, Decision
from pilothouse.core.channel import Answered, Desk
from pilothouse.core.errors import PilothouseError, StoreError
from pilothouse.core.ids import AskId, TurnId
from pilothouse.core.message import Address, Author, MessageRef, conversation_id

UNKNOWN = "This button is no longer valid."
ENDED = "This has already ended."
NOT_YOURS = "You may not answer this."
NOT_YOURS_TO_STOP = "You may not stop this."
CHOOSE = "Choose at least one first."
SAY_IT = "Please answer in words."


class ButtonDesk:
    """The desk, for presses. `channel` names the channel in the log."""

    def __init__(self, desk: Desk, channel: str, log: Callable[..., None]) -> None:
        self._desk = desk
        self._channel = channel
        self._log = log

    def unknown(self, by: Author) -> str:
        """Log a key that names nothing; return what to tell the person."""
        self._log(f"{self._channel}.press_unknown", level="warning", by=by.id)
        return UNKNOWN

    async def ask(self, press: AskPress, by: Author) -> AskRow | str:
        """Return the ask that was pressed, or why there is none for this person."""
        try:
            row = await self._desk.query("ask", by, id=press.ask_id)
        except StoreError:
            raise
        except PilothouseError:
            return NOT_YOURS
        return self.unknown(by) if row is None or not press.is_about(row.ask) else row

    async def answer(self, row: AskRow, press: AskPress, by: Author, words: str = "") -> Answered | str:
        """Answer an ask; return why not if the press decides nothing. `words` are those of a form."""
        decision = _decision(row, press, words)
        if isinstance(decision, str):
            return decision
        return await self._desk.answer(row.ask.id, row.ask.payload_hash, decision, by)

    async def stop(self, address: Address, by: Author, is_meant: Callable[[TurnId], bool]) -> None:
        """Stop the turn that runs there, if it is the one that is meant."""
        live = await self._live_turn(address, by)
        if live is not None and is_meant(live):
            await self._desk.command(address, by, "/stop", f"stop:{live}")

    async def press_stop(self, address: Address, by: Author, turn_id: TurnId | None) -> str:
        """Stop a turn, without an id the one that runs; return why not, or nothing if it is stopping."""
        try:
            live = await self._live_turn(address, by)
        except StoreError:
            raise
        except PilothouseError:
            return NOT_YOURS_TO_STOP
        if live is None or turn_id not in (None, live):
            return ENDED
        await self._desk.command(address, by, "/stop", f"stop:{live}")
        return ""

    async def _live_turn(self, address: Address, by: Author) -> TurnId | None:
        turn = await self._desk.query("live_turn", by, conversation=conversation_id(address))
        return None if turn is None else turn.id

    async def has_dead_buttons(self, ref: MessageRef, ask_id: AskId, by: Author) -> bool:
        """Tell whether the buttons of a message need an edit of their own. Closing an ask edits the messages it knows."""
        try:
            return await self._desk.query("dead_buttons", by, id=ask_id, ref=ref)
        except StoreError as error:  # the answer was accepted, so this must not look like a failure
            self._log(f"{self._channel}.buttons_stay", level="warning", why=str(error))
            return False


def _decision(row: AskRow, press: AskPress, words: str) -> Decision | str:
    if press.act == "words":
        return decide_words(row.ask, press, words) or SAY_IT
    missing = UNKNOWN if press.act == "choose" else CHOOSE if row.state == "open" else ENDED
    return decide(row.ask, press) or missing
