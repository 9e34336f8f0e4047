"""A fake desk: it records every call and replays the events that a test publishes.

It has the shape of the real desk. Its answers are set beforehand (`receipts`, `answered`) or by `on_accept`, which may
publish events as a gateway would.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import anyio
from msgspec import Struct

from pilothouse.core.ask import Ask, Decision
from pilothouse.core.channel import Answered, LoggedEvent, PlaceSettings, Receipt
from pilothouse.core.errors import StoreUnavailable
from pilothouse.core.event import EngineEvent
from pilothouse.core.ids import AskId, ConversationId, MessageId, TurnId, UserId
from pilothouse.core.message import (
    Address,
    Author,
    InboundMessage,
    MessageDeleted,
    MessageEdited,
    MessageRef,
    Presence,
    pieces_of,
)
from pilothouse.core.queue import RowStatus


class MessageState(Struct, frozen=True):
    """The result of `query("message", id=…)`; `delivered` once everything it caused was sent."""

    status: RowStatus = "queued"
    turn_id: TurnId | None = None
    delivered: bool = False


class OpenAsk(Struct, frozen=True):
    """A row of `query("asks", conversation=…)`, or the one of `query("ask", id=…)`."""

    ask: Ask


class Command(Struct, frozen=True):
    address: Address
    by: Author
    line: str
    native_id: str


class Answer(Struct, frozen=True):
    ask_id: AskId
    payload_hash: str
    decision: Decision
    by: Author


class ScriptedDesk:
    def __init__(self) -> None:
        self.accepted: list[InboundMessage] = []
        self.edits: list[MessageEdited] = []
        self.deletions: list[MessageDeleted] = []
        self.answers: list[Answer] = []
        self.commands: list[Command] = []
        self.receipts: list[Receipt] = []
        """The next answers of `accept` and `command`; after these, `queued`."""
        self.answered = Answered(accepted=True, text="Noted.")
        self.messages: dict[MessageId, MessageState] = {}
        self.open_asks: list[Ask] = []
        self.lists: dict[str, list[Any]] = {"sessions": [], "models": [], "engines": []}
        """The answers of the queries with these names."""
        self.awaited: set[UserId] = set()
        """People whose overheard messages are accepted, because they answer something."""
        self.troubles: dict[str, int] = {}
        """The number of next calls that fail as if the store were locked, by method: `answer`, `command`, `query`."""
        self.queries: list[str] = []
        self.moves: list[tuple[Address, Address]] = []
        self.arrivals: list[tuple[Presence, str]] = []
        """Places where the bot was added, with the greeting."""
        self.departures: list[Presence] = []
        self.places: dict[Address, PlaceSettings] = {}
        """Answers of `settings_of`; for any other place, the configured ones."""
        self.live: dict[TurnId, Address] = {}
        """The answer of `running`."""
        self.stands: dict[MessageRef, Address] = {}
        """Answers of `address_of`; any other message is at its own address."""
        self.on_accept: Callable[[InboundMessage, MessageId], None] = lambda message, id: None
        self.on_command: Callable[[Command], None] = lambda command: None
        self.on_answer: Callable[[Answer], None] = lambda answer: None
        self._logs: dict[ConversationId, list[LoggedEvent]] = defaultdict(list)
        self._seen: dict[tuple[Address, str], Receipt] = {}
        self._news = anyio.Event()

    def publish(self, conversation: ConversationId, turn: TurnId, at: float, *events: EngineEvent) -> None:
        """Appends events to the log; followers see them at once."""
        log = self._logs[conversation]
        for event in events:
            log.append(LoggedEvent(len(log) + 1, turn, at, event))
        self._wake()

    def settle(self, message: MessageId, state: MessageState) -> None:
        self.messages[message] = state
        self._wake()

    async def until(self, seen: Callable[[], bool]) -> None:
        """Waits until `seen()`; it is called again after each call and each publication."""
        while not seen():
            await self._news.wait()

    async def accept(self, message: InboundMessage) -> Receipt:
        if message.overheard and message.author.id not in self.awaited:
            return Receipt("refused")
        keys = [(message.address, piece.native_id) for piece in pieces_of(message)]
        self.accepted.append(message)
        if all(key in self._seen for key in keys):
            return Receipt("duplicate", self._seen[keys[0]].message_id)
        receipt = self._receipt()
        self._seen |= dict.fromkeys(keys, receipt)
        if receipt.state == "queued" and receipt.message_id:
            self.messages.setdefault(receipt.message_id, MessageState())
            self.on_accept(message, receipt.message_id)
        self._wake()
        return receipt

    def expecting(self, message: InboundMessage) -> AbstractContextManager[object]:
        return nullcontext()

    async def edited(self, message: MessageEdited) -> Receipt:
        self.edits.append(message)
        self._wake()
        known = self._seen.get((message.address, message.native_id))
        return Receipt("duplicate") if known is None else Receipt("queued", known.message_id)

    async def deleted(self, message: MessageDeleted) -> Receipt:
        self.deletions.append(message)
        self._wake()
        return Receipt("queued")

    async def answer(self, ask_id: AskId, payload_hash: str, decision: Decision, by: Author) -> Answered:
        self._apply_faults("answer")
        self.answers.append(answer := Answer(ask_id, payload_hash, decision, by))
        self.on_answer(answer)
        self._wake()
        return self.answered

    async def command(
        self, address: Address, by: Author, line: str, native_id: str, *, sent_at: float = 0.0
    ) -> Receipt:
        self._apply_faults("command")
        self.commands.append(command := Command(address, by, line, native_id))
        self.on_command(command)
        self._wake()
        return self.receipts.pop(0) if self.receipts else Receipt("queued")

    async def follow(
        self, conversation: ConversationId, after_seq: int, by: Author
    ) -> AsyncIterator[LoggedEvent]:
        while True:
            news = self._news
            for row in self._logs[conversation][after_seq:]:
                after_seq = row.seq
                yield row
            await news.wait()

    async def query(self, what: str, by: Author, **terms: Any) -> Any:
        self.queries.append(what)
        self._apply_faults("query")
        match what:
            case "message":
                return self.messages[terms["id"]]
            case "ask":
                found = (OpenAsk(ask) for ask in self.open_asks if ask.id == terms["id"])
                return next(found, None)
            case "asks":
                return [OpenAsk(ask) for ask in self.open_asks]
            case "last_seq":
                return len(self._logs[terms["conversation"]])
            case what if what in self.lists:
                return self.lists[what]
            case _:
                raise ValueError(f"a scripted desk knows nothing about {what!r}; see its query()")

    async def moved(self, old: Address, new: Address) -> None:
        self._apply_faults("moved")
        self.moves.append((old, new))
        self._wake()

    async def arrived(self, here: Presence, greeting: str) -> None:
        self._apply_faults("arrived")
        self.arrivals.append((here, greeting))
        self._wake()

    async def left(self, here: Presence) -> None:
        self._apply_faults("left")
        self.departures.append(here)
        self._wake()

    async def running(self, address: Address) -> dict[TurnId, Address]:
        return dict(self.live)

    async def address_of(self, ref: MessageRef) -> Address:
        self._apply_faults("address_of")
        return self.stands.get(ref, ref.address)

    async def settings_of(self, address: Address) -> PlaceSettings:
        self._apply_faults("settings_of")
        return self.places.get(address, PlaceSettings())

    def _apply_faults(self, method: str) -> None:
        if self.troubles.get(method, 0) > 0:
            self.troubles[method] -= 1
            raise StoreUnavailable("The store is locked.")

    def _receipt(self) -> Receipt:
        if self.receipts:
            return self.receipts.pop(0)
        return Receipt("queued", MessageId(f"message-{len(self._seen) + 1}"))

    def _wake(self) -> None:
        news, self._news = self._news, anyio.Event()
        news.set()
