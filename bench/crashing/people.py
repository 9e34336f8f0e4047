"""The people of the scenario, and the platform that carries their words.

Five conversations; or, with `tools`, one with an agent that calls Pilothouse's tools, and the schedule. Whatever was not acknowledged is sent again after a restart under the same id, as a real platform
does; an ask is answered whenever it is seen. What was acknowledged is in the journal, synced, before anything follows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
from bench.crashing.journal import Journal

from pilothouse.channels.memory import MemoryChannel
from pilothouse.core.ask import Ask, Verdict
from pilothouse.core.clock import Clock
from pilothouse.core.conversation import Conversation
from pilothouse.core.ids import AskId, ScheduleId
from pilothouse.core.message import Chain, conversation_id
from pilothouse.core.schedule import At, Schedule
from pilothouse.core.store import Store, Tx
from pilothouse.runtime.conversations.exchange import Request, put_request
from pilothouse.runtime.ports import new_id

PLACES = ("batch", "long", "tool", "approve", "stop")
SCHEDULE = ScheduleId("nightly")
SCHEDULED_AFTER_S = 0.25
EXCHANGE = "agent:exchange-1"
"""The key of the request of one agent to another."""
UNFINISHED = ("queued", "running", "waiting", "parked", "lost")
LOOK_EVERY_S = 0.01


class People:
    def __init__(
        self,
        channel: MemoryChannel,
        store: Store,
        clock: Clock,
        journal: Journal,
        seen: Journal,
        acked: Callable[[], None],
        verdict: Verdict,
        *,
        tools: bool = False,
    ) -> None:
        self._channel = channel
        self._store = store
        self._clock = clock
        self._journal = journal
        self._seen = seen
        self._on_ack = acked
        self._verdict: Verdict = verdict
        self._tools = tools
        self._acked = {line["acked"] for line in journal.read() if "acked" in line}
        self._asks = {line["saw"]: line for line in journal.read() if "saw" in line}

    async def play(self) -> None:
        """Returns when all has been said and everything has settled."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._answer_for_ever)
            async with anyio.create_task_group() as talks:
                usual = (self._batch, self._long, self._tool, self._approve, self._stop)
                for talk in (self._agent, self._nightly) if self._tools else usual:
                    talks.start_soon(talk)
            await self._until(settled)
            tasks.cancel_scope.cancel()

    async def _batch(self) -> None:
        """Words that come while a turn runs wait, and go in together; one of them is changed while it waits."""
        await self._say("batch", "batch-1", "word batch-1")
        await self._until(lambda tx: self._begun(tx, "batch", "batch-1"))
        for number in (2, 3, 4):
            await self._say("batch", f"batch-{number}", f"word batch-{number}")
        await self._once(
            "batch-4-edited", lambda: self._channel.change("batch-4", "better word batch-4", "batch")
        )
        await self._until(lambda tx: self._begun(tx, "batch", "batch-4"))
        for number in (5, 6):
            await self._say("batch", f"batch-{number}", f"word batch-{number}")

    async def _long(self) -> None:
        await self._say("long", "long-1", "a story, long-1")
        await self._say("long", "long-2", "/status")
        await self._until(lambda tx: self._ended(tx, "long", "long-1"))
        await self._say("long", "long-3", "another story, long-3")

    async def _tool(self) -> None:
        await self._once("schedule", lambda: self._store.write(self._add_schedule))
        await self._say("tool", "tool-1", "deploy it, tool-1")
        await self._until(lambda tx: self._ended(tx, "tool", "tool-1"))
        await self._once("exchange", lambda: self._store.write(self._ask_agent))
        await self._say("tool", "tool-2", "a word about it, tool-2")

    async def _nightly(self) -> None:
        await self._once("schedule", lambda: self._store.write(self._add_schedule))
        await self._say("tool", "tool-2", "a word about it, tool-2")

    async def _agent(self) -> None:
        """The agent sends a message by a tool, asks a question by a tool and waits for the answer, then asks another agent."""
        for number, words in enumerate(("tell them", "ask them", "pass it on"), 1):
            name = f"agent-{number}"
            await self._say("agent", name, f"{words}, {name}")
            await self._until(lambda tx: self._quiet(tx, "agent"))

    async def _approve(self) -> None:
        await self._say("approve", "approve-1", "make a release, approve-1")

    async def _stop(self) -> None:
        await self._say("stop", "stop-1", "hold on, stop-1")
        await self._until(lambda tx: self._begun(tx, "stop", "stop-1"))
        await self._say("stop", "stop-2", "/stop")
        await self._until(lambda tx: self._ended(tx, "stop", "stop-1"))
        await self._say("stop", "stop-3", "choose a colour, stop-3")

    async def _answer_for_ever(self) -> None:
        """Answers what was seen and not acknowledged, whoever ran when it was seen."""
        await self._remember()
        while True:
            for posted in self._channel.sent:
                self._see(posted.part.data, posted.ref.address.place, posted.text)
            for seen in list(self._asks.values()):
                await self._answer(seen["saw"], seen["hash"], seen["place"])
            await anyio.sleep(LOOK_EVERY_S)

    async def _remember(self) -> None:
        """What stood on the screen before a restart still stands there, and can still be answered."""
        asked = {line["turn_id"]: line for line in self._seen.read() if line["kind"] == "ask"}
        for place in ("approve", "stop", "agent"):
            id = conversation_id(self._channel.address(place))
            for row in await self._store.read(lambda tx, id=id: tx.asks.open_in(id)):
                data = {"ask_id": row.ask.id, "payload_hash": row.ask.payload_hash}
                if row.turn_id in asked:
                    self._see(data, place, asked[row.turn_id]["text"])

    def _see(self, data: dict[str, Any], place: str, text: str) -> None:
        if "ask_id" in data and data["ask_id"] not in self._asks:
            line = {"saw": data["ask_id"], "hash": data["payload_hash"], "place": place, "text": text}
            self._journal.add(line)
            self._asks[data["ask_id"]] = line

    async def _answer(self, ask_id: str, payload_hash: str, place: str) -> None:
        if place in ("stop", "agent"):
            if not await self._store.read(lambda tx: self._is_first_sent(tx, place)):
                await self._say(place, f"reply-{ask_id}", f"blue reply-{ask_id}")
            return
        ask = Ask(AskId(ask_id), "approval", "", payload_hash=payload_hash)
        reason = "" if self._verdict == "allow" else "not today"
        await self._once(f"answer-{ask_id}", lambda: self._channel.answer(ask, self._verdict, text=reason))

    async def _say(self, place: str, native_id: str, text: str) -> None:
        await self._once(
            native_id, lambda: self._channel.say(text, place, native_id=native_id), place=place, text=text
        )

    async def _once(self, name: str, deed: Callable[[], Any], **known: str) -> None:
        if name in self._acked:
            return
        await deed()
        self._acked.add(name)
        self._journal.add({"acked": name, **known})
        self._on_ack()

    def _add_schedule(self, tx: Tx) -> None:
        if tx.schedules.get(SCHEDULE) is not None:
            return
        address, now = self._channel.address("tool"), self._clock.now()
        place = tx.conversations.ensure(Conversation(conversation_id(address), address, now, private=True))
        at = now + SCHEDULED_AFTER_S
        tx.schedules.save(Schedule(SCHEDULE, place.id, At(at), "the nightly round, task-1", next_at=at))

    def _ask_agent(self, tx: Tx) -> None:
        """The agent of the first turn asks another, as by its tool: the answer comes back to its session."""
        row = tx.inbox.by_key(f"{conversation_id(self._channel.address('tool'))}|tool-1")
        turn = tx.turns.get(row.turn_id) if row is not None and row.turn_id is not None else None
        session = tx.sessions.get(turn.session_id) if turn is not None else None
        assert turn is not None and session is not None, "it has ended"
        chain = Chain(turn.id, 1, heading="one agent asks another", asker=turn.id, agent="library")
        request = Request(EXCHANGE, chain, "shop", session.workspace, "Look it up, exchange-1")
        put_request(tx, new_id, request, "engine:script", self._clock.now())

    def _is_first_sent(self, tx: Tx, place: str) -> bool:
        """An ask is being sent there for the first time: words that come now count as older than the ask."""
        rows = tx.outbox.unfinished(conversation_id(self._channel.address(place)))
        return any(row.kind == "ask" and row.status == "claimed" and row.attempts == 1 for row in rows)

    def _begun(self, tx: Tx, place: str, native_id: str) -> bool:
        row = tx.inbox.by_key(f"{conversation_id(self._channel.address(place))}|{native_id}")
        return row is not None and row.status != "queued"

    def _ended(self, tx: Tx, place: str, native_id: str) -> bool:
        row = tx.inbox.by_key(f"{conversation_id(self._channel.address(place))}|{native_id}")
        return row is not None and row.status in ("done", "failed", "withdrawn")

    def _quiet(self, tx: Tx, place: str) -> bool:
        """Nothing waits there, and no question is open: words that are typed would join the one or answer the other."""
        id = conversation_id(self._channel.address(place))
        return not tx.inbox.unfinished(id) and not tx.asks.open_in(id)

    async def _until(self, holds: Callable[[Tx], bool]) -> None:
        while not await self._store.read(holds):
            await anyio.sleep(LOOK_EVERY_S)


def settled(tx: Tx) -> bool:
    """Nothing is left to run, to answer, to send or to fire."""
    schedule = tx.schedules.get(SCHEDULE)
    if schedule is None or schedule.next_at is not None or tx.turns.of(statuses=UNFINISHED):
        return False
    if tx.schedules.open_runs():
        return False
    return not any(
        tx.inbox.unfinished(place.id) or tx.outbox.unfinished(place.id) or tx.asks.open_in(place.id)
        for place in tx.conversations.list()
    )
