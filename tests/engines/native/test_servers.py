"""Tools of MCP servers and lanes in the native agent: a real server program, and a desk of lanes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import anyio
import pytest
from msgspec.structs import replace
from tests.agent_tools.agent import live_places
from tests.engines.native.conftest import MakeRig
from tests.engines.native.model import Call, Reply, Request
from tests.engines.native.rig import Rig, ask, end_of
from tests.mcp_client.rig import Rig as McpRig
from tests.mcp_client.rig import program
from tests.mcp_client.stdio_server import PIXEL
from typing_extensions import override

from pilothouse.core.errors import PilothouseError
from pilothouse.core.event import Asked, Notice, SessionStarted, ToolFinished
from pilothouse.core.lane import Lane, NewLane, NoLanes

pytestmark = pytest.mark.anyio


def with_server(rig: Rig) -> Rig:
    servers = McpRig(rig.workspace, {"shop": program()})
    rig.host = replace(rig.host, open_mcp=servers.connections)
    return rig


def one_call(name: str, **given: Any) -> tuple[Reply, Reply]:
    return Reply(calls=[Call(name, given)]), Reply("Done.")


SHOP: dict[str, Any] = {"mcp_servers": {"shop": {}}}


async def test_a_tool_of_a_server_is_asked_about_and_then_called(make_rig: MakeRig) -> None:
    rig = with_server(make_rig(*one_call("mcp__shop__look", what="shelf")))
    events = await rig.turn(**SHOP)
    (asked,) = [event.ask for event in events if isinstance(event, Asked)]
    assert asked.call is not None
    assert (asked.call.kind, asked.call.server, asked.call.server_tool) == ("mcp", "shop", "look")
    assert asked.title == "shop: look"
    (result,) = rig.model.requests[-1].results
    assert json.loads(json.loads(result)[0]["text"])["given"] == {"what": "shelf"}
    (started,) = [event for event in events if isinstance(event, SessionStarted)]
    assert "mcp__shop__draw" in started.tools


async def test_a_property_with_a_key_that_no_model_takes_is_renamed_for_the_model_alone(
    make_rig: MakeRig,
) -> None:
    rig = with_server(make_rig(*one_call("mcp__shop__look", filter_id_="7", what="shelf")))
    await rig.turn(**SHOP)
    (tool,) = [tool for tool in rig.model.requests[0].body["tools"] if tool["name"] == "mcp__shop__look"]
    assert tool["input_schema"]["properties"] == {
        "filter_id_": {"type": "string", "description": "filter[id]"}
    }
    (result,) = rig.model.requests[-1].results
    assert json.loads(json.loads(result)[0]["text"])["given"] == {"filter[id]": "7", "what": "shelf"}


async def test_a_denied_tool_of_a_server_never_runs(make_rig: MakeRig) -> None:
    rig = with_server(make_rig(*one_call("mcp__shop__die"), rules=["deny mcp shop"]))
    events = await rig.turn(**SHOP)
    assert [event.ok for event in events if isinstance(event, ToolFinished)] == [False]
    assert "deny mcp shop" in rig.model.requests[-1].results[0]
    assert "gone" not in rig.model.requests[-1].text


@pytest.mark.parametrize("provider", ["anthropic", "openai", "compatible"])
async def test_an_image_of_a_server_reaches_the_model_as_an_image(make_rig: MakeRig, provider: str) -> None:
    rig = with_server(make_rig(*one_call("mcp__shop__draw"), provider=provider))
    assert end_of(await rig.turn(**SHOP)).outcome == "completed"
    assert PIXEL in rig.model.requests[-1].text


async def test_a_server_that_dies_is_a_failed_call_and_the_session_lives(make_rig: MakeRig) -> None:
    calls = [Reply(calls=[Call(f"mcp__shop__{name}", {})]) for name in ("die", "look")]
    rig = with_server(make_rig(*calls, Reply("Done.")))
    events = await rig.turn(**SHOP)
    assert [event.ok for event in events if isinstance(event, ToolFinished)] == [False, True]
    assert end_of(events).outcome == "completed"
    assert rig.leftovers() == []


async def test_a_server_that_cannot_be_used_is_told_once(make_rig: MakeRig) -> None:
    rig = make_rig(Reply("Hello."))
    broken = McpRig(rig.workspace, {"shop": replace(program(), command="/no/such/program")})
    rig.host = replace(rig.host, open_mcp=broken.connections)
    told: list[str] = []
    async with rig.engine() as engine:
        for _ in range(2):
            async with engine.open(rig.brief(**SHOP)) as session:
                events = await ask(session, "Hello")
                assert end_of(events).outcome == "completed"
                told += [event.text for event in events if isinstance(event, Notice) and event.kind == "mcp"]
    (problem,) = told
    assert "shop" in problem
    assert "/no/such/program" in problem


async def test_a_turn_keeps_its_open_question_while_another_one_uses_our_tools(make_rig: MakeRig) -> None:
    asking = Call("mcp__pilothouse__ask_user_question", {"question": "Which colour?", "options": ["Red"]})
    saying = Call("mcp__pilothouse__send_message", {"text": "Hello from the other one."})

    def script(request: Request) -> Reply:
        if request.results:
            return Reply("Done.")
        return Reply(calls=[saying if request.prompt == "Say" else asking])

    rig = make_rig(script=script)
    rig.host = replace(rig.host, open_mcp=McpRig(rig.workspace, {}).connections)
    async with (
        live_places(rig.folder / "gateway", "main", "other") as (gateway, servers),
        rig.engine() as engine,
    ):

        async def turn(name: str, text: str) -> None:
            async with engine.open(rig.brief(name, mcp_servers=servers[name])) as session:
                assert end_of(await ask(session, text)).outcome == "completed"

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(turn, "main", "Ask")
            question = await gateway.until_asked("Which colour?")
            await turn("other", "Say")
            assert (await gateway.channel.answer(question, "answer", options=("1",))).accepted
        await gateway.until_said("Hello from the other one.")
    told = {request.prompt: request.results[0] for request in rig.model.requests if request.results}
    assert "Red" in told["Ask"]
    assert "Delivered" in told["Say"]


class Desk(NoLanes):
    """Holds lanes in memory."""

    def __init__(self) -> None:
        self.wishes: list[NewLane] = []
        self.created: list[NewLane] = []

    @override
    async def create_here(self, wish: NewLane) -> Lane:
        if wish.backend != "tmux":
            raise PilothouseError(f"The backend {wish.backend!r} is not supported.")
        self.wishes.append(wish)
        self.created.append(wish)
        return self._lane(wish)

    def _lane(self, wish: NewLane) -> Lane:
        return Lane(
            id="ab12",
            task=wish.task,
            state="running",
            repository=wish.folder,
            worktree="/lanes/ab12",
            branch="lane/x",
            session="lane-ab12",
            created_at=0.0,
            updated_at=0.0,
        )

    @override
    async def all(self) -> Sequence[Lane]:
        return [self._lane(wish) for wish in self.wishes]

    @override
    async def status(self, id: str) -> Lane:
        return self._lane(self.wishes[0])

    @override
    async def close(self, id: str, *, force: bool = False, keep_worktree: bool = False) -> Lane:
        return self._lane(self.wishes.pop())


async def test_a_lane_is_created_listed_and_closed(make_rig: MakeRig) -> None:
    calls = (
        Call("lane_create", {"task": "Fix it", "seed_context": "Go"}),
        Call("lane_create", {"task": "No", "backend": "zellij"}),
        Call("lane_list", {}),
        Call("lane_status", {"lane_id": "ab12"}),
        Call("lane_close", {"lane_id": "ab12", "force": True}),
        Call("lane_gc", {}),
    )
    rig, desk = make_rig(*[Reply(calls=[call]) for call in calls], Reply("Done.")), Desk()
    rig.host = replace(rig.host, lanes=desk)
    events = await rig.turn("Go", approval_mode="trusted")
    assert [event.ok for event in events if isinstance(event, ToolFinished)] == [True, False, *[True] * 4]
    asked = [event.ask.title for event in events if isinstance(event, Asked)]
    assert asked == ["new lane: Fix it", "new lane: No", "close lane: ab12", "lane_gc"]
    (wish,) = desk.created
    assert (wish.seed, wish.engine, wish.approval_mode) == ("Go", "native", "trusted")
    assert wish.folder == str(rig.workspace)
    text = rig.model.requests[-1].text
    assert "tmux attach" in text
    assert "lane_close" in text
    assert "zellij" in text


async def test_lanes_are_not_offered_where_there_can_be_none(make_rig: MakeRig) -> None:
    rig = make_rig(Reply("Hello."))
    (started,) = [event for event in await rig.turn() if isinstance(event, SessionStarted)]
    assert not any(name.startswith("lane_") for name in started.tools)
