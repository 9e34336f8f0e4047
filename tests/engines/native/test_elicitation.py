"""Questions that MCP servers ask while the agent calls their tools: a program, and an SDK server on loopback."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, Literal

import pytest
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.resolve import Elicit, Resolve
from msgspec.structs import replace
from pydantic import BaseModel, Field
from tests.engines.native.conftest import MakeRig
from tests.engines.native.model import Call, Reply
from tests.engines.native.rig import YES, Rig, ask, end_of
from tests.mcp_client.oauth_site import listen, serve_site
from tests.mcp_client.rig import Rig as McpRig
from tests.mcp_client.rig import program

from pilothouse.core.ask import Ask, Decision
from pilothouse.core.engine import EngineSession
from pilothouse.core.event import AskChanged, Asked, EngineEvent
from pilothouse.core.ids import UserId
from pilothouse.core.mcp import McpServer

pytestmark = pytest.mark.anyio

SHOP: dict[str, Any] = {"mcp_servers": {"shop": {}}}
DECLINED = Decision("deny", by=UserId("ann"))
EXPIRED = Decision("deny")


def with_server(rig: Rig, server: McpServer) -> Rig:
    rig.host = replace(rig.host, open_mcp=McpRig(rig.workspace, {"shop": server}).connections)
    return rig


def asks_of(events: Sequence[EngineEvent]) -> list[Ask]:
    """Return the questions; the approval of the call itself is none."""
    return [event.ask for event in events if isinstance(event, Asked) and event.ask.kind == "question"]


def saying(session: EngineSession, *decisions: Decision) -> Callable[[EngineEvent], Awaitable[None] | None]:
    """Allow the call, and answer its questions in order."""
    left = list(decisions)

    def react(event: EngineEvent) -> Awaitable[None] | None:
        if not isinstance(event, Asked):
            return None
        return session.answer(event.ask.id, YES if event.ask.kind == "approval" else left.pop(0))  # pyrefly: ignore[missing-attribute]

    return react


async def play(rig: Rig, *decisions: Decision) -> list[EngineEvent]:
    async with rig.engine() as engine, engine.open(rig.brief(**SHOP)) as session:
        return await ask(session, "Go", react=saying(session, *decisions))


def calling(name: str) -> tuple[Reply, Reply]:
    return Reply(calls=[Call(f"mcp__shop__{name}", {})]), Reply("Done.")


def told(rig: Rig) -> dict[str, Any]:
    """Return what the server heard from us."""
    (result,) = rig.model.requests[-1].results
    return json.loads(json.loads(result)[0]["text"])


async def test_each_field_of_a_form_is_a_question_and_the_answers_go_back(make_rig: MakeRig) -> None:
    rig = with_server(make_rig(*calling("ask")), program())
    events = await play(rig, Decision("answer", ("2",)), Decision("answer", text="12"))
    size, count = asks_of(events)
    assert size.title == "For the MCP server shop: Which one?\nsize"
    assert [option.label for option in size.options] == ["S", "L"]
    assert count.title.endswith("\ncount")
    assert told(rig) == {"action": "accept", "content": {"size": "L", "count": 12}}
    assert end_of(events).outcome == "completed"


async def test_a_page_to_visit_is_shown_with_its_address(make_rig: MakeRig) -> None:
    rig = with_server(make_rig(*calling("visit")), program())
    (page,) = asks_of(await play(rig, Decision("answer", ("1",))))
    assert "http://127.0.0.1/login" in page.title
    assert told(rig) == {"action": "accept"}


@pytest.mark.parametrize(("decision", "action"), [(DECLINED, "decline"), (EXPIRED, "cancel")])
async def test_a_no_declines_and_no_answer_cancels_and_the_turn_goes_on(
    make_rig: MakeRig, decision: Decision, action: str
) -> None:
    rig = with_server(make_rig(*calling("ask")), program())
    events = await play(rig, decision)
    assert len(asks_of(events)) == 1
    assert told(rig)["action"] == action
    assert end_of(events).outcome == "completed"


async def test_a_stopped_turn_takes_its_question_back(make_rig: MakeRig) -> None:
    rig = with_server(make_rig(*calling("ask")), program())
    async with rig.engine() as engine, engine.open(rig.brief(**SHOP)) as session:

        async def react(event: EngineEvent) -> None:
            if isinstance(event, Asked) and event.ask.kind == "approval":
                await session.answer(event.ask.id, YES)
            elif isinstance(event, Asked):
                await session.interrupt()

        events = await ask(session, "Go", react=react)
        again = await ask(session, "Hello")
    assert end_of(events).outcome == "cancelled"
    assert end_of(again).outcome == "completed"
    (question,) = asks_of(events)
    assert {event.ask_id for event in events if isinstance(event, AskChanged)} <= {question.id}


class Size(BaseModel):
    size: Literal["small", "large"]
    express: bool = Field(False, title="Express delivery?")


async def ask_size() -> Elicit[Size]:
    return Elicit("Which size do you want?", Size)


async def test_a_server_of_the_sdk_on_loopback_gets_the_form_filled_in(make_rig: MakeRig) -> None:
    server = MCPServer("shop")

    @server.tool()
    async def order(size: Annotated[Size, Resolve(ask_size)]) -> str:
        return size.model_dump_json()

    listening, url = listen()
    rig = with_server(make_rig(*calling("order")), McpServer(url=f"{url}/mcp"))
    async with serve_site(server, listening):
        events = await play(rig, Decision("answer", ("2",)), Decision("answer", ("1",)))
    first, second = asks_of(events)
    assert first.title.startswith("For the MCP server shop: Which size do you want?")
    assert [option.label for option in first.options] == ["small", "large"]
    assert second.title.endswith("Express delivery?")
    assert told(rig) == {"size": "large", "express": True}
