"""The desk: everything a channel may ask of the gateway. Each method has its row in the authority table.

`follow` reads a conversation's event log, its only source: it yields what is stored, then waits for a signal or the
poll interval and reads on from the last sequence number. So a reconnect misses nothing and repeats nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from pilothouse.core.ask import AskRow, Decision
from pilothouse.core.channel import PAGE, Answered, LoggedEvent, PlaceSettings, Receipt
from pilothouse.core.conversation import Conversation
from pilothouse.core.engine import Model
from pilothouse.core.errors import PilothouseError, StoreUnavailable
from pilothouse.core.ids import AskId, ConversationId, EngineId, MessageId, SessionId, TurnId
from pilothouse.core.message import (
    Address,
    Author,
    InboundMessage,
    MessageDeleted,
    MessageEdited,
    MessageRef,
    Presence,
)
from pilothouse.core.people import Role, allows
from pilothouse.core.policy import ApprovalMode, narrower
from pilothouse.core.queue import QueueRow
from pilothouse.core.schedule import split_task_place
from pilothouse.core.store import Tx
from pilothouse.core.turn import LIVE, Turn
from pilothouse.runtime.asks.answers import AnswerService
from pilothouse.runtime.asks.settle import has_dead_buttons
from pilothouse.runtime.commands.call import Listed
from pilothouse.runtime.commands.sessions import session_choices
from pilothouse.runtime.commands.settings import list_models, model_facts, models_to_choose
from pilothouse.runtime.commands.watch import addresses_watching
from pilothouse.runtime.conversations.binding import bound, mode_of, wishes_of, workspace_of
from pilothouse.runtime.conversations.places import Places, find_address, resolve
from pilothouse.runtime.delivery.known_secrets import without_secrets
from pilothouse.runtime.delivery.mail import unsent_of
from pilothouse.runtime.inbox.intake import Intake
from pilothouse.runtime.outbox import content_of
from pilothouse.runtime.ports import INBOX, OUTBOX, PLACES, Ports, Signals, events_of
from pilothouse.runtime.presence import arrive, leave, move_place
from pilothouse.runtime.roles import role_of
from pilothouse.runtime.turn_history import list_places, past_turns, turn_facts

T = TypeVar("T", Receipt, Answered)

MAX_TURNS = 500
ACROSS = ("turns", "places")
"""Queries that cover every conversation when none is named: for owners only."""


async def follow(ports: Ports, conversation_id: ConversationId, after_seq: int) -> AsyncIterator[LoggedEvent]:
    seq = after_seq
    while True:
        ticket = ports.signals.ticket(events_of(conversation_id))
        for logged in await _page(ports, conversation_id, seq):
            seq = logged.seq
            yield logged
            ticket = None
        if ticket is not None:
            await Signals.wait(ticket, ports.settings().poll_s)


async def _page(ports: Ports, conversation_id: ConversationId, seq: int) -> list[LoggedEvent]:
    try:
        return await ports.store.read(lambda tx: tx.events.after(conversation_id, seq, limit=PAGE))
    except StoreUnavailable as error:
        ports.log("follow.postponed", level="warning", error=str(error))
        await ports.clock.sleep(ports.settings().poll_s)
        return []


class MessageState(msgspec.Struct, frozen=True):
    """State of an accepted message. `delivered` means that every reply to it was sent or has failed."""

    status: str
    turn_id: str | None
    turn_status: str | None
    delivered: bool


class GatewayDesk:
    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._intake = Intake(ports)
        self._answering = AnswerService(ports)
        self._places = Places(ports)

    async def accept(self, message: InboundMessage) -> Receipt:
        return self._shown(await self._intake.accept(message))

    def expecting(self, message: InboundMessage) -> AbstractContextManager[object]:
        """Announce a message whose files are still being fetched. Roles are checked on `/stop` and on arrival."""
        return self._intake.expecting(message)

    async def edited(self, message: MessageEdited) -> Receipt:
        return self._shown(await self._intake.edited(message))

    async def deleted(self, message: MessageDeleted) -> Receipt:
        return self._shown(await self._intake.deleted(message))

    async def answer(self, ask_id: AskId, payload_hash: str, decision: Decision, by: Author) -> Answered:
        return self._shown(await self._answering.answer(ask_id, payload_hash, decision, by))

    async def command(
        self, address: Address, by: Author, line: str, native_id: str, *, sent_at: float = 0.0
    ) -> Receipt:
        return self._shown(await self._intake.command(address, by, line, native_id, sent_at))

    def _shown(self, told: T) -> T:
        """Remove known secrets: channels show these texts without the outbox."""
        return without_secrets(told, self._ports.redact)

    async def follow(
        self, conversation: ConversationId, after_seq: int, by: Author
    ) -> AsyncIterator[LoggedEvent]:
        conversation = await self._ports.read(lambda tx: resolve(tx, conversation))
        role = await self._ports.read(lambda tx: self._role(tx, by, conversation))
        if not allows(role, "desk.follow"):
            raise PilothouseError(f"{by.id} may not look at this.")
        async for logged in follow(self._ports, conversation, after_seq):
            yield logged

    async def query(self, what: str, by: Author, **terms: Any) -> Any:
        """Answer a query. Permission and result come from one read, so a revoked role takes effect at once."""
        models = partial(self._models, listed=list_models(self._ports) if what == "models" else {})
        facts = model_facts(self._ports) if what == "model_facts" else {}
        own = {
            "engines": self._engines,
            "engine": self._engine,
            "model": self._model,
            "mode": self._mode,
            "models": models,
            "model_facts": partial(self._model_facts, facts=facts),
            "sessions": self._sessions,
        }
        queries = {**QUERIES, **own}

        def unit(tx: Tx) -> Any:
            asked = _resolved(tx, what, terms)
            place = _place(tx, what, asked)
            role = self._role(tx, by, place)
            if not allows(role, "desk.query"):
                raise PilothouseError(f"{by.id} may not look at this.")
            if what not in queries:
                names = ", ".join(queries)
                raise PilothouseError(f"There is no query {what!r}. Available: {names}.")
            if what in ACROSS and place is None and not allows(role, "query.across"):
                raise PilothouseError(f"{by.id} may query only a named conversation. Name one.")
            if not allows(role, f"query.{what}"):
                raise PilothouseError(f"{by.id} may not look at this.")
            return queries[what](tx, **asked)

        return await self._ports.store.read(unit)

    async def running(self, address: Address) -> dict[TurnId, Address]:
        """List live turns of a place and its threads. No role is checked: acting on a turn has its own check."""

        def unit(tx: Tx) -> dict[TurnId, Address]:
            turns = tx.turns.of(statuses=tuple(LIVE), limit=MAX_TURNS)
            places = tx.conversations.some({turn.conversation_id for turn in turns})
            found = ((turn.id, places.get(turn.conversation_id)) for turn in turns)
            return {
                id: place.address
                for id, place in found
                if place is not None and replace(place.address, thread=address.thread) == address
            }

        return await self._ports.store.read(unit)

    async def address_of(self, ref: MessageRef) -> Address:
        """Find the thread of a message. Called by a channel, not by a person, so no role is checked."""
        return await self._ports.store.read(lambda tx: find_address(tx, ref))

    async def settings_of(self, address: Address) -> PlaceSettings:
        return await self._places.of(address)

    async def moved(self, old: Address, new: Address) -> None:
        """Record that a place got a new address. A channel may move only its own places."""
        ports, at = self._ports, self._ports.clock.now()
        if old.channel != new.channel:
            raise PilothouseError(f"A place of {old.channel} cannot move to {new.channel}.")
        if await ports.store.write(lambda tx: move_place(tx, ports.ids, old, new, at)):
            ports.log("conversation.moved", level="warning", old=old.place, new=new.place)
            ports.signals.poke(INBOX, OUTBOX, PLACES)

    async def arrived(self, here: Presence, greeting: str) -> None:
        """Record that we were added to a place. Strangers are not greeted."""
        ports, at = self._ports, self._ports.clock.now()
        known = await ports.store.write(
            lambda tx: arrive(tx, ports.ids, ports.settings(), here, greeting, at)
        )
        ports.log("place.joined", place=here.address.place, by=here.by.id, known=known)
        ports.signals.poke(OUTBOX)

    async def left(self, here: Presence) -> None:
        ports, at = self._ports, self._ports.clock.now()
        dropped = await ports.store.write(lambda tx: leave(tx, ports.ids, ports.settings(), here, at))
        ports.log("place.left", level="warning", place=here.address.place, by=here.by.id, dropped=dropped)
        ports.signals.poke(OUTBOX)

    def _engines(self, _tx: Tx, conversation: ConversationId) -> list[str]:
        """List the engines that people may choose from."""
        return sorted(set(self._ports.settings().engine_names.values()))

    def _engine(self, tx: Tx, conversation: ConversationId) -> str:
        """Return the engine that the next message goes to."""
        known = tx.conversations.get(conversation)
        return (
            bound(tx, known).engine if known is not None else None
        ) or self._ports.settings().default_engine

    def _model(self, tx: Tx, conversation: ConversationId) -> str:
        """Return the model chosen for the next message; empty is the engine's default."""
        known = tx.conversations.get(conversation)
        return (bound(tx, known).model if known is not None else None) or ""

    def _mode(self, tx: Tx, conversation: ConversationId) -> ApprovalMode:
        """Return the approval mode of the next message."""
        settings = self._ports.settings()
        workspace = workspace_of(tx, conversation, settings.default_workspace)
        wished = wishes_of(tx, conversation).approval_mode
        return narrower(wished or mode_of(tx, settings, workspace, None), settings.widest_in(workspace))

    def _models(self, tx: Tx, conversation: ConversationId, engine: str = "", *, listed: Listed) -> list[str]:
        """List the models to offer: of the named engine, or of the conversation's."""
        own, known = EngineId(self._engine(tx, conversation)), tx.conversations.get(conversation)
        if known is None or (engine and engine != own):
            return list(listed.get(EngineId(engine or own), ()))
        return models_to_choose(tx, known, own, listed)

    def _model_facts(
        self,
        tx: Tx,
        conversation: ConversationId,
        engine: str = "",
        *,
        facts: Mapping[EngineId, tuple[Model, ...]],
    ) -> dict[str, Model]:
        """Return what is known about the models of the named engine, or of the conversation's, by name."""
        id = EngineId(engine or self._engine(tx, conversation))
        return {model.name: model for model in facts.get(id, ())}

    def _sessions(self, tx: Tx, conversation: ConversationId) -> list[tuple[str, SessionId]]:
        """List the sessions that people may continue: a label and an id for each, last used first."""
        found = session_choices(tx, conversation, self._ports.clock.now())
        return [(self._ports.redact(label), id) for label, id in found]

    def _role(self, tx: Tx, by: Author, place: ConversationId | None) -> Role:
        settings = self._ports.settings()
        workspace = workspace_of(tx, place, settings.default_workspace) if place is not None else ""
        return role_of(tx, settings.people, by.id, workspace)


