"""A gateway on a real SQLite file, with a puppet for an engine and memory for a channel."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import anyio
import msgspec
from tests.new_store import put_new_store
from tests.runtime.puppet import PUPPET, PuppetEngine

from pilothouse.channels.memory import MEMORY, PERSON, MemoryChannel
from pilothouse.core.ask import Ask, AskRow
from pilothouse.core.ask_view import headline
from pilothouse.core.audit import AuditRow
from pilothouse.core.channel import Channel, Receipt
from pilothouse.core.clock import Clock
from pilothouse.core.engine import Engine, EngineStatus
from pilothouse.core.errors import StoreUnavailable
from pilothouse.core.ids import ChannelId, ConversationId, EngineId, Epoch, UserId
from pilothouse.core.message import Author, InboundMessage, conversation_id
from pilothouse.core.people import People
from pilothouse.core.policy import AskAlways, Classify, Policy
from pilothouse.core.queue import QueueRow
from pilothouse.core.store import NodeInfo, Store, Tx
from pilothouse.core.turn import Turn
from pilothouse.engines.claude.calls import call_of
from pilothouse.policy.decide import PolicyEnv, tool_class
from pilothouse.runtime.engine_report import EngineReport
from pilothouse.runtime.gateway import TOPICS, Gateway
from pilothouse.runtime.ports import NoTools, Ports, SystemClock, ToolServer, control_of, new_id
from pilothouse.runtime.settings import Settings
from pilothouse.stores.sqlite import STORE
from pilothouse.testing.clock import FakeClock

T = TypeVar("T")

MAIN = ConversationId("memory:main")
MEMBER = Author(UserId("memory:member"), "Member")
ADMIN = Author(UserId("memory:admin"), "Admin")
SECOND = Author(UserId("memory:second"), "Second")
"""Another admin: two of them are a quorum."""
STRANGER = Author(UserId("memory:stranger"), "Stranger")


def settings_for(folder: Path, **changes: Any) -> Settings:
    base = Settings(
        PUPPET,
        str(folder),
        engine_names={"puppet": PUPPET},
        people=People({PERSON.id: "owner", MEMBER.id: "member", ADMIN.id: "admin", SECOND.id: "admin"}),
        retry_first_s=0.01,
        outage_pauses_s=(0.01, 0.02),
        grace_s=0.5,
        stop_grace_s=0.5,
        first_view_s=0.05,
        edit_every_s=0.05,
        poll_s=0.2,
        known_channels=(MEMORY, ChannelId("terminal")),
    )
    return msgspec.structs.replace(base, **changes)


def only_alive(name: str) -> Callable[[NodeInfo], bool]:
    """Of all processes, only the one of this name lives."""
    return lambda info: info.name == name


class FaultyStore:
    """A store whose disk is full, read-only or locked for as long as `trouble` says so."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.epoch: Epoch | None = store.epoch
        self.trouble = ""
        self.refused = 0
        self.reads = 0

    async def write(self, unit: Callable[[Tx], T]) -> T:
        if self.trouble:
            self.refused += 1
            raise StoreUnavailable(self.trouble)
        result = await self._store.write(unit)
        self.epoch = self._store.epoch
        return result

    async def read(self, unit: Callable[[Tx], T]) -> T:
        self.reads += 1
        return await self._store.read(unit)

    def changes(self, *, of_others: bool = False) -> AsyncIterator[None]:
        return self._store.changes(of_others=of_others)

    async def close(self) -> None:
        await self._store.close()


