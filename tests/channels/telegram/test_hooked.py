"""By webhook, too, nothing is answered before it is kept, and an album is one message although it comes piece by piece."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from tests.channels.telegram.conftest import connect
from tests.channels.telegram.receiving_house import House, Moody, make_house
from tests.channels.telegram.server.running import Server

from pilothouse.channels.journal import Journal
from pilothouse.channels.telegram.hooked import Hooked
from pilothouse.channels.telegram.webhook import Door
from pilothouse.core.errors import StoreUnavailable
from pilothouse.core.secret import Secret

SECRET = "s3cret"


@pytest.fixture
def house(server: Server) -> House:
    return make_house(server)


@asynccontextmanager
async def hooked(house: House, folder: Path) -> AsyncIterator[Hooked]:
    ports: list[int] = []
    async with connect(house.server) as client, anyio.create_task_group() as tasks:
        journal = Journal(folder / "telegram" / "updates.jsonl")
        lanes = await house.lanes(client)
        hooked = Hooked(Door(Secret(SECRET)), lanes, journal, house.clock, house.log, house.alarm)
        tasks.start_soon(hooked.run, ports.append)
        await house.until(lambda: ports)
        await client.set_webhook(f"http://127.0.0.1:{ports[0]}/telegram", SECRET)
        yield hooked
        house.server.polls.webhook = ""
        tasks.cancel_scope.cancel()


def kept(folder: Path) -> list[int]:
    path = folder / "telegram" / "updates.jsonl"
    return [json.loads(line)["update_id"] for line in path.read_text().splitlines()] if path.exists() else []


async def test_an_album_that_comes_piece_by_piece_is_one_message(
    house: House, server: Server, tmp_path: Path
) -> None:
    ada = server.person()
    async with hooked(house, tmp_path) as receiver:
        ada.album([b"a", b"b", b"c"], "all three")
        ada.say("and this")
        await house.until(lambda: len(house.texts) == 2)
        await house.until(lambda: not kept(tmp_path), step_s=0.1)
        assert receiver.succeeded_at is not None
    assert house.texts == ["all three", "and this"]
    assert [await house.blobs.get(file.blob) for file in house.desk.accepted[0].attachments] == [
        b"a",
        b"b",
        b"c",
    ]


async def test_pieces_that_were_answered_survive_a_kill(house: House, server: Server, tmp_path: Path) -> None:
    ada = server.person()
    async with hooked(house, tmp_path):
        ada.album([b"a", b"b"], "both")
        await house.until(lambda: not server.world.pending)
    assert house.texts == []
    assert len(kept(tmp_path)) == 2
    async with hooked(house, tmp_path):
        await house.until(lambda: house.texts == ["both"], step_s=0.25)
        await house.until(lambda: not kept(tmp_path), step_s=0.25)
    assert len(house.desk.accepted[0].attachments) == 2


async def test_nothing_is_answered_while_the_store_does_not_take_it(
    house: House, server: Server, tmp_path: Path
) -> None:
    ada = server.person()
    house.desk = Moody({"one": [StoreUnavailable("The disk is full.")]})
    async with hooked(house, tmp_path):
        ada.say("one")
        ada.say("two")
        await house.until(lambda: any(event == "telegram.update_waits" for event, _ in house.logged))
        assert len(server.world.pending) == 2
        await house.until(lambda: not server.world.pending, step_s=0.5)
    assert house.texts == ["one", "two"]


async def test_what_is_no_update_is_answered_and_a_torn_line_is_passed_over(
    house: House, server: Server, tmp_path: Path
) -> None:
    path = tmp_path / "telegram" / "updates.jsonl"
    path.parent.mkdir()
    whole = {
        "update_id": 5,
        "message": {"message_id": 1, "date": 1, "chat": {"id": 7}, "from": {"id": 7}, "text": "x"},
    }
    path.write_text(json.dumps(whole) + "\n" + json.dumps(whole)[:40])
    async with hooked(house, tmp_path):
        await house.until(lambda: house.texts == ["x"], step_s=0.25)
        server.world.pending.append({"nonsense": True})
        server.world.wake()
        await house.until(lambda: not server.world.pending)
    assert "telegram.update_unreadable" in [event for event, _ in house.logged]
