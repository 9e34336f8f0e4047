"""By webhook, too, nothing is answered before it is kept, and an album is one message although it comes piece by piece."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from tests.channels.telegram.conftest import connect
from tests.channels.telegram.receiving_house import House, Slow, make_house
from tests.channels.telegram.server.running import Server

from pilothouse.channels.telegram.config import WebhookConfig
from pilothouse.channels.telegram.webhook import WebhookReceiver
from pilothouse.core.channel import Receipt
from pilothouse.core.secret import Secret

SECRET = "s3cret"


@pytest.fixture
def house(server: Server, tmp_path: Path) -> House:
    return make_house(server, tmp_path)


@asynccontextmanager
async def hooked(house: House) -> AsyncIterator[WebhookReceiver]:
    ports: list[int] = []
    async with connect(house.server) as client, anyio.create_task_group() as tasks:
        hooked = WebhookReceiver(
            WebhookConfig(secret=Secret(SECRET), port=0), await house.queues(client), house.clock
        )
        tasks.start_soon(hooked.run, ports.append)
        await house.until(lambda: ports)
        await client.set_webhook(f"http://127.0.0.1:{ports[0]}/telegram", SECRET)
        yield hooked
        house.server.polls.webhook = ""
        tasks.cancel_scope.cancel()


async def test_an_album_that_comes_piece_by_piece_is_one_message(house: House, server: Server) -> None:
    ada = server.person()
    async with hooked(house) as receiver:
        ada.album([b"a", b"b", b"c"], "all three")
        ada.say("and this")
        await house.until(lambda: len(house.texts) == 2)
        await house.until(lambda: not house.kept, step_s=0.1)
        assert receiver.succeeded_at is not None
    assert house.texts == ["all three", "and this"]
    assert [await house.blobs.get(file.blob) for file in house.desk.accepted[0].attachments] == [
        b"a",
        b"b",
        b"c",
    ]


async def test_pieces_that_were_answered_survive_a_kill(house: House, server: Server) -> None:
    ada = server.person()
    async with hooked(house):
        ada.album([b"a", b"b"], "both")
        await house.until(lambda: not server.world.pending)
    assert house.texts == []
    assert len(house.kept) == 2
    async with hooked(house):
        await house.until(lambda: house.texts == ["both"], step_s=0.25)
        await house.until(lambda: not house.kept, step_s=0.25)
    assert len(house.desk.accepted[0].attachments) == 2


async def test_nothing_is_answered_before_the_store_takes_it_or_the_disk(
    house: House, server: Server
) -> None:
    ada = server.person()
    house.desk = slow = Slow("one")
    async with hooked(house):
        ada.say("one")
        ada.say("two")
        number = server.world.pending[0]["update_id"]
        await house.until(slow.came.is_set)
        assert len(server.world.pending) == 2
        await house.until(lambda: len(server.world.pending) < 2, step_s=0.25)
        assert house.kept[0] == number
        slow.go_on.set()
        await house.until(lambda: house.texts == ["one", "two"])
        await house.until(lambda: not server.world.pending and not house.kept, step_s=0.25)


async def test_a_stop_reaches_us_while_a_file_is_still_fetched(house: House, server: Server) -> None:
    ada = server.person()
    slow = server.faults.hold("download")
    async with hooked(house):
        ada.document("big.bin", b"x", "first")
        ada.say("/stop")
        await house.until(slow.arrived.is_set)
        await house.until(lambda: house.texts == ["/stop"], step_s=0.25)
        slow.release()
        await house.until(lambda: house.texts == ["/stop", "first"], step_s=0.25)
        await house.until(lambda: not house.kept, step_s=0.25)


async def test_what_is_no_update_is_answered_and_a_torn_line_is_passed_over(
    house: House, server: Server, tmp_path: Path
) -> None:
    path = tmp_path / "updates.jsonl"
    whole = {
        "update_id": 5,
        "message": {"message_id": 1, "date": 1, "chat": {"id": 7}, "from": {"id": 7}, "text": "x"},
    }
    path.write_text(json.dumps(whole) + "\n" + json.dumps(whole)[:40])
    async with hooked(house):
        await house.until(lambda: house.texts == ["x"], step_s=0.25)
        server.world.pending.append({"nonsense": True})
        server.world.wake()
        await house.until(lambda: not server.world.pending)
    assert "telegram.update_unreadable" in [event for event, _ in house.logged]


async def test_a_kill_before_the_answer_brings_the_last_piece_again_and_it_is_known(
    house: House, server: Server
) -> None:
    ada = server.person()
    ada.paste("word " * 1200 + "THE-END")
    last = server.world.pending[-1]
    async with hooked(house):
        await house.until(lambda: not server.world.pending)
        await house.until(lambda: house.texts and not house.kept, step_s=0.1)
    whole = house.desk.accepted[0]
    house.desk.receipts = [Receipt("refused", text="taken as a message of its own")]
    server.world.pending = [last]
    async with hooked(house):
        await house.until(lambda: not server.world.pending, step_s=0.25)
    assert house.texts[0].endswith("THE-END")
    assert [piece.native_id for piece in whole.pieces][-1] == house.desk.accepted[-1].native_id
    assert house.told == [], "the desk knows it by its own number"
