"""Reserve, settle, crash, stop and raise in any order, on real SQLite: no cap is ever passed, and no cent is lost."""

from __future__ import annotations

from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pilothouse.core.budget import Caps, Scope, day_of
from pilothouse.core.conversation import Session
from pilothouse.core.event import SessionStarted, UsageChanged
from pilothouse.core.ids import ConversationId, EngineId, SessionId, TurnId
from pilothouse.core.outcome import Usage
from pilothouse.core.turn import ENDED, Prompt, Turn
from pilothouse.runtime.budget.ledger import reserve, settle, settle_lost
from pilothouse.runtime.ports import new_id
from pilothouse.runtime.settings import Settings
from pilothouse.stores.sqlite.blobs import BlobFiles
from pilothouse.stores.sqlite.link import Link, connect
from pilothouse.stores.sqlite.migrate import load_migrations, migrate
from pilothouse.stores.sqlite.tx import SqliteTx
from pilothouse.testing.store_builders import conversation, node

ENGINE, NOW = EngineId("puppet"), 1_800_000_000.0
PLACES = [ConversationId(f"memory:{n}") for n in range(3)]
FOLDERS = ["/a", "/b"]
CAPS = Caps(all_usd=3.0, workspace_usd=2.0, conversation_usd=1.5, least_usd=0.25)
SETTINGS = Settings(ENGINE, "/a", caps=CAPS)
TODAY = day_of(NOW, SETTINGS.zone)
SCOPES = [scope for folder in FOLDERS for place in PLACES for scope, _ in CAPS.of(folder, place)]

share = st.none() | st.floats(0, 1)
op = st.one_of(
    st.tuples(st.just("start"), st.sampled_from(PLACES), st.sampled_from(FOLDERS)),
    st.tuples(st.sampled_from(["settle", "lose"]), st.integers(0, 9), share),
    st.tuples(st.just("raise"), st.sampled_from(SCOPES), st.floats(0, 1)),
)


class Till:
    """The real tables, and beside them what they must come to."""

    def __init__(self, tx: SqliteTx) -> None:
        self.tx = tx
        self.numbers = count(1)
        self.live: list[tuple[Turn, float, float]] = []
        self.told = self.assumed = 0.0
        self.turns = self.untold = 0

    def start(self, place: ConversationId, folder: str) -> None:
        number = next(self.numbers)
        session = Session(SessionId(f"s{number}"), place, ENGINE, folder, NOW, NOW)
        turn = Turn(
            TurnId(f"t{number}"),
            session.id,
            place,
            ENGINE,
            "running",
            "message",
            Prompt("go"),
            NOW,
            started_at=NOW,
        )
        self.tx.sessions.add(session)
        self.tx.turns.add(turn)
        reserved = reserve(self.tx, SETTINGS, turn, session, NOW)
        assert reserved is not None
        if reserved.short is None:
            self.live.append((turn, reserved.amount_usd, reserved.share_usd))
        else:
            assert self.tx.spending.get(turn.id) is None, "what does not fit takes nothing"
            self.tx.turns.move(turn.id, "failed")

    def end(self, kind: str, index: int, part: float | None) -> None:
        if not self.live:
            return
        turn, amount, share = self.live.pop(index % len(self.live))
        cost = None if part is None else share * part
        if kind == "settle":
            settle(self.tx, new_id, SETTINGS, turn, cost, NOW, ran=True)
        else:
            usage = [] if cost is None else [UsageChanged(Usage(cost_usd=cost))]
            self.tx.events.append(turn.conversation_id, turn.id, [SessionStarted(), *usage], NOW)
            settle_lost(self.tx, new_id, SETTINGS, turn, NOW, ended=True)
        self.tx.turns.move(turn.id, "failed")
        self.turns += 1
        self.untold += cost is None
        self.told += cost or 0.0
        self.assumed += amount if cost is None else 0.0

    def raise_cap(self, scope: Scope, more: float) -> None:
        known = self.tx.spending.cap_day(scope, TODAY)
        self.tx.spending.save_cap_day(msgspec.structs.replace(known, raised_usd=known.raised_usd + more))

    def check(self) -> None:
        for folder in FOLDERS:
            for place in PLACES:
                for scope, cap in CAPS.of(folder, place):
                    now = self.tx.spending.cap_status(scope, TODAY, cap)
                    assert now.left_usd >= -1e-6, now
        everything = self.tx.spending.cap_status(Scope("all"), TODAY, 3.0)
        assert everything.spent_usd == pytest.approx(self.told)
        assert everything.assumed_usd == pytest.approx(self.assumed)
        assert everything.reserved_usd == pytest.approx(sum(share for _, _, share in self.live))
        rows = self.tx.spending.of()
        assert sum(row.turns for row in rows) == self.turns
        assert sum(row.untold for row in rows) == self.untold
        for turn in self.tx.turns.of(statuses=tuple(ENDED), limit=1000):
            assert self.tx.spending.get(turn.id) is None


@given(st.lists(op, max_size=40))
@settings(max_examples=60, deadline=None)
def test_whatever_happens_no_cap_is_passed_and_every_cent_is_found_again(ops: list[tuple[Any, ...]]) -> None:
    with closing(connect(Path(":memory:"), 1.0)) as db:
        migrate(db, Path(":memory:"), load_migrations())
        tx = SqliteTx(Link(db), BlobFiles(Path("/nonexistent")))
        tx.nodes.join(node(), (), 1e10)
        for place in PLACES:
            tx.conversations.ensure(conversation(place))
        till = Till(tx)
        for kind, *terms in ops:
            match kind, terms:
                case "start", [place, folder]:
                    till.start(place, folder)
                case "raise", [Scope() as scope, more]:
                    till.raise_cap(scope, more)
                case _, [index, part]:
                    till.end(kind, index, part)
            till.check()


def test_what_an_engine_began_by_itself_is_taken_in_even_where_nothing_is_left() -> None:
    """It spends already: to hold it would lose its words and let others spend the same money."""
    with closing(connect(Path(":memory:"), 1.0)) as db:
        migrate(db, Path(":memory:"), load_migrations())
        tx = SqliteTx(Link(db), BlobFiles(Path("/nonexistent")))
        tx.nodes.join(node(), (), 1e10)
        tx.conversations.ensure(conversation(PLACES[0]))
        session = Session(SessionId("s"), PLACES[0], ENGINE, "/a", NOW, NOW)
        turn = Turn(TurnId("t"), session.id, PLACES[0], ENGINE, "running", "wake", Prompt(""), NOW)
        poor = msgspec.structs.replace(SETTINGS, caps=Caps(all_usd=0.1, least_usd=0.25))
        reserved = reserve(tx, poor, turn, session, NOW)
        assert reserved is not None and reserved.short is None and reserved.share_usd == 0.25
        assert tx.spending.cap_status(Scope("all"), TODAY, 0.1).left_usd < 0
        other = msgspec.structs.replace(turn, id=TurnId("other"), cause="message")
        held = reserve(tx, poor, other, session, NOW)
        assert held is not None and held.short is not None
