"""Questions of servers: whose they are, and the time of a call meanwhile. No server is needed for that."""

from __future__ import annotations

from math import inf
from typing import Any

import anyio
import mcp_types as types
import pytest

from pilothouse.core.mcp import McpReply
from pilothouse.mcp_client.elicitation import CANCELLED, DECLINED, Questions, RunningCall

pytestmark = pytest.mark.anyio

PARAMS = types.ElicitRequestFormParams(
    message="Which?",
    requested_schema={
        "type": "object",
        "properties": {"size": {"type": "string", "default": "L"}, "name": {"type": "string"}},
    },
)
CONTEXT: Any = None


async def agree(server: str, params: dict[str, Any]) -> McpReply:
    return McpReply("accept", {"name": f"{server}, {params['mode']}, {params['message']}"})


async def test_the_time_of_a_call_stands_still_while_a_person_is_asked() -> None:
    async def look(server: str, params: dict[str, Any]) -> McpReply:
        assert call.limit.deadline == inf
        return McpReply("accept")

    call = RunningCall(look, 30.0)
    assert await call.ask("shop", {}) == McpReply("accept")
    left_s = call.limit.deadline - anyio.current_time()
    assert 0 < left_s <= 30.0


async def test_fields_that_a_person_left_out_get_their_defaults() -> None:
    questions = Questions("shop")
    with questions.of(RunningCall(agree, 30.0)):
        result = await questions.answer(CONTEXT, PARAMS)
    assert result.content == {"size": "L", "name": "shop, form, Which?"}


async def test_a_question_is_declined_without_a_call_and_without_a_person() -> None:
    questions = Questions("shop")
    assert (await questions.answer(CONTEXT, PARAMS)).action == "decline"
    with questions.of(RunningCall(None, 30.0)):
        assert (await questions.answer(CONTEXT, PARAMS)).action == "decline"
    assert await RunningCall(None, 30.0).ask("shop", {}) == DECLINED


async def test_a_question_that_may_be_of_another_call_is_declined() -> None:
    """Asked by the connection's own task, which knows of no call."""
    questions, actions = Questions("shop"), list[str]()
    asked, answered = anyio.Event(), anyio.Event()

    async def hear() -> None:
        await asked.wait()
        actions.append((await questions.answer(CONTEXT, PARAMS)).action)
        answered.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(hear)
        with questions.of(RunningCall(agree, 30.0)), questions.of(RunningCall(agree, 30.0)):
            asked.set()
            await answered.wait()
    assert actions == ["decline"]


async def test_the_end_of_a_call_cancels_its_question() -> None:
    asked, replies = anyio.Event(), list[McpReply]()

    async def wait(server: str, params: dict[str, Any]) -> McpReply:
        asked.set()
        await anyio.sleep_forever()
        raise AssertionError

    call = RunningCall(wait, 30.0)

    async def ask() -> None:
        replies.append(await call.ask("shop", {}))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await asked.wait()
        call.end()
    assert replies == [CANCELLED]
