"""Follows the log of one conversation for a client that replays history: each row once, in order, grouped by turn.

`replay` and the live rows never overlap: both run under one lock, and a replay moves the position of the live rows to the
end of its snapshot. Rows that it moves past take effect without being shown again: an ask is opened or closed, a run
ends. A client that is slow stops the follower, and costs one page of rows.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Generic, Protocol, TypeVar

import anyio
from msgspec import Struct

from pilothouse.core.ask import AskRow
from pilothouse.core.channel import Desk, LoggedEvent
from pilothouse.core.clock import Clock
from pilothouse.core.errors import StoreUnavailable
from pilothouse.core.ids import ConversationId, TurnId
from pilothouse.core.message import Address, Author, conversation_id

T = TypeVar("T")

KEPT_RUNS = 64
RETRY_S = 0.5
ASKS_POLL_S = 1.0


class Run(Struct, Generic[T]):
    """One turn for the client. `state` is what the protocol keeps of it."""

    id: str
    turn_id: TurnId
    said: str
    cause: str
    state: T


class Face(Protocol[T]):
    """The protocol's side: makes the state of a run, and shows its rows."""

    def new_state(self) -> T: ...

    async def show(self, feed: SessionFeed[T], run: Run[T], row: LoggedEvent) -> None: ...

    async def announce(self, feed: SessionFeed[T], run: Run[T]) -> None:
        """A turn begins live, before its first row."""
        ...

    async def pass_over(self, feed: SessionFeed[T], run: Run[T], row: LoggedEvent) -> None:
        """Do what a row causes. A replay has just shown it, and it was not shown live."""
        ...

    def absorb(self, run: Run[T], row: LoggedEvent) -> None:
        """Take a row that the client has seen or does not want to see."""
        ...


class SessionFeed(Generic[T]):
    """`session_id` is the client's name for the conversation at `address`."""

    def __init__(
        self, desk: Desk, clock: Clock, author: Author, session_id: str, address: Address, face: Face[T]
    ) -> None:
        self.session_id = session_id
        self.address = address
        self.conversation: ConversationId = conversation_id(address)
        self.lock = anyio.Lock(fast_acquire=True)  # else each row would wait for a round of the event loop
        self.runs: dict[TurnId, Run[T]] = {}
        self._desk = desk
        self._clock = clock
        self._author = author
        self._face = face
        self._after_seq = 0

    async def catch_up(self) -> None:
        """Take the rows so far without showing them; the live turn's state is complete afterwards."""
        async with self.lock:
            self._take_history(await self.query("history", conversation=self.conversation, limit=0))

    async def replay(
        self, limit: int, show: Callable[[list[tuple[Run[T], tuple[LoggedEvent, ...]]], int], Awaitable[None]]
    ) -> None:
        """Show the newest `limit` turns from one snapshot; live rows continue after it. `show` also gets the number of
        turns that were left out."""
        async with self.lock:
            told = await self.query("history", conversation=self.conversation, limit=limit)
            self.runs.clear()
            past = [(self._run(turn.facts), turn.events) for turn in told.turns]
            await show(past, told.omitted)
            await self._pass_over(told.last_seq)

    async def _pass_over(self, last_seq: int) -> None:
        """Move the position of the live rows to the end of a snapshot."""
        while self._after_seq < last_seq:
            try:
                async for row in self._desk.follow(self.conversation, self._after_seq, self._author):
                    run = self.runs.get(row.turn_id) or await self._find(row.turn_id)
                    if run is not None:
                        await self._face.pass_over(self, run, row)
                    self._after_seq = row.seq
                    if row.seq >= last_seq:
                        return
            except StoreUnavailable:
                await self._clock.sleep(RETRY_S)

    def _take_history(self, told: Any) -> None:
        for turn in told.turns:
            run = self._run(turn.facts)
            for row in turn.events:
                self._face.absorb(run, row)
        self._after_seq = told.last_seq

    async def follow(self) -> None:
        """Show rows as they come, without end."""
        while True:
            try:
                async for row in self._desk.follow(self.conversation, self._after_seq, self._author):
                    async with self.lock:
                        if row.seq > self._after_seq:
                            await self._take(row)
                            self._after_seq = row.seq
            except StoreUnavailable:
                await self._clock.sleep(RETRY_S)

    async def watch_asks(self, show: Callable[[AskRow], Awaitable[None]]) -> None:
        """Show the open asks of Pilothouse itself, without end: no log has them, and their message goes to one client."""
        while True:
            for row in await self.query("asks", conversation=self.conversation):
                if row.topic:
                    await show(row)
            await self._clock.sleep(ASKS_POLL_S)

    async def _take(self, row: LoggedEvent) -> None:
        run = self.runs.get(row.turn_id)
        if run is None:
            run = await self._find(row.turn_id)
            if run is None:
                return
            await self._face.announce(self, run)
        await self._face.show(self, run, row)

    async def _find(self, turn_id: TurnId) -> Run[T] | None:
        facts = await self.query("turn", id=turn_id)
        return None if facts is None else self._run(facts)

    def _run(self, facts: Any) -> Run[T]:
        run = Run(facts.run_id, facts.turn.id, facts.said, facts.turn.cause, self._face.new_state())
        self.runs[run.turn_id] = run
        while len(self.runs) > KEPT_RUNS:
            del self.runs[next(iter(self.runs))]
        return run

    async def query(self, what: str, **terms: Any) -> Any:
        return await query_desk(self._desk, self._clock, self._author, what, **terms)


async def query_desk(desk: Desk, clock: Clock, author: Author, what: str, **terms: Any) -> Any:
    """Ask the desk; wait while the store is unavailable."""
    while True:
        try:
            return await desk.query(what, author, **terms)
        except StoreUnavailable:
            await clock.sleep(RETRY_S)
