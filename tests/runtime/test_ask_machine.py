"""Random histories of asks, answers, votes, expiry, crashes, revocations: nothing runs without the yes that it needs.

The real store, the real rules, and an engine that only remembers what it was told. The model beside them is a few
dictionaries and rules written out once more; whenever the engine hears "allow", the model must be able to name the one
ask, of exactly that payload, that the needed people allowed, and it may be named only once.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct
from tests.new_store import put_new_store

from pilothouse.core.ask import Ask, Decision, Verdict
from pilothouse.core.call import Call
from pilothouse.core.conversation import Conversation
from pilothouse.core.engine import EngineSession
from pilothouse.core.event import TurnEnded
from pilothouse.core.ids import AskId, ChannelId, ConversationId, EngineId, Epoch, MessageId, TurnId, UserId
from pilothouse.core.message import Address, Author, InboundMessage
from pilothouse.core.people import Approvers, Grant, Role
from pilothouse.core.policy import ToolClass
from pilothouse.core.store import NodeInfo, Store, Tx
from pilothouse.engines.claude.calls import call_of
from pilothouse.runtime.asks.answers import AnswerService
from pilothouse.runtime.asks.settle import expire, supersede_lost
from pilothouse.runtime.gateway import TOPICS
from pilothouse.runtime.ports import Ports
from pilothouse.runtime.settings import Settings
from pilothouse.runtime.turns.asks import TurnAsks
from pilothouse.runtime.turns.finish import Ending, finish
from pilothouse.runtime.turns.record import Recorder
from pilothouse.runtime.turns.recover import recover
from pilothouse.runtime.turns.start import Started, start_again, start_from_inbox
from pilothouse.stores.sqlite import STORE
from pilothouse.testing.clock import FakeClock

T = TypeVar("T")

PLACE = ConversationId("memory:main")
ADDRESS = Address(ChannelId("memory"), "main")
ASKER = UserId("memory:asker")
PEOPLE = (ASKER, UserId("memory:b"), UserId("memory:c"), UserId("memory:d"))
ROLES: tuple[Role, ...] = ("stranger", "member", "admin", "owner")
TWO = Approvers(("admin",), exclude_requester=True, quorum=2)
PAYLOADS: dict[str, dict[str, Any]] = {
    "make": {"tool": "Bash", "input": {"command": "make"}},
    "wipe": {"tool": "Bash", "input": {"command": "rm -rf x"}},
    "wipe y": {"tool": "Bash", "input": {"command": "rm -rf y"}},
}
TIMEOUT_S = 100.0


def class_of(call: Call | None, workspace: str) -> ToolClass:
    return "destructive" if "rm" in str(call) else "ordinary"


class Model:
    """What the model knows of one ask."""

    def __init__(self, ask: Ask, name: str, expires_at: float) -> None:
        self.ask, self.name, self.expires_at = ask, name, expires_at
        self.state = "open"
        self.yes: set[UserId] = set()
        self.allowed = False
        self.heard = False

    @property
    def needed(self) -> int:
        return 1 if self.name == "make" else 2


class Press(Struct, frozen=True):
    """Somebody presses a button: mostly on what is open, now and then on anything that ever was."""

    user: UserId
    verdict: Verdict
    which: int
    any_ask: bool
    forged: bool


class Asks(Struct, frozen=True):
    """The engine wants to run it."""

    name: str


class Gives(Struct, frozen=True):
    """Somebody gets a role, or loses all."""

    user: UserId
    role: Role


class Waits(Struct, frozen=True):
    seconds: float
    noticed: bool
    """Whether the expiry of what was open is noticed afterwards."""


Step = Press | Asks | Gives | Waits | str

presses = st.builds(
    Press,
    st.sampled_from(PEOPLE),
    st.sampled_from(("allow",) * 5 + ("deny",)),
    st.sampled_from((0, 0, 0, 1, 2)),
    st.integers(0, 7).map(lambda n: n == 7),
    st.integers(0, 9).map(lambda n: n == 9),
)


class Engine:
    """Remembers what it was told, under which of its own ids."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Decision]] = []

    def run(self, prompt: object) -> Any:
        raise AssertionError("nobody reads it here")

    async def answer(self, ask_id: AskId, decision: Decision) -> None:
        self.told.append((ask_id, decision))