def _resolved(tx: Tx, what: str, terms: Mapping[str, Any]) -> Mapping[str, Any]:
    """Resolve the named conversation: the caller made its id from an address that may be newer."""
    name = "id" if what == "conversation" else "conversation"
    return {**terms, name: resolve(tx, terms[name])} if terms.get(name) else terms


def _place(tx: Tx, what: str, terms: Mapping[str, Any]) -> ConversationId | None:
    """Return the conversation that a query is about, if any."""
    if what == "message":
        row = tx.inbox.get(MessageId(terms.get("id", "")))
        return row.conversation_id if row else None
    if what in ("ask", "dead_buttons"):
        asked = tx.asks.get(AskId(terms.get("id", "")))
        return asked.conversation_id if asked else None
    if what == "turn":
        turn = tx.turns.get(TurnId(terms.get("id", "")))
        return turn.conversation_id if turn else None
    return terms.get("id" if what == "conversation" else "conversation")


def _message(tx: Tx, id: str) -> MessageState | None:
    row = tx.inbox.get(MessageId(id))
    if row is None:
        return None
    turn = tx.turns.get(row.turn_id) if row.turn_id else None
    return MessageState(row.status, row.turn_id, turn.status if turn else None, not unsent_of(tx, row))


def _conversation(tx: Tx, id: ConversationId) -> Conversation | None:
    return tx.conversations.get(id)