class Rig:
    def __init__(
        self,
        ports: Ports,
        store: FaultyStore,
        gateway: Gateway,
        engine: PuppetEngine,
        channel: MemoryChannel,
    ) -> None:
        self.ports = ports
        self.store = store
        self.gateway = gateway
        self.engine = engine
        self.channel = channel
        self.logged: list[tuple[str, dict[str, object]]] = []
        self.error: BaseException | None = None
        self.over = anyio.Event()
        self.crashed = False

    def crash(self) -> None:
        """From now on nothing is written and nobody says goodbye: the rest of the test sees what was durable."""
        self.crashed = True
        self.store.trouble = "the process is dead"

    def poke(self, conversation: ConversationId = MAIN) -> None:
        """Spares the wait for a poll: everybody looks again."""
        self.ports.signals.poke(control_of(conversation))
        self.ports.signals.poke_all()

    async def turns(self, conversation: ConversationId = MAIN) -> list[Turn]:
        """Oldest first."""
        return (await self.store.read(lambda tx: tx.turns.of(conversation)))[::-1]

    async def until(self, holds: Callable[[Tx], Any], deadline_s: float = 60) -> Any:
        """What `holds` returns, once it is true."""
        with anyio.fail_after(deadline_s):
            while True:
                if found := await self.store.read(holds):
                    return found
                await anyio.sleep(0.01)

    async def until_true(self, holds: Callable[[], Any], deadline_s: float = 60) -> Any:
        return await self.until(lambda _tx: holds(), deadline_s)

    async def until_live(
        self, conversation: ConversationId = MAIN, status: str = "", *, begun: bool = True
    ) -> Turn:
        """The live turn, once its engine plays it: a stop before that would spare the play."""

        def live(tx: Tx) -> Turn | None:
            turn = tx.turns.live_in(conversation)
            if turn is None or status not in ("", turn.status):
                return None
            return turn if self._plays(turn) or not begun else None

        return await self.until(live)

    def _plays(self, turn: Turn) -> bool:
        engine = self.ports.engines.get(turn.engine)
        return not isinstance(engine, PuppetEngine) or any(
            strings.brief.turn_id == turn.id for strings in engine.turns
        )

    async def until_ended(self, count: int = 1, conversation: ConversationId = MAIN) -> list[Turn]:
        ended = ("done", "failed", "cancelled")
        await self.until(lambda tx: len(tx.turns.of(conversation, statuses=ended)) >= count)
        return await self.turns(conversation)

    async def until_asked(self, title: str = "", conversation: ConversationId = MAIN) -> Ask:
        """The newest open ask, once it stands in the conversation."""

        def asked(tx: Tx) -> list[AskRow]:
            return [row for row in tx.asks.open_in(conversation) if title in row.ask.title]

        row: AskRow = (await self.until(asked))[-1]
        await self.until_said(headline(row.ask))
        await self.until_delivered(conversation)
        return row.ask

    async def until_delivered(self, place: ConversationId | None = None) -> None:
        """The store knows that the asks stand there, or everywhere: a typed word answers nothing before that."""

        def delivered(tx: Tx) -> bool:
            places = [place] if place else [known.id for known in tx.conversations.list()]
            return all(row.kind != "ask" for id in places for row in tx.outbox.unfinished(id))

        await self.until(delivered)

    async def until_said(self, text: str, deadline_s: float = 60) -> str:
        with anyio.fail_after(deadline_s):
            while True:
                for posted in self.channel.sent:
                    if text in posted.text and not posted.deleted:
                        if posted.part.data.get("kind") == "ask":
                            await self.until_delivered(conversation_id(posted.ref.address))
                        return posted.text
                await anyio.sleep(0.01)

    async def audited(self, prefix: str = "") -> list[str]:
        """What the audit log tells, oldest first."""
        rows = await self.store.read(lambda tx: tx.audit.list(limit=1000))
        return [row.what for row in reversed(rows) if row.what.startswith(prefix)]

    async def audited_by(self, who: Author, *whats: str) -> list[AuditRow]:
        """All that somebody did, oldest first, once the log tells these of it."""

        def told(tx: Tx) -> list[AuditRow] | None:
            rows = [row for row in reversed(tx.audit.list(limit=1000)) if row.who == who.id]
            return rows if set(whats) <= {row.what for row in rows} else None

        return await self.until(told)

    async def inbox_row(self, receipt: Receipt) -> QueueRow:
        """What the store says of an accepted message now."""
        id = receipt.message_id
        row = await self.store.read(lambda tx: tx.inbox.get(id) if id is not None else None)
        assert row is not None
        return row

    async def until_idle(self) -> None:
        """Everything that was accepted has ended, and everything that was said has been sent or has failed."""
        busy = ("queued", "running", "waiting", "lost")

        def idle(tx: Tx) -> bool:
            waiting = tx.inbox.startable(
                self.ports.clock.now(), engines=None, limit=1
            )  # no turn has them yet
            return not waiting and not tx.turns.of(statuses=busy) and not tx.outbox.channels_waiting()

        await self.until(idle)

    async def ask_alone(self, text: str) -> Receipt:
        """As one question from a command line."""
        message = InboundMessage(self.channel.address(), PERSON, text, text, private=True, alone=True)
        return await self.gateway.desk.accept(message)

    def said(self, conversation: str = "main") -> list[str]:
        """What stands there now, live views aside."""
        return [
            posted.text
            for posted in self.channel.sent
            if not posted.deleted
            and posted.ref.address.place == conversation
            and posted.part.data.get("kind") != "view"
        ]


