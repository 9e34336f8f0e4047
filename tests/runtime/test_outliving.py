"""Random histories around asks that outlive their turns: the store and the rule agree, and only people close an ask."""

from __future__ import annotations

import asyncio
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from tests.new_store import put_new_store
from tests.runtime.rig import settings_for

from pilothouse.channels.memory import PERSON
from pilothouse.core.ids import AskId, TurnId
from pilothouse.core.message import InboundMessage, MessageKind
from pilothouse.core.store import Tx
from pilothouse.runtime.conversations.pending import past_ask
from pilothouse.runtime.settings import Settings
from pilothouse.runtime.turns.start import start_from_inbox
from pilothouse.stores.sqlite import STORE
from pilothouse.testing.store_builders import (
    C1,
    S1,
    add_places,
    ask_row,
    conversation,
    join,
    put,
    session,
    turn,
)

_decode = msgspec.json.Decoder(InboundMessage).decode


class Comes(Struct, frozen=True):
    kind: MessageKind
    alone: bool
    ready_in_s: float


Step = Comes | str

comings = st.builds(
    Comes,
    st.sampled_from(("chat", "reaction", "task", "wake")),
    st.booleans(),
    st.sampled_from((0.0, 0.0, 2.0)),
)
steps = st.one_of(comings, comings, st.sampled_from(("lose", "lose", "settle", "wait", "begin", "begin")))


class World:
    def __init__(self, tx: Tx, settings: Settings) -> None:
        self.tx = tx
        self.settings = settings
        self.numbers = count(1)
        self.now = 10.0
        add_places(tx)
        tx.sessions.add(session(S1))
        tx.conversations.save(conversation(C1, session_id=S1))

    def do(self, step: Step) -> None:
        match step:
            case Comes():
                self.come(step)
            case "lose":
                self.lose()
            case "settle":
                for id in self.open_asks()[:1]:
                    self.tx.asks.move(id, "expired", at=self.now)
            case "wait":
                self.now += 1.0
            case _:
                self.begin()
        assert self.is_offered() == bool(self.would_begin())

    def come(self, step: Comes) -> None:
        id, place = f"m{next(self.numbers)}", conversation(C1)
        session_id = S1 if step.kind == "wake" else None
        message = InboundMessage(
            place.address, PERSON, id, "hello", step.kind, session_id=session_id, alone=step.alone
        )
        body, ready_at = msgspec.json.encode(message), self.now + step.ready_in_s
        put(self.tx.inbox, id, kind=step.kind, body=body, at=self.now, ready_at=ready_at)

    def lose(self) -> None:
        id = f"t{next(self.numbers)}"
        self.tx.turns.add(turn(id, "waiting"))
        self.tx.asks.add(ask_row(f"ask of {id}", turn_id=TurnId(id)))
        self.tx.turns.move(TurnId(id), "failed", ended_at=self.now)

    def begin(self) -> None:
        """As dispatch does; the turn ends at once."""
        offered, open_before = self.is_offered(), self.open_asks()
        started = start_from_inbox(
            self.tx, lambda prefix: f"{prefix}-{next(self.numbers)}", self.settings, C1, self.now
        )
        assert (started is not None) == offered
        if started is None:
            return
        rows = self.tx.inbox.of_turn(started.turn.id)
        goes_on = any(_decode(row.body).goes_on for row in rows)
        assert self.open_asks() == ([] if goes_on else open_before)
        self.tx.turns.move(started.turn.id, "done", ended_at=self.now)
        for row in rows:
            self.tx.inbox.done(row.id, self.now)

    def is_offered(self) -> bool:
        return self.tx.inbox.startable(self.now, engines=None, limit=9) == [C1]

    def would_begin(self) -> list[str]:
        place = self.tx.conversations.get(C1)
        assert place is not None
        return [row.id for row in past_ask(self.tx, place, ready_by=self.now)]

    def open_asks(self) -> list[AskId]:
        return [row.ask.id for row in self.tx.asks.open_in(C1)]


@given(st.lists(steps, max_size=25))
def test_what_is_offered_begins_and_only_who_goes_on_closes_an_ask(history: list[Step]) -> None:
    async def run(folder: Path) -> None:
        def play(tx: Tx) -> None:
            world = World(tx, settings_for(folder))
            for step in history:
                world.do(step)

        async with STORE.open(STORE.config(path=str(put_new_store(folder / "p.db")))) as store:
            await join(store)
            await store.write(play)

    with TemporaryDirectory() as folder:
        asyncio.run(run(Path(folder)))
