"""How long a search over 100,000 messages takes: rare and common words, in one conversation, a workspace, and everywhere."""

from __future__ import annotations

import random
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
from bench.measuring.house import open_store
from bench.measuring.statistics import quantile
from bench.measuring.table import Row

from pilothouse.core.conversation import Conversation
from pilothouse.core.ids import ChannelId, ConversationId, SessionId, TurnId
from pilothouse.core.message import Address
from pilothouse.core.store import Tx
from pilothouse.core.transcript import Entry

MESSAGES = 100_000
PLACES = 500
PORTION = 5_000
WORDS = 60
VOCABULARY = 20_000
ROUNDS = 20
BOUND_MS = 50.0
SOUNDS = [
    first + second for first in "bcdfghklmnprstvwz" for second in ("a", "e", "i", "o", "u", "an", "er", "ist")
]
ALL = "the"
"""A word of every message."""


def measure() -> list[Row]:
    with TemporaryDirectory(prefix="pilothouse-search-") as folder:
        return anyio.run(_measure, Path(folder))


async def _measure(folder: Path) -> list[Row]:
    draw = random.Random(7)
    async with open_store(folder) as store:
        await store.write(_places)
        for first in range(0, MESSAGES, PORTION):
            entries = [_entry(draw, number) for number in range(first, first + PORTION)]
            await store.write(
                lambda tx, entries=entries: tx.transcripts.add(TurnId("t"), entries, complete=True)
            )
        times: dict[str, list[float]] = {}
        for _ in range(ROUNDS):
            for name, words, place, shared in _searches(draw):
                began = time.perf_counter()
                await store.read(
                    lambda tx, words=words, place=place, shared=shared: tx.transcripts.search(
                        words, place, shared_in=shared
                    )
                )
                times.setdefault(name, []).append((time.perf_counter() - began) * 1000)
    slowest = max(times, key=lambda name: quantile(times[name], 0.5))
    told = ", ".join(f"{name} {quantile(each, 0.5):.1f}" for name, each in times.items())
    return [
        Row(f"a search over {MESSAGES:,} messages, p50", quantile(times[slowest], 0.5), BOUND_MS, "ms", told)
    ]


def _places(tx: Tx) -> None:
    for number in range(PLACES):
        address = Address(ChannelId("memory"), str(number))
        tx.conversations.ensure(Conversation(_place(number), address, 1.0, private=number % 10 != 0))


def _place(number: int) -> ConversationId:
    return ConversationId(f"memory:{number}")


def _word(rank: int) -> str:
    """Spell a word of the language: no two begin alike for long."""
    spelled = ""
    for _ in range(4):
        rank, sound = divmod(rank * 7919 + 13, len(SOUNDS))
        spelled += SOUNDS[sound]
        rank += sound * 101
    return spelled


def _drawn(draw: random.Random) -> str:
    """Draw a word: few are common, most are rare."""
    return _word(int(VOCABULARY ** draw.random()))


def _entry(draw: random.Random, number: int) -> Entry:
    text = " ".join([ALL, *(_drawn(draw) for _ in range(WORDS))])
    place = number % PLACES
    session = SessionId(f"session-{place}")
    return Entry(session, _place(place), "/w", TurnId("t"), float(number), "person", "Ann", text)


def _searches(draw: random.Random) -> list[tuple[str, str, ConversationId | None, str]]:
    place, rare = _place(draw.randrange(PLACES)), _word(draw.randrange(1000, VOCABULARY))
    common, other = _word(1), _word(2)
    return [
        ("a rare word", rare, None, ""),
        ("a word of all", ALL, None, ""),
        ("the beginning of a word", rare[:4], None, ""),
        ("common words in one place", f"{ALL} {common} {other}", place, ""),
        ("common words in a workspace", f"{ALL} {common}", place, "/w"),
        ("common words in an unused workspace", f"{ALL} {common}", ConversationId("memory:x"), "/other"),
        ("common words and a missing one", f"{ALL} {common} {other} qqqq", None, ""),
    ]
