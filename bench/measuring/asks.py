"""What a message costs while ten thousand asks are open, half of them in its own conversation, against none."""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
from bench.measuring.house import Person, open_house, open_store
from bench.measuring.statistics import median
from bench.measuring.table import Row

from pilothouse.core.ask import Ask, AskRow, hash_payload
from pilothouse.core.ids import AskId, ConversationId, SessionId, TurnId, UserId
from pilothouse.core.people import Authority
from pilothouse.core.store import Store, Tx

MANY = 10_000
QUESTIONS = 5
"""In the conversation itself, for somebody else: a plain message must pass them."""
WARM = 40
TURNS = 300
HERE = ConversationId("memory:main")


def measure() -> list[Row]:
    with TemporaryDirectory(prefix="pilothouse-asks-") as folder:
        return anyio.run(_measure, Path(folder))


async def _measure(folder: Path) -> list[Row]:
    wall: dict[int, list[float]] = {0: [], MANY: []}
    whole: dict[int, list[float]] = {0: [], MANY: []}
    people = {count: Person() for count in wall}
    for count in wall:
        (folder / str(count)).mkdir()
    async with (
        open_store(folder / "0") as empty,
        open_store(folder / str(MANY)) as full,
        open_house(empty, folder, people[0]),
        open_house(full, folder, people[MANY]),
    ):
        await fill(full)
        for number in range(WARM + TURNS):
            for count in (0, MANY) if number % 2 else (MANY, 0):
                took_s, _ = await people[count].turn(f"message {number}")
                whole[count].append(took_s)
                wall[count].append(people[count].accepted_s)
        still_open = len(await full.read(lambda tx: tx.asks.newest(limit=2 * MANY)))
    lost = "" if still_open == MANY else f"{MANY - still_open} asks are not open any more"
    return [
        _row("taking a message in", wall, 1.1, lost),
        _row("a whole turn", whole, None, ""),
    ]


async def fill(store: Store) -> None:
    for first in range(0, MANY, 1000):

        def unit(tx: Tx, first: int = first) -> None:
            for number in range(first, first + 1000):
                tx.asks.add(_ask(number))

        await store.write(unit)


def _ask(number: int) -> AskRow:
    payload = {"tool": "Bash", "input": {"command": f"make target-{number}"}, "cwd": "/srv/app"}
    kind = "question" if number < QUESTIONS else "approval"
    place = HERE if number < MANY // 2 else ConversationId(f"memory:other-{number % 500}")
    ask = Ask(AskId(f"ask-{number:06}"), kind, f"make target-{number}", payload, hash_payload(payload))
    requesters = (UserId("memory:somebody"),)
    authority = Authority(requesters=requesters, only=requesters[0])
    return AskRow(
        ask,
        place,
        SessionId(f"old-{number}"),
        TurnId(f"old-{number}"),
        f"engine-{number}",
        "open",
        time.time(),
        authority=authority,
    )


def _row(what: str, took: dict[int, list[float]], bound: float | None, lost: str) -> Row:
    with_asks, without = median(took[MANY][WARM:]), median(took[0][WARM:])
    detail = f"{with_asks * 1e3:.2f} ms against {without * 1e3:.2f} ms, {TURNS} messages"
    return Row(f"{what} with {MANY:,} open asks against none", with_asks / without, bound, "×", detail, lost)
