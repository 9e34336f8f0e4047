"""A store with one conversation on it, for commands that read; and an engine and two channels to list."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

from msgspec import Raw, Struct

from pilothouse.core.ask import Ask, AskRow, Decision
from pilothouse.core.audit import AuditHead, Verified
from pilothouse.core.channel import ChannelSpec, LoggedEvent
from pilothouse.core.conversation import Conversation, Session
from pilothouse.core.engine import EngineSpec, EngineStatus, TrustedFile
from pilothouse.core.event import (
    EngineEvent,
    PromptAdded,
    SessionStarted,
    TextDelta,
    ToolCall,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    Usage,
)
from pilothouse.core.ids import (
    AskId,
    CallId,
    ChannelId,
    ConversationId,
    EngineId,
    Epoch,
    MessageId,
    SessionId,
    TurnId,
    UserId,
)
from pilothouse.core.message import Address, MessageRef, Part
from pilothouse.core.outcome import Failure
from pilothouse.core.queue import PartRow, QueueRow
from pilothouse.core.secret import Secret
from pilothouse.core.store import Node, NodeInfo, StoreSpec, Tx
from pilothouse.core.turn import Prompt, Turn, TurnStatus

T0 = 1_700_000_000.0
PLACE = ConversationId("telegram:7")
ADDRESS = Address(ChannelId("telegram"), "7")
ENGINE_ID = EngineId("puppet")
SESSION = Session(SessionId("session-1"), PLACE, ENGINE_ID, "/srv/app", T0, T0 + 9, turns=2, cost_usd=0.25)

SILENT = Session(SessionId("session-2"), PLACE, ENGINE_ID, "/srv/app", T0, T0 + 8, turns=1)
FREE = Session(SessionId("session-3"), PLACE, ENGINE_ID, "/srv/app", T0, T0 + 7, turns=1, cost_usd=0.0)


def turn(id: str, status: TurnStatus, **more: Any) -> Turn:
    prompt = Prompt("mend the \x1b[31mroof\nplease")
    return Turn(TurnId(id), SESSION.id, PLACE, ENGINE_ID, status, "message", prompt, T0, **more)


DONE = turn(
    "turn-abc111", "done", attempts=1, started_at=T0 + 1, ended_at=T0 + 8, usage=Usage(0.25), epoch=Epoch(3)
)
FAILED = turn(
    "turn-abd222",
    "failed",
    ended_at=T0 + 20,
    failure=Failure("auth", "log in again", detail="exit status 3\npuppet: a string broke"),
)
TURNS = {DONE.id: DONE, FAILED.id: FAILED}


def row(id: str, text: str, *, turn_id: TurnId | None = DONE.id, ended_at: float | None = None) -> QueueRow:
    body = Raw(b'{"text": "%s", "author": {"id": "telegram:1", "name": "Ada"}}' % text.encode())
    return QueueRow(
        1,
        MessageId(id),
        f"key-{id}",
        "main",
        PLACE,
        "message",
        body,
        "done",
        T0,
        1,
        T0,
        turn_id,
        ended_at=ended_at,
    )


INBOX = {
    "msg-1": row("msg-1", "mend the roof", ended_at=T0 + 8),
    "msg-2": row("msg-2", "never mind", turn_id=None, ended_at=T0 + 2),
}
OUTBOX = {"out-1": row("out-1", "mended", ended_at=T0 + 8.5)}
CALL = ToolCall(CallId("c1"), "command", "make roof")
EVENTS: list[EngineEvent] = [
    SessionStarted(model="big", cwd="/srv/app"),
    PromptAdded("mend the roof"),
    ToolStarted(CALL),
    ToolFinished(CallId("c1"), True, "ok"),
    TextDelta("b", "men"),
    TextDelta("b", "ded"),
    TurnEnded("completed", "mended"),
]
LOGGED = [LoggedEvent(i, DONE.id, T0 + 1 + i, event) for i, event in enumerate(EVENTS)]
ASK = AskRow(
    Ask(AskId("ask-1"), "approval", "Run make?"),
    PLACE,
    SESSION.id,
    DONE.id,
    "k",
    "answered",
    T0 + 3,
    Decision("allow", by=UserId("telegram:1")),
    T0 + 4,
)
NODE = Node(Epoch(3), NodeInfo("home", "box", 42, "1"), ("engines",), T0, 5, False)
PART = PartRow(0, Part("mended"), "sent", 1, MessageRef(ADDRESS, "99"))


class Queue:
    def __init__(self, rows: dict[str, QueueRow]) -> None:
        self._rows = rows

    def get(self, id: MessageId) -> QueueRow | None:
        return self._rows.get(id)

    def by_key(self, key: str) -> QueueRow | None:
        return next((row for row in self._rows.values() if row.key == key), None)

    def of_turn(self, turn_id: TurnId) -> list[QueueRow]:
        return [row for row in self._rows.values() if row.turn_id == turn_id]

    def unfinished(self, conversation_id: ConversationId) -> list[QueueRow]:
        return []

    def parts(self, id: MessageId) -> list[PartRow]:
        return [PART]


class Turns:
    def get(self, id: TurnId) -> Turn | None:
        return TURNS.get(id)

    def find(self, prefix: str) -> list[Turn]:
        return [turn for turn in TURNS.values() if turn.id.startswith(prefix)]

    def of(self, place: str | None = None, *, statuses: Any = (), limit: int = 100) -> list[Turn]:
        found = [turn for turn in TURNS.values() if not statuses or turn.status in statuses]
        return [turn for turn in found if place in (None, turn.conversation_id)][:limit]

    def first_of(self, conversation_id: ConversationId, session_id: SessionId) -> Turn | None:
        return next((turn for turn in TURNS.values() if turn.session_id == session_id), None)


class Rows:
    """A table that gives the same rows whatever it is asked."""

    def __init__(self, *rows: Any) -> None:
        self._rows = list(rows)

    def list(self, **_: Any) -> Any:
        return self._rows

    def of(self, **_: Any) -> Any:
        return self._rows

    def open_in(self, conversation_id: ConversationId) -> Any:
        return self._rows

    def of_turn(self, turn_id: TurnId) -> Any:
        return self._rows if turn_id == DONE.id else []

    def verify(self) -> Verified:
        return Verified(len(self._rows), AuditHead())


def _no_facts(family: str) -> list[tuple[str, str]]:
    return []


TX: Any = SimpleNamespace(
    conversations=Rows(Conversation(PLACE, ADDRESS, T0)),
    sessions=Rows(FREE, SILENT, SESSION),
    turns=Turns(),
    inbox=Queue(INBOX),
    outbox=Queue(OUTBOX),
    events=Rows(*LOGGED),
    asks=Rows(ASK),
    people=SimpleNamespace(everybody=list),
    nodes=Rows(NODE),
    audit=Rows(),
    get_fact={}.get,
    facts_of=_no_facts,
)


class Line(Struct, frozen=True):
    name: str = ""
    speed: int = 1


class Settings(Struct, frozen=True):
    token: Secret = Secret("")
    rooms: tuple[int, ...] = ()
    line: Line = Line()
    calls: dict[str, Line] = {}


class Shelf:
    async def read(self, unit: Callable[[Tx], Any]) -> Any:
        return unit(TX)


@asynccontextmanager
async def _open(config: Settings) -> AsyncGenerator[Shelf]:
    yield Shelf()


def _unbuilt(*_: Any) -> Any:
    raise AssertionError("a listing builds nothing")


def _probe(config: Settings) -> EngineStatus:
    return EngineStatus(True, "1.2.3")


def _absent(config: Settings) -> EngineStatus:
    return EngineStatus(False, problem="puppet-cli is not on PATH", fix="npm install -g puppet-cli")


def _problem(config: Settings) -> str:
    return "" if config.token else "token is missing; put TELEGRAPH_TOKEN=… into .env"


STORE = StoreSpec("shelf", "Shelf", Settings, _open)
PUPPET = EngineSpec(
    ENGINE_ID,
    "Puppet",
    Settings,
    _unbuilt,
    _probe,
    aliases=("marionette",),
    trusted_files=(
        TrustedFile("STRINGS.md", "strings to pull", runs=False),
        TrustedFile(".puppet/hooks", "hooks, which run programs"),
    ),
)
ABSENT = EngineSpec(EngineId("absent"), "Absent", Settings, _unbuilt, _absent)
TELEGRAPH = ChannelSpec(ChannelId("telegraph"), "Telegraph", Settings, _unbuilt, _problem)
POINTS = {
    "stores": {"shelf": "tests.shelf:STORE"},
    "engines": {"puppet": "tests.shelf:PUPPET", "absent": "tests.shelf:ABSENT", "torn": "torn:ENGINE"},
    "channels": {"telegraph": "tests.shelf:TELEGRAPH"},
    "commands": {"wave": "waving:command", "status": "waving:command"},
}
MODULES = {
    "torn": "raise RuntimeError('torn apart at import')\n",
    "waving": "import click\n\n@click.command()\ndef command():\n    click.echo('hello')\n",
}
