"""An ask that a client shows: its answer is kept while the store is unavailable, and asked for once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import anyio
import pytest

from pilothouse.channels.client_runs import ShownAsks
from pilothouse.core.ask import Ask, Decision
from pilothouse.core.channel import ChannelHost, Desk
from pilothouse.core.errors import StoreUnavailable
from pilothouse.core.ids import AskId, UserId
from pilothouse.core.message import Author

ASK = Ask(AskId("ask-1"), "approval", "Push it?", {})


class BusyStore:
    """A desk and a clock. Each call fails once, and the next one after a pause works."""

    def __init__(self) -> None:
        self.failed: set[str] = set()
        self.pauses = 0
        self.answered = anyio.Event()

    def _fail_once(self, what: str) -> None:
        if what not in self.failed:
            self.failed.add(what)
            raise StoreUnavailable("the disk is full")

    async def query(self, what: str, by: Author, **terms: Any) -> Any:
        self._fail_once(what)
        return SimpleNamespace(ask=ASK, state="open")

    async def answer(self, id: AskId, payload_hash: str, decision: Decision, by: Author) -> Any:
        self._fail_once("answer")
        assert decision == Decision("allow")
        self.answered.set()
        return SimpleNamespace(accepted=True)

    async def sleep(self, _pause_s: float) -> None:
        self.pauses += 1
        await anyio.lowlevel.checkpoint()


@pytest.mark.anyio
async def test_an_answer_waits_for_the_store_and_the_person_is_asked_once() -> None:
    store = BusyStore()
    asked: list[Ask] = []

    async def decide(ask: Ask, where: object) -> Decision:
        asked.append(ask)
        return Decision("allow")

    host = cast("ChannelHost", SimpleNamespace(clock=store))
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            author = Author(UserId("local:me"), "me")
            shown = ShownAsks(cast("Desk", store), host, author, tasks, decide, lambda _where: True)
            shown.show(ASK, "run")
            await store.answered.wait()
            await shown.close(ASK.id)
    assert asked == [ASK] and store.failed == {"ask", "answer"} and store.pauses == 2
