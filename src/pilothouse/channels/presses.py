"""Buttons below an ask, a running turn or a list: their keys, the choices of an ask, and the handling of a press. Shared by every channel.

An ask's key has the ask's id, the beginning of the hash of what was asked, the action, and, where several options may
be chosen, those chosen so far: all state is in the buttons, so a restart loses nothing. A key is not trusted: it names
an ask or a turn, and the desk knows what that is and who may act on it.

    a|ask-3f9k2a|1c0ffee51c0f|c2          the third choice
    a|ask-3f9k2a|1c0ffee51c0f|t2|5        the third option, while the first and the third are chosen
    a|ask-3f9k2a|1c0ffee51c0f|d|5         done with choosing
    a|ask-3f9k2a|1c0ffee51c0f|p           picked from a list, which says what was picked
    a|ask-3f9k2a|1c0ffee51c0f|i           show all that is asked
    a|ask-3f9k2a|1c0ffee51c0f|w2          the words that belong to the third choice; without a number, the answer
    s|turn-8d2j1x                         stop this turn
    c|/resume session-3f9k2a              run this command
    c|                                    run the command that was picked from a list

A command runs as if the person had typed it, so its key needs no more trust than a message.
A key has the number of a choice, so the order of choices depends on the ask only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from msgspec import Struct

from pilothouse.core.ask import SAID_NO, Ask, AskRow, Decision, Option, parse_reply
from pilothouse.core.ask_view import ALLOW
from pilothouse.core.channel import Answered, Desk
from pilothouse.core.errors import PilothouseError, StoreError
from pilothouse.core.ids import AskId, TurnId
from pilothouse.core.message import LINE_BYTES, Address, Author, CommandButton, MessageRef, conversation_id

HASH_CHARS = 12
COMMANDS = "c|"
KEY_BYTES = len(COMMANDS) + LINE_BYTES
"""The longest key, which fits into a button on every platform."""
MAX_OPTIONS = 60
"""A press has one bit for each option."""
Act = Literal["choose", "toggle", "done", "pick", "words", "details"]
_LETTERS: dict[Act, str] = {
    "choose": "c",
    "toggle": "t",
    "done": "d",
    "pick": "p",
    "words": "w",
    "details": "i",
}
_ACTS: dict[str, Act] = {letter: act for act, letter in _LETTERS.items()}
_ASK = re.compile(
    r"a\|(?P<id>[^|\s]+)\|(?P<hash>[0-9a-f]{12})\|(?P<act>[ctdpwi])(?P<index>[0-9]{0,3})(\|(?P<chosen>[0-9a-f]{1,16}))?"
)
_STOP = re.compile(r"s\|(?P<id>[^|\s]*)")
_COMMAND = re.compile(r"/[a-z]+( [^\n]+)?")
_PICKED = re.compile(r"[0-9]{1,2}")


DETAILS = "Details"
UNKNOWN = "This button is no longer valid."
ENDED = "This has already ended."
NOT_YOURS = "You may not answer this."
NOT_YOURS_TO_STOP = "You may not stop this."
CHOOSE = "Choose at least one first."
SAY_IT = "Please answer in words."


class AskPress(Struct, frozen=True):
    """`chosen` has a bit for each option that is chosen; `index` is None for the words of an answer."""

    ask_id: AskId
    hash: str
    act: Act
    index: int | None = 0
    chosen: int = 0

    def is_about(self, ask: Ask) -> bool:
        """Returns true if the button belongs to exactly this ask."""
        return self.ask_id == ask.id and self.hash == _hash(ask)


NO_ASK = AskPress(AskId(""), "", "choose")


class StopPress(Struct, frozen=True):
    """Stops a turn; without an id, the one that runs."""

    turn_id: TurnId | None


class CommandPress(Struct, frozen=True):
    """Runs a command line."""

    line: str


Press = AskPress | StopPress | CommandPress


def ask_key(ask: Ask, act: Act, index: int | None = 0, chosen: int = 0) -> str:
    number = str(index) if act in ("choose", "toggle", "words") and index is not None else ""
    tail = f"|{chosen:x}" if act in ("toggle", "done") else ""
    return _bounded(f"a|{ask.id}|{_hash(ask)}|{_LETTERS[act]}{number}{tail}")


def stop_key(turn_id: TurnId | None) -> str:
    return _bounded(f"s|{turn_id or ''}")


def command_key(line: str) -> str | None:
    """Return the key of a button that runs a command; None if the line does not fit into one."""
    key = f"{COMMANDS}{line}"
    return key if _COMMAND.fullmatch(line) and len(key.encode()) <= KEY_BYTES else None


def pressable(buttons: Sequence[CommandButton]) -> list[tuple[str, CommandButton]]:
    """Return the buttons whose command fits into a key, each with its key."""
    return [(key, button) for button in buttons if (key := command_key(button.line)) is not None]


def parse_key(key: str, picked: Sequence[str] = ()) -> Press | None:
    """Parses a button's key and what was picked from a list; None for a key that is not ours."""
    if len(key.encode(errors="replace")) > KEY_BYTES:
        return None
    if found := _STOP.fullmatch(key):
        return StopPress(TurnId(found["id"]) if found["id"] else None)
    if key.startswith(COMMANDS):
        line = picked[0] if key == COMMANDS and len(picked) == 1 else key.removeprefix(COMMANDS)
        return CommandPress(line) if _COMMAND.fullmatch(line) else None
    found = _ASK.fullmatch(key)
    chosen = _bits(picked)
    if found is None or chosen is None:
        return None
    act = _ACTS[found["act"]]
    if act != "pick":
        chosen = int(found["chosen"] or "0", 16)
    index = None if act == "words" and not found["index"] else int(found["index"] or 0)
    return AskPress(AskId(found["id"]), found["hash"], act, index, chosen)


