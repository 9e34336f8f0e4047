"""What the end of a turn does with calls that show its progress. `tests/channels/test_progress_order.py` plays whole turns."""

from __future__ import annotations

from functools import partial

import anyio

from pilothouse.core.ids import TurnId
from pilothouse.runtime.delivery.typing_indicator import ViewCalls

TURN = TurnId("turn-1")


async def test_a_waiting_edit_is_cancelled_and_none_begins_afterwards() -> None:
    calls = ViewCalls()
    began: list[str] = []

    async def edit() -> str:
        began.append("edit")
        await anyio.sleep_forever()
        return "shown"

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(calls.show, TURN, edit))
        await anyio.wait_all_tasks_blocked()
        await calls.end(TURN)
    assert await calls.show(TURN, edit) is None
    assert began == ["edit"]


async def test_the_end_waits_for_a_message_that_is_being_created() -> None:
    """Cancelled, the message would stay for ever: nobody would know its number."""
    calls, created = ViewCalls(), anyio.Event()
    order: list[str] = []

    async def create() -> None:
        await created.wait()
        order.append("created")

    async def end() -> None:
        await calls.end(TURN)
        order.append("ended")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(calls.show, TURN, create, may_cancel=False))
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(end)
        await anyio.wait_all_tasks_blocked()
        created.set()
    assert order == ["created", "ended"]
