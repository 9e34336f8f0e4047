"""The people of the scenario where the platform stands outside: they see what stands there, write, and press.

The same five conversations as in `people.py`, without the schedule. They are never killed, and say nothing twice: what
the platform has not handed over yet, it keeps. To know when to go on they look into the gateway's store.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import anyio
from bench.crashing.journal import Journal
from bench.crashing.platform import Platform

from pilothouse.core.ids import ConversationId
from pilothouse.core.message import inbox_key

LOOK_EVERY_S = 0.03
WHY_NOT = "not today"
LEFT_OVER = ("Answer in words",)
OPEN_ASKS = """
SELECT id, topic, conversation_id FROM asks WHERE state = 'open' AND kind = 'question' AND NOT EXISTS (
    SELECT 1 FROM outbox WHERE key = 'ask:' || asks.id || ':asked' AND status = 'claimed' AND attempts = 1
)
"""
"""Words that come while an ask is sent for the first time count as older than the ask."""
UNSETTLED = """
SELECT (SELECT count(*) FROM inbox WHERE ended_at IS NULL) + (SELECT count(*) FROM outbox WHERE ended_at IS NULL)
     + (SELECT count(*) FROM asks WHERE state = 'open')
     + (SELECT count(*) FROM turns WHERE status NOT IN ('done', 'failed', 'cancelled'))
"""


class Book:
    """A look into the gateway's store, which may not be there yet."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._link: sqlite3.Connection | None = None

    def rows(self, sql: str, *terms: str) -> list[tuple[str, ...]]:
        try:
            if self._link is None:
                self._link = sqlite3.connect(f"file:{self._database}?mode=ro", uri=True, timeout=10)
            return self._link.execute(sql, terms).fetchall()
        except sqlite3.OperationalError:  # the file or its tables are not there yet
            return []

    def close(self) -> None:
        if self._link is not None:
            self._link.close()


class Chats:
    def __init__(self, platform: Platform, book: Book, journal: Journal, verdict: str) -> None:
        self._platform = platform
        self._book = book
        self._journal = journal
        self._verdict = verdict
        self._answered: set[str] = set()
        self._pressed: set[tuple[str, str]] = set()
        self._said: list[str] = []

    async def play(self) -> None:
        """Returns when all has been said and everything has settled."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._answer_for_ever)
            async with anyio.create_task_group() as talks:
                for talk in (self._batch, self._long, self._tool, self._approve, self._stop):
                    talks.start_soon(talk)
            await self._until(lambda: self._settled() and not self._left_over())
            tasks.cancel_scope.cancel()

    async def _batch(self) -> None:
        await self._until_begun(self._say("batch", "batch-1", "word batch-1"))
        keys = [self._say("batch", f"batch-{number}", f"word batch-{number}") for number in (2, 3, 4)]
        self._platform.edit("batch", keys[-1].partition("|")[2], "better word batch-4")
        await self._until_begun(keys[-1])
        for number in (5, 6):
            self._say("batch", f"batch-{number}", f"word batch-{number}")

    async def _long(self) -> None:
        first = self._say("long", "long-1", "a story, long-1")
        self._say("long", "long-2", "/status")
        await self._until_ended(first)
        self._say("long", "long-3", "another story, long-3")

    async def _tool(self) -> None:
        await self._until_ended(self._say("tool", "tool-1", "deploy it, tool-1"))
        self._say("tool", "tool-2", "a word about it, tool-2")

    async def _approve(self) -> None:
        self._say("approve", "approve-1", "make a release, approve-1")

    async def _stop(self) -> None:
        held = self._say("stop", "stop-1", "hold on, stop-1")
        await self._until_begun(held)
        self._say("stop", "stop-2", "/stop")
        await self._until_ended(held)
        self._say("stop", "stop-3", "choose a colour, stop-3")

    async def _answer_for_ever(self) -> None:
        label = "Allow once" if self._verdict == "allow" else "Deny and say why"
        while True:
            shown = self._platform.shown()
            for one in shown:
                if (one.place, one.id) not in self._pressed and self._platform.press(
                    one.place, one.id, label, WHY_NOT
                ):
                    self._pressed.add((one.place, one.id))
            self._answer_questions(" ".join(one.text for one in shown))
            await anyio.sleep(LOOK_EVERY_S)

    def _answer_questions(self, seen: str) -> None:
        """Each once; which one a message asks about, only the store tells."""
        for id, topic, conversation in self._book.rows(OPEN_ASKS):
            place = "stop" if conversation == self._platform.conversation("stop") else "approve"
            asked = "Tell me within a minute" if topic else "Which colour?"
            if id not in self._answered and asked in seen:
                self._answered.add(id)
                self._say(place, f"reply-{id}", WHY_NOT if topic else f"blue reply-{id}")

    def _say(self, place: str, name: str, text: str) -> str:
        """Under which key the house will know it."""
        native_id = self._platform.say(place, text)
        key = inbox_key(ConversationId(self._platform.conversation(place)), native_id)
        self._journal.add({"acked": name, "place": place, "text": text, "key": key})
        self._said.append(key)
        return key

    def _left_over(self) -> bool:
        """What stands there twice, since a crash came between, loses its buttons when somebody tries them."""
        for one in self._platform.shown():
            for label in LEFT_OVER:
                self._platform.press(one.place, one.id, label, WHY_NOT)
        return bool(self._platform.buttons())

    def _settled(self) -> bool:
        if self._platform.waits() or self._book.rows(UNSETTLED) != [(0,)]:
            return False
        return all(self._status(key) for key in self._said)

    async def _until_begun(self, key: str) -> None:
        await self._until(lambda: self._status(key) not in ("", "queued"))

    async def _until_ended(self, key: str) -> None:
        await self._until(lambda: self._status(key) in ("done", "failed", "withdrawn"))

    def _status(self, key: str) -> str:
        return next((row[0] for row in self._book.rows("SELECT status FROM inbox WHERE key = ?", key)), "")

    async def _until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            await anyio.sleep(LOOK_EVERY_S)