def _bounded(key: str) -> str:
    if len(key.encode()) > KEY_BYTES:
        raise ValueError(
            f"the button key {key!r} is longer than the {KEY_BYTES} bytes that fit into a button"
        )
    return key


def _bits(picked: Sequence[str]) -> int | None:
    bits = 0
    for value in picked:
        if not _PICKED.fullmatch(value) or int(value) >= MAX_OPTIONS or bits >> int(value) & 1:
            return None
        bits |= 1 << int(value)
    return bits


def _hash(ask: Ask) -> str:
    return ask.payload_hash[:HASH_CHARS].ljust(HASH_CHARS, "0")


class Choice(Struct, frozen=True):
    label: str
    decision: Decision


def choices(ask: Ask) -> tuple[Choice, ...]:
    if ask.kind == "approval":
        return tuple(_approvals(ask))
    if ask.options:
        return tuple(Choice(option.label, Decision("answer", (option.key,))) for option in offered(ask))
    if ask.kind == "plan":
        return (
            Choice("Go ahead", Decision("allow")),
            Choice("No", Decision("deny", text=SAID_NO)),
            Choice("Say what to change", Decision("deny", reason_wanted=True)),
        )
    return ()


def rows_of(ask: Ask) -> tuple[tuple[int, ...], ...]:
    """Lay out the choices of an approval by their numbers: once and no first, the lasting ones in the last row."""
    narrow = [n for n, choice in enumerate(choices(ask)) if choice.decision.remember == "once"]
    lasting = [n for n, choice in enumerate(choices(ask)) if choice.decision.remember != "once"]
    return tuple(tuple(row) for row in (narrow, lasting) if row)


def has_details(ask: Ask) -> bool:
    """Returns true if `/show` tells more than the message."""
    return ask.kind == "approval" and not ask.of_house


def decide(ask: Ask, press: AskPress) -> Decision | None:
    """Returns what the press decides; None if it decides nothing yet, or names an unknown choice."""
    found = choices(ask)
    match press:
        case AskPress(act="done", chosen=chosen):
            return _chosen(ask, chosen) if is_many(ask) else None
        case AskPress(act="pick", chosen=chosen):
            one = chosen.bit_count() == 1
            return _chosen(ask, chosen) if one or is_many(ask) else None
        case AskPress(act="choose", index=int(index)) if index < len(found):
            return found[index].decision
        case _:
            return None


def decide_words(ask: Ask, press: AskPress, text: str) -> Decision | None:
    """Returns what typed words decide: an answer, or a denial with its reason. None if no words were asked for."""
    if press.act != "words" or not text.strip():
        return None
    found = choices(ask)
    if press.index is None:
        return parse_reply(ask, text) if takes_words(ask) else None
    if press.index < len(found) and found[press.index].decision.reason_wanted:
        return Decision("deny", text=text)
    return None


def offered(ask: Ask) -> tuple[Option, ...]:
    return ask.options[:MAX_OPTIONS]


