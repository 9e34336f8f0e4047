"""`bench/telegram receive`: how soon a message is durable, above a bare commit of SQLite's on the same disk.

From the bytes of an update, as a poll brings them, until the inbox has its message for good: reading it, joining, deciding whether
it is for us, who sent it, and the store. In private, and in a group whose trigger must be looked up. Both alternate with bare
commits. Nothing runs beside it but the gateway, whose engine takes no time. Missing a bound is exit code 1.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
from anyio.abc import TaskGroup
from bench.measuring.house import Person, open_house, open_store
from bench.measuring.machine import describe
from bench.measuring.statistics import median, quantile
from bench.measuring.table import Row, render
from bench.measuring.turn import bare_commits
from tests.channels.telegram.receiving_house import KeptBlobs

from pilothouse.channels.intake_queue import Failures
from pilothouse.channels.telegram.accept import Acceptor
from pilothouse.channels.telegram.client import open_client
from pilothouse.channels.telegram.config import Endpoint
from pilothouse.channels.telegram.content import TELEGRAM, bot_with
from pilothouse.channels.telegram.receive import Happening
from pilothouse.channels.telegram.updates import UpdateJournal, UpdateQueues
from pilothouse.channels.telegram.wire import Arrived, Me, read_update
from pilothouse.core.ids import UserId
from pilothouse.core.message import Address, conversation_id, inbox_key
from pilothouse.core.people import People
from pilothouse.core.secret import Secret
from pilothouse.core.store import Store
from pilothouse.core.trigger import Trigger
from pilothouse.runtime.commands.table import menu
from pilothouse.runtime.desk import GatewayDesk
from pilothouse.runtime.ports import Ports, SystemClock

ADA = {"id": 10_001, "is_bot": False, "first_name": "Ada"}
PRIVATE: dict[str, Any] = {"id": 10_001, "type": "private", "first_name": "Ada"}
GROUP: dict[str, Any] = {"id": -1_000_000_000_002, "type": "supergroup", "title": "Work"}
NAME = "pilot_test_bot"
WARM, ROUNDS, BOUND_MS = 30, 300, 5.0


def update(number: int, chat: dict[str, Any]) -> bytes:
    message = {"message_id": number, "date": int(time.time()), "chat": chat, "from": ADA}
    message |= {"text": f"@{NAME} Please look at step {number}."}
    message |= {"entities": [{"type": "mention", "offset": 0, "length": len(NAME) + 1}]}
    return json.dumps({"update_id": 731_000_000 + number, "message": message}).encode()


@asynccontextmanager
async def open_queues(ports: Ports, folder: Path) -> AsyncIterator[UpdateQueues]:
    desk, clock = GatewayDesk(ports), SystemClock()

    async def trigger_of(address: Address) -> Trigger:
        return (await desk.settings_of(address)).trigger or Trigger()

    async def tell(address: Address, text: str, reply_to: str) -> None: ...

    async def other(happening: Happening) -> None: ...

    def log(event: str, **fields: object) -> None: ...

    async with open_client(Endpoint(Secret("1:a"), "http://127.0.0.1:9")) as client:
        me = Me(4_242_424, is_bot=True, first_name="Pilot", username=NAME)
        bot = bot_with(me, menu())
        acceptor = Acceptor(
            desk, client, KeptBlobs(), bot, clock, trigger_of=trigger_of, tell=tell, others=other, log=log
        )
        failures = Failures(folder / "failed-updates.jsonl", "telegram.update", clock, log)
        yield UpdateQueues(acceptor, clock, log, UpdateJournal(folder, log), failures)


async def take(queues: UpdateQueues, tasks: TaskGroup, raw: bytes) -> float:
    """Seconds until the update may be confirmed."""
    began = time.perf_counter()
    one = read_update(raw)
    assert isinstance(one, Arrived)
    queues.add([one])
    queues.start_ready(tasks)
    while not queues.is_safe(one.update.update_id):
        await queues.progress()
    return time.perf_counter() - began


async def sample(
    queues: UpdateQueues, store: Store, commit: Callable[[], None], first: int, chat: dict[str, Any]
) -> Row:
    bare: list[float] = []
    ours: list[float] = []
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(queues.run, tasks)
        for number in range(first, first + WARM + ROUNDS):
            began = time.perf_counter()
            commit()
            bare.append(time.perf_counter() - began)
            ours.append(await take(queues, tasks, update(number, chat)))
            await anyio.sleep(0.02)  # the turn that it started ends
        tasks.cancel_scope.cancel()
    p50, least = median(ours[WARM:]), median(bare[WARM:])
    where = "in a group" if chat is GROUP else "in private"
    place = conversation_id(Address(TELEGRAM, str(chat["id"])))
    keys = [inbox_key(place, str(number)) for number in range(first, first + WARM + ROUNDS)]
    lost = await store.read(lambda tx: sum(tx.inbox.by_key(key) is None for key in keys))
    detail = (
        f"{p50 * 1e3:.2f} ms against {least * 1e3:.2f} ms; p95 {quantile(ours[WARM:], 0.95) * 1e3:.1f} ms"
    )
    return Row(
        f"update → durable, above a commit, p50: {where}",
        (p50 - least) * 1e3,
        BOUND_MS,
        "ms",
        detail,
        f"{lost} are not there" if lost else "",
    )


async def measure(folder: Path) -> list[Row]:
    commit, people = bare_commits(folder / "bare.db"), People({UserId("telegram:10001"): "owner"})
    async with open_store(folder) as store:
        known = {"people": people, "known_channels": (TELEGRAM,)}
        async with (
            open_house(store, folder, Person(), **known) as ports,
            open_queues(ports, folder) as queues,
        ):
            return [
                await sample(queues, store, commit, 1, PRIVATE),
                await sample(queues, store, commit, 1001, GROUP),
            ]


def main() -> int:
    with TemporaryDirectory(prefix="pilothouse-telegram-") as folder:
        rows = anyio.run(measure, Path(folder))
    print(render(rows, describe(), "bench/telegram receive"))
    return 0 if all(row.holds for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