async def _problem_of(unusable: Mapping[EngineId, str], engine: EngineId) -> str:
    return unusable.get(engine, "")


async def _reports(unusable: Mapping[EngineId, str], engines: Iterable[EngineId]) -> list[EngineReport]:
    """What is wrong with an engine is in `unusable`; under `login:ID`, what is wrong with its login."""
    return [
        EngineReport(
            id,
            id.title(),
            EngineStatus(id not in unusable, "1.0", unusable.get(id, "")),
            EngineStatus(
                f"login:{id}" not in unusable, "logged in", unusable.get(EngineId(f"login:{id}"), "")
            ),
        )
        for id in engines
    ]


CLASSIFY: Classify = partial(tool_class, env=PolicyEnv())


@asynccontextmanager
async def open_rig(
    folder: Path,
    engine: PuppetEngine | None = None,
    channel: MemoryChannel | None = None,
    *,
    clock: Clock | None = None,
    name: str = "test",
    engines: Mapping[EngineId, Engine] | None = None,
    channels: Mapping[ChannelId, Channel] | None = None,
    policy: Policy | None = None,
    tool_class: Classify = CLASSIFY,
    unusable: Mapping[EngineId, str] | None = None,
    alive: Callable[[NodeInfo], bool | None] = lambda _info: None,
    standby: bool = False,
    until_ready: bool = True,
    ends_with: type[Exception] | None = None,
    tools: ToolServer | None = None,
    **settings: Any,
) -> AsyncIterator[Rig]:
    engine = engine or PuppetEngine()
    counted = count(1)
    prefix = "m" if name == "test" else f"{name}-m"  # a platform never gives an id twice, nor after a restart
    channel = channel or MemoryChannel(native_ids=lambda: f"{prefix}{next(counted)}")
    chosen = settings_for(folder, **settings)
    async with STORE.open(STORE.config(path=str(put_new_store(folder / "pilothouse.db")))) as store:
        logged: list[tuple[str, dict[str, object]]] = []
        faulty = FaultyStore(store)
        ports = Ports(
            topics=TOPICS,
            store=faulty,
            clock=clock or SystemClock(),
            ids=new_id,
            settings=lambda: chosen,
            engines={PUPPET: engine} if engines is None else engines,
            channels={channel.id: channel} if channels is None else channels,
            policy=policy or AskAlways(),
            tool_class=tool_class,
            read_call=lambda _engine, payload: call_of(payload),
            alive=alive,
            engine_problem=partial(_problem_of, {} if unusable is None else unusable),
            engine_reports=partial(
                _reports, {} if unusable is None else unusable, engines or {PUPPET: engine}
            ),
            log=lambda event, **fields: logged.append((event, fields)),
            tools=tools or NoTools(),
        )
        if isinstance(clock, FakeClock):
            clock.on_move = ports.signals.poke_all
        ready = anyio.Event()
        gateway = Gateway(ports, NodeInfo(name, "here", os.getpid(), ""), standby=standby, on_ready=ready.set)
        rig = Rig(ports, faulty, gateway, engine, channel)
        rig.logged = logged

        async def run() -> None:
            try:
                await gateway.run()
            except Exception as error:  # noqa: BLE001 - the test looks at it
                rig.error = error
            finally:
                rig.over.set()
                ready.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            with anyio.fail_after(60):
                await (ready.wait() if until_ready else anyio.wait_all_tasks_blocked())
            yield rig
            if rig.crashed:
                tasks.cancel_scope.cancel()
            gateway.stop()
        if ends_with is not None:
            assert isinstance(rig.error, ends_with)
        elif rig.error is not None and not rig.crashed:
            raise rig.error