def takes_words(ask: Ask) -> bool:
    """Returns true if words can answer it: a question, or a plan with options, by their number or name."""
    return ask.kind == "question" or (ask.kind == "plan" and bool(ask.options))


def is_many(ask: Ask) -> bool:
    return ask.many and bool(ask.options) and ask.kind != "approval"


def _chosen(ask: Ask, chosen: int) -> Decision | None:
    if ask.kind == "approval":
        return None
    keys = tuple(option.key for bit, option in enumerate(offered(ask)) if chosen >> bit & 1)
    return Decision("answer", keys) if keys else None


def _approvals(ask: Ask) -> Iterator[Choice]:
    if ask.of_house:  # a yes is permanent, and no engine would read a reason
        yield Choice("Allow", Decision("allow"))
        yield Choice("Deny", Decision("deny"))
        return
    yield Choice(ALLOW["once"], Decision("allow"))
    for remember in ("session", "always"):
        if any(offer.remember == remember for offer in ask.offers):
            yield Choice(ALLOW[remember], Decision("allow", remember=remember))
    yield Choice("Deny", Decision("deny"))
    yield Choice("Deny and say why", Decision("deny", reason_wanted=True))


class ButtonDesk:
    """The desk, for presses. `channel` names the channel in the log."""

    def __init__(self, desk: Desk, channel: str, log: Callable[..., None]) -> None:
        self._desk = desk
        self._channel = channel
        self._log = log

    async def unknown(self, by: Author, press: AskPress = NO_ASK) -> str:
        """Log and audit a key that names nothing; return what to tell the person."""
        self._log(f"{self._channel}.press_unknown", level="warning", by=by.id)
        await self._audit(press, by)
        return UNKNOWN

    async def _audit(self, press: AskPress, by: Author) -> None:
        """Have the desk refuse the press, which it writes down. It cannot count: no ask has a hash as short as a key's."""
        await self._desk.answer(press.ask_id, press.hash, Decision("deny"), by)

    async def ask(self, press: AskPress, by: Author) -> AskRow | str:
        """Return the ask that was pressed, or why there is none for this person."""
        try:
            row = await self._desk.query("ask", by, id=press.ask_id)
        except StoreError:
            raise
        except PilothouseError:
            await self._audit(press, by)
            return NOT_YOURS
        return await self.unknown(by, press) if row is None or not press.is_about(row.ask) else row

    async def answer(self, row: AskRow, press: AskPress, by: Author, words: str = "") -> Answered | str:
        """Answer an ask; return why not if the press decides nothing. `words` are those of a form."""
        decision = _decision(row, press, words)
        if isinstance(decision, str):
            return decision if decision != UNKNOWN else await self.unknown(by, press)
        return await self._desk.answer(row.ask.id, row.ask.payload_hash, decision, by)

    async def show_details(self, row: AskRow, address: Address, by: Author, press_id: str) -> None:
        """Post all that is asked, as `/show` does."""
        await self._desk.command(address, by, f"/show {row.ask.id}", f"details:{press_id}")

    async def stop(self, address: Address, by: Author, is_meant: Callable[[TurnId], bool]) -> None:
        """Stop the turn that runs there, if it is the one that is meant."""
        live = await self._live_turn(address, by)
        if live is not None and is_meant(live):
            await self._desk.command(address, by, "/stop", f"stop:{live}")

    async def press_stop(self, address: Address, by: Author, turn_id: TurnId | None) -> str:
        """Stop a turn, without an id the one that runs; return why not, or nothing if it is stopping."""
        try:
            live = await self._live_turn(address, by, turn_id)
        except StoreError:
            raise
        except PilothouseError:
            return NOT_YOURS_TO_STOP
        if live is None or turn_id not in (None, live):
            return ENDED
        line = "/stop" if turn_id is None else f"/stop {turn_id}"
        await self._desk.command(address, by, line, f"stop:{live}")
        return ""

    async def run(self, address: Address, by: Author, line: str, native_id: str) -> str:
        """Run a command as if typed; return what only this person is told. The reply is a message."""
        receipt = await self._desk.command(address, by, line, native_id)
        return receipt.text or (NOT_YOURS if receipt.state == "refused" else "")

    async def _live_turn(self, address: Address, by: Author, named: TurnId | None = None) -> TurnId | None:
        place = conversation_id(address)
        turn = await self._desk.query("live_turn", by, conversation=place, turn=named)
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