def _join(tx: Tx) -> Epoch:
    return tx.nodes.join(NodeInfo("node", "here", 1, ""), ("channels",), 1e12)


class World:
    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.runner = asyncio.Runner()
        self.stack = AsyncExitStack()
        self.clock = FakeClock()
        self.numbers = count(1)
        self.roles: dict[UserId, Role] = dict.fromkeys(PEOPLE, "stranger")
        self.models: dict[AskId, Model] = {}
        self.asked_as: dict[str, tuple[str, AskId | None]] = {}
        """The engine's id of an ask -> which payload, and which of our asks it became in this run, if it did."""
        self.started: Started | None = None
        self.stop_wanted = False

    # What holds it together.

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    def write(self, unit: Callable[[Tx], T]) -> T:
        return self.run(self.store.write(unit))

    async def _open(self) -> None:
        opened = STORE.open(STORE.config(path=str(put_new_store(self.folder / "p.db"))))
        self.store: Store = await self.stack.enter_async_context(opened)
        self.epoch = await self.store.write(_join)
        chosen = Settings(
            EngineId("puppet"),
            str(self.folder),
            approvals={"ordinary": Approvers(), "destructive": TWO},
            ask_timeout_s=TIMEOUT_S,
        )
        self.ports = Ports(
            topics=TOPICS,
            store=self.store,
            clock=self.clock,
            ids=lambda prefix: f"{prefix}-{next(self.numbers):06}",
            settings=lambda: chosen,
            engines={},
            channels={},
            tool_class=class_of,
        )

    def begin(self) -> None:
        self.run(self._open())
        self.write(lambda tx: tx.conversations.ensure(Conversation(PLACE, ADDRESS, 1.0, private=True)))
        self.give(ASKER, "member")
        self.give(PEOPLE[1], "admin")
        self.give(PEOPLE[2], "admin")
        self.give(PEOPLE[3], "owner")
        self.new_turn()

    def close(self) -> None:
        self.run(self.stack.aclose())
        self.runner.close()
        shutil.rmtree(self.folder)

    # What people and the machine do.

    def do(self, step: Step) -> None:
        match step:
            case Press():
                self.answer(step)
            case Asks(name=name):
                self.ask(name)
            case Gives(user=user, role=role):
                self.give(user, role)
            case Waits(seconds=seconds, noticed=noticed):
                self.wait(seconds, noticed=noticed)
            case "look":
                self.look()
            case "end":
                self.end_turn()
            case _:
                self.kill()

    def give(self, user: UserId, role: Role) -> None:
        if role == "stranger":
            self.write(lambda tx: tx.people.revoke(user))
        else:
            self.write(lambda tx: tx.people.grant(Grant(user, role)))
        self.roles[user] = role

    def new_turn(self) -> None:
        """Somebody goes on without answering, or the turn of an answer begins."""
        queued: list[TurnId] = [t.id for t in self.write(lambda tx: tx.turns.startable(limit=5))]
        if queued:
            turn = self.write(lambda tx: tx.turns.get(queued[0]))
            assert turn is not None
            self._start(
                self.write(
                    lambda tx: start_again(tx, self.ports.ids, self.ports.settings(), turn, self.clock.now())
                )
            )
            return
        author, key = Author(ASKER, "Asker"), f"m{next(self.numbers)}"
        body = msgspec.json.encode(InboundMessage(ADDRESS, author, key, "go"))
        at = self.clock.now()

        def unit(tx: Tx) -> Started | None:
            tx.inbox.put(id=MessageId(key), key=key, conversation_id=PLACE, kind="chat", body=body, at=at)
            if self.roles[ASKER] != "stranger":  # intake refuses a stranger's message
                place = tx.conversations.get(PLACE)
                supersede_lost(tx, self.ports.ids, [place.session_id if place else None], at)
            return start_from_inbox(tx, self.ports.ids, self.ports.settings(), PLACE, at)

        started = self.write(unit)
        if self.roles[ASKER] == "stranger":
            assert started is None, "whoever was revoked starts nothing"
            return
        for model in self.models.values():
            if model.state == "open":
                model.state = "superseded"
        self._start(started)

    def _start(self, started: Started | None) -> None:
        assert started is not None
        self.started = started
        self.engine, self.stop_wanted = Engine(), False
        self.asks = TurnAsks(self.ports, started, Recorder(self.ports, started), self._interrupt)
        self.asked_as = {}

    async def _interrupt(self) -> None:
        self.stop_wanted = True

    def ask(self, name: str) -> None:
        if self.stop_wanted and self.started is not None:
            self.end_turn()
        if self.started is None:
            self.new_turn()
        if self.started is not None:
            self.engine_asks(name)

    def engine_asks(self, name: str) -> None:
        key, payload = f"e{next(self.numbers)}", PAYLOADS[name]
        before = set(self.models)
        self.asked_as[key] = (name, None)
        session: EngineSession = self.engine
        self.run(
            self.asks.asked(
                session, Ask(AskId(key), "approval", f"Run {name}?", payload, call=call_of(payload))
            )
        )
        rows = self.write(lambda tx: tx.asks.open_in(PLACE))
        fresh = [row for row in rows if row.ask.id not in before]
        if fresh:
            (row,) = fresh
            for model in self.models.values():
                old = model.state == "open" and model.name == name and model.ask.id not in self._mine()
                if old:
                    model.state = "superseded"
            self.models[row.ask.id] = Model(row.ask, name, row.ask.expires_at or 0.0)
            self.asked_as[key] = (name, row.ask.id)
        self._check_told()

    def _mine(self) -> set[AskId | None]:
        return {id for _, id in self.asked_as.values()}

    def answer(self, press: Press) -> None:
        if not self.models:
            return
        user, verdict, forged = press.user, press.verdict, press.forged
        known = sorted(self.models)
        is_open = [id for id in known if self.models[id].state == "open"]
        model = self.models[
            (known if press.any_ask else is_open or known)[press.which % len(is_open or known)]
        ]
        digest = "0" * 64 if forged else model.ask.payload_hash
        decision = Decision(verdict, text="because" if verdict == "deny" else "")
        answered = self.run(
            AnswerService(self.ports).answer(model.ask.id, digest, decision, Author(user, user))
        )
        in_time = model.state == "open" and self.clock.now() < model.expires_at
        may = self._may_allow(model, user) if verdict == "allow" else self._may_deny(model, user)
        votes = {who for who in model.yes if self._may_allow(model, who)}
        expected = in_time and not forged and may and not (verdict == "allow" and user in votes)
        assert answered.accepted is expected, answered.text
        if not (in_time and not forged and may):
            return
        if verdict == "deny":
            model.state = "answered"
            return
        model.yes = votes | {user}
        if len(model.yes) >= model.needed:
            model.state, model.allowed = "answered", True

    def _may_allow(self, model: Model, user: UserId) -> bool:
        """The rules, written out once more."""
        role = self.roles[user]
        if model.name == "make":
            return role in ("admin", "owner") or (user == ASKER and role == "member")
        return role in ("admin", "owner") and user != ASKER

    def _may_deny(self, model: Model, user: UserId) -> bool:
        return self._may_allow(model, user) or (user == ASKER and self.roles[user] != "stranger")

    def wait(self, seconds: float, *, noticed: bool) -> None:
        self.run(self.clock.advance(seconds))
        if noticed:
            self.notice_expiry()

    def notice_expiry(self) -> None:
        now = self.clock.now()

        def unit(tx: Tx) -> None:
            for row in tx.asks.expired(now, limit=1000):
                expire(tx, self.ports.ids, self.ports.topics, row, now)

        self.write(unit)
        for model in self.models.values():
            if model.state == "open" and model.expires_at <= now:
                model.state = "expired"

    def look(self) -> None:
        """As the watch of a running turn does."""
        if self.started is None:
            return
        session: EngineSession = self.engine
        for row in self.run(self.store.read(self.asks.settled_in)):
            self.run(self.asks.settle(session, row))
        self._check_told()
        due = {id for _, id in self.asked_as.values() if id and self.models[id].allowed}
        assert all(self.models[id].heard for id in due), "what was allowed is heard"

    def end_turn(self) -> None:
        if self.started is None:
            return
        ending = Ending(self.started.turn.id, TurnEnded("cancelled" if self.stop_wanted else "completed"))
        self.write(lambda tx: finish(tx, self.ports.ids, self.ports.settings(), ending, self.clock.now()))
        for id in self._mine():
            if id and self.models[id].state == "open":
                self.models[id].state = "withdrawn"
        self.started = None

    def kill(self) -> None:
        """`kill -9`, and the next gateway takes over."""
        old = self.epoch
        self.run(self.stack.aclose())
        self.stack = AsyncExitStack()
        self.run(self._open())
        self.write(lambda tx: recover(tx, self.ports.ids, self.ports.settings(), old, self.clock.now()))
        self._withdrawn_by_recovery()
        self.started = None
        self.asked_as.clear()

    def _withdrawn_by_recovery(self) -> None:
        """A turn that had begun, or that was tried twice, is not run again; what it asked and nobody answered lapses."""
        for id, model in self.models.items():
            row = self.write(lambda tx, id=id: tx.asks.get(id))
            assert row is not None
            if model.state == "open" and row.state == "withdrawn":
                model.state = "withdrawn"
            assert row.state == model.state

    # What must hold.

    def _check_told(self) -> None:
        for key, decision in self.engine.told:
            if decision.verdict == "allow":
                self._justify(*self.asked_as[key])
        self.engine.told.clear()

    def _justify(self, name: str, id: AskId | None) -> None:
        if id is not None:
            model = self.models[id]
            assert model.name == name and model.allowed and not model.heard, "it ran without its yes"
            model.heard = True
            return
        stored = [
            model
            for model in self.models.values()
            if model.name == name
            and model.allowed
            and not model.heard
            and sum(self._may_allow(model, who) for who in model.yes) >= model.needed
        ]
        assert stored, f"{name} ran after a restart, and nobody who may had allowed it"
        stored[0].heard = True


trouble = st.one_of(
    st.builds(Gives, st.sampled_from(PEOPLE), st.sampled_from(ROLES)),
    st.builds(Waits, st.sampled_from((1.0, 60.0, TIMEOUT_S)), st.booleans()),
    st.sampled_from(("kill", "look")),
)
scenes = st.tuples(
    st.lists(st.builds(Asks, st.sampled_from(("make", "wipe", "wipe y"))), min_size=1, max_size=2),
    st.lists(st.one_of(presses, presses, presses, trouble), min_size=3, max_size=9),
    st.sampled_from((["look"], ["look", "end"], ["kill"], ["end"])),
).map(lambda parts: [step for part in parts for step in part])


@settings(max_examples=30, deadline=None)
@given(st.lists(scenes, min_size=3, max_size=10))
def test_nothing_runs_without_the_yes_that_it_needs(history: list[list[Step]]) -> None:
    world = World()
    try:
        world.begin()
        for scene in history:
            for step in scene:
                world.do(step)
    finally:
        world.close()
