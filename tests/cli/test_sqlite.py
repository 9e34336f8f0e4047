"""The listings over the real store, read while it stands as a gateway left it."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import Any

import pytest
from msgspec.structs import replace
from tests.cli.conftest import House
from tests.shelf import ADDRESS, ASK, DONE, FAILED, NODE, PLACE, SESSION, T0

from pilothouse.core.conversation import Conversation
from pilothouse.core.event import SessionStarted, TextDelta, TurnEnded
from pilothouse.core.ids import MessageId
from pilothouse.core.message import MessageRef, Part
from pilothouse.core.store import Tx
from pilothouse.core.transcript import Entry
from pilothouse.stores.sqlite import STORE, SqliteConfig


def fill(tx: Tx) -> None:
    """One message, one turn, one ask, one answer on its way."""
    tx.nodes.join(NODE.info, ["engines"], T0)
    tx.conversations.ensure(Conversation(PLACE, ADDRESS, T0))
    tx.sessions.add(SESSION)
    terms: dict[str, Any] = {"conversation_id": PLACE, "kind": "message", "at": T0}
    tx.inbox.put(id=MessageId("msg-1"), key="k1", body=b'{"text": "mend the roof"}', **terms)
    tx.turns.add(DONE)
    tx.turns.add(FAILED)
    tx.inbox.claim([MessageId("msg-1")], turn_id=DONE.id)
    tx.inbox.done(MessageId("msg-1"), T0 + 8)
    tx.events.append(PLACE, DONE.id, [SessionStarted(model="big"), TextDelta("b", "mended")], T0 + 2)
    tx.events.append(PLACE, DONE.id, [TurnEnded("completed", "mended")], T0 + 8)
    tx.asks.add(ASK)
    tx.outbox.put(id=MessageId("out-1"), key="k2", turn_id=DONE.id, body=b'{"text": "mended"}', **terms)
    tx.outbox.claim([MessageId("out-1")])
    tx.outbox.store_parts(MessageId("out-1"), [Part("mended")])
    tx.outbox.sending(MessageId("out-1"), 0)
    tx.outbox.sent(MessageId("out-1"), 0, MessageRef(ADDRESS, "99"))
    tx.inbox.put(id=MessageId("msg-3"), key="k3", body=b'{"text": "and the door"}', **terms)


@pytest.fixture
async def used(house: House) -> House:
    async with STORE.open(SqliteConfig(path=str(house.home / "pilothouse.db"))) as store:
        await store.write(fill)
    return house


@pytest.mark.anyio
async def test_a_session_is_exported_and_its_words_are_found(used: House) -> None:
    heard = Entry(SESSION.id, PLACE, "/srv/app", DONE.id, T0, "person", "Ann", "mend the \x1b[31mroof")
    said = [heard, replace(heard, role="agent", who="puppet", text="mended")]

    def keep(tx: Tx) -> None:
        tx.transcripts.add(DONE.id, said, complete=True)

    async with STORE.open(SqliteConfig(path=str(used.home / "pilothouse.db"))) as store:
        await store.write(keep)
    shown = used.run("sessions", "export", "session-1").stdout
    assert shown.startswith("# Session session-1\n") and "· Ann\n\n> mend the [31mroof\n" in shown
    lines = used.run("sessions", "export", "1", "--format", "jsonl").stdout.splitlines()
    assert [json.loads(line)["text"] for line in lines] == ["mend the \x1b[31mroof", "mended"]
    found = used.run("search", "the", "mend").stdout.splitlines()
    assert found[0].startswith("session-1  ") and "Ann: mend the " in found[1]
    assert used.run("search", 'AND "(').stdout.startswith("Nothing was found.")
    wrong = used.run("sessions", "export", "nope")
    assert (wrong.returncode != 0, wrong.stdout) == (True, "") and "There is no session" in wrong.stderr


@pytest.mark.anyio
async def test_the_listings_read_a_real_store(used: House) -> None:
    assert [turn["id"] for turn in used.json("turns", "--status", "done")] == [DONE.id]
    assert [session["id"] for session in used.json("sessions")] == [SESSION.id]
    status = used.json("status")
    assert status["queues"] == [{"conversation": PLACE, "inbox": 1, "outbox": 1, "waiting": 2}]
    assert [node["info"]["name"] for node in status["nodes"]] == ["home"]
    assert [turn["id"] for turn in status["failures"]] == [FAILED.id]


@pytest.mark.anyio
async def test_a_trace_tells_the_whole_way_from_a_real_store(used: House) -> None:
    steps = used.json("trace", "msg-1")["steps"]
    assert [step["what"] for step in steps] == [
        "message.accepted",
        "turn.made",
        "reply.stored",
        "part.sent",
        "turn.started",
        "session.started",
        "text.streamed",
        "ask.stored",
        "ask.answered",
        "engine.ended",
        "turn.ended",
        "message.done",
    ]


@pytest.mark.anyio
async def test_doctor_opens_a_real_store(used: House) -> None:
    checks = {check["name"]: check for check in used.json("doctor")["checks"]}
    assert checks["store"] == {
        "name": "store",
        "state": "ok",
        "text": str(used.home / "pilothouse.db"),
        "fix": "",
    }
    assert checks["gateway"]["text"].startswith("home, pid 42 on box")


@pytest.mark.anyio
async def test_a_listing_leaves_the_schema_of_an_older_gateway_alone_and_says_what_to_do(used: House) -> None:
    with closing(sqlite3.connect(used.home / "pilothouse.db")) as db:
        db.execute("PRAGMA user_version = 1")
        done = used.run("turns")
        assert done.returncode == 1
        assert "`pilothouse up` brings the store up to date" in done.stderr
        assert db.execute("PRAGMA user_version").fetchone() == (1,)
    assert "pilothouse up" in used.run("doctor").stdout