def _turns(tx: Tx, conversation: ConversationId | None = None) -> list[Turn]:
    return tx.turns.of(conversation)


def _live_turn(tx: Tx, conversation: ConversationId, turn: TurnId | None = None) -> Turn | None:
    """Return the live turn of a conversation; or, if it is named, that of a schedule which the conversation made."""
    named = tx.turns.get(turn) if turn is not None else None
    if named is not None and named.status in LIVE:
        origin, schedule = split_task_place(named.conversation_id)
        if schedule is not None and origin == conversation:
            return named
    return tx.turns.live_in(conversation)


def _asks(tx: Tx, conversation: ConversationId) -> list[AskRow]:
    return tx.asks.open_in(conversation)


def _ask(tx: Tx, id: AskId) -> AskRow | None:
    """Return an ask in any state: its button may be older than its settlement."""
    return tx.asks.get(id)


def _sent(tx: Tx, conversation: ConversationId, ref: MessageRef, since: float) -> str | None:
    """Return the text of a message that we sent there since then; None for any other."""
    row = tx.outbox.find_ref(ref)
    if row is None or row.created_at < since or split_task_place(row.conversation_id)[0] != conversation:
        return None
    return content_of(row).text


def _queue(tx: Tx, conversation: ConversationId) -> list[QueueRow]:
    return tx.inbox.unfinished(conversation)


def _last_seq(tx: Tx, conversation: ConversationId) -> int:
    return tx.events.last_seq(conversation)


QUERIES: Mapping[str, Callable[..., Any]] = {
    "message": _message,
    "conversation": _conversation,
    "turns": _turns,
    "live_turn": _live_turn,
    "asks": _asks,
    "ask": _ask,
    "dead_buttons": has_dead_buttons,
    "sent": _sent,
    "queue": _queue,
    "last_seq": _last_seq,
    "watching": addresses_watching,
    "places": list_places,
    "history": past_turns,
    "turn": turn_facts,
}
