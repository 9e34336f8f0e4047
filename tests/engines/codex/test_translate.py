"""Notifications of one turn, one by one: what becomes of items that no recording has."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from pilothouse.core.engine import MediaFound
from pilothouse.core.event import (
    AskChanged,
    Asked,
    EngineEvent,
    Notice,
    PlanChanged,
    TextDelta,
    TextSet,
    ThinkingDelta,
    ToolFinished,
    ToolStarted,
    ToolUpdated,
    TurnEnded,
    UsageChanged,
)
from pilothouse.engines.codex import wire
from pilothouse.engines.codex.config import Price
from pilothouse.engines.codex.translate import TurnTranslator
from pilothouse.engines.codex.usage import TurnUsage
from pilothouse.engines.link import Exit

THREAD, CWD = "thread", "/work/shop"
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAACAAAAAgCAIAAAD8GO2jAAAAKElEQVR4nO3NsQ0AAAzCMP5/un0CNkuZ41wybXsHAAAAAAAAAAAAxR4yw/wuPL6Q"
    "kAAAAABJRU5ErkJggg=="
)


class Played:
    def __init__(self, prices: dict[str, Price] | None = None) -> None:
        self.turn = TurnTranslator(THREAD, TurnUsage("model", prices or {}), model="model", cwd=CWD)
        self.turn.turn_id = "turn"
        self.turn.begin()

    def tell(self, method: str, **params: Any) -> list[Any]:
        told = {"threadId": THREAD, "turnId": "turn", **params}
        return list(self.turn.take(wire.decode(json.dumps({"method": method, "params": told}).encode())))

    def item(self, method: str, **item: Any) -> list[Any]:
        return self.tell(f"item/{method}", item={"id": "i", **item})

    def end(self, status: str = "completed") -> TurnEnded:
        last = self.tell("turn/completed", turn={"id": "turn", "status": status})[-1]
        assert isinstance(last, TurnEnded)
        return last


def test_an_image_that_the_model_made_is_kept() -> None:
    played = Played()
    started = played.item("started", type="imageGeneration", status="inProgress")
    done = played.item(
        "completed", type="imageGeneration", status="completed", result=base64.b64encode(PNG).decode()
    )
    assert [type(step) for step in started] == [ToolStarted]
    media, finished = done
    assert isinstance(media, MediaFound)
    assert (media.media_type, media.data) == ("image/png", PNG)
    assert isinstance(finished, ToolFinished)


def test_an_image_in_a_servers_result_is_kept() -> None:
    played = Played()
    content = [{"type": "image", "data": base64.b64encode(PNG).decode()}, {"type": "text", "text": "here"}]
    played.item("started", type="mcpToolCall", server="shop", tool="draw", status="inProgress")
    media, finished = played.item(
        "completed",
        type="mcpToolCall",
        server="shop",
        tool="draw",
        status="completed",
        result={"content": content},
    )
    assert isinstance(media, MediaFound)
    assert isinstance(finished, ToolFinished)
    assert finished.output == "here"


@pytest.mark.parametrize(
    ("item", "kind", "title"),
    [
        ({"type": "webSearch", "query": "plums"}, "web", "search: plums"),
        ({"type": "imageView", "path": f"{CWD}/a.png"}, "read", "image: a.png"),
        ({"type": "collabAgentToolCall", "tool": "spawnAgent", "prompt": "look"}, "subagent", "agent: look"),
        ({"type": "dynamicToolCall", "tool": "dial"}, "tool", "tool: dial"),
        ({"type": "commandExecution", "command": "/bin/bash -lc 'ls -l'"}, "command", "ls -l"),
        (
            {"type": "fileChange", "changes": [{"path": f"{CWD}/a", "kind": {"type": "delete"}, "diff": ""}]},
            "file_change",
            "delete: a",
        ),
    ],
)
def test_each_kind_of_call_has_its_title(item: dict[str, Any], kind: str, title: str) -> None:
    (started,) = Played().item("started", **item)
    assert isinstance(started, ToolStarted)
    assert (started.call.kind, started.call.title) == (kind, title)


def test_a_search_that_is_named_later_is_renamed() -> None:
    played = Played()
    played.item("started", type="webSearch", query="")
    renamed, finished = played.item("completed", type="webSearch", query="plums")
    assert renamed == ToolUpdated(renamed.call_id, title="search: plums")
    assert isinstance(finished, ToolFinished)


@pytest.mark.parametrize(
    ("code", "status", "ok"), [(0, "completed", True), (1, "completed", False), (None, "declined", False)]
)
def test_a_command_is_well_if_it_ended_with_zero(code: int | None, status: str, ok: bool) -> None:
    played = Played()
    played.item("started", type="commandExecution", command="make")
    (finished,) = played.item(
        "completed", type="commandExecution", command="make", status=status, exitCode=code
    )
    assert finished.ok == ok


def test_a_plan_and_thoughts_are_shown() -> None:
    played = Played()
    steps = [
        {"step": "a", "status": "completed"},
        {"step": "b", "status": "inProgress"},
        {"step": "c", "status": "pending"},
    ]
    (plan,) = played.tell("turn/plan/updated", plan=steps)
    assert isinstance(plan, PlanChanged)
    assert [item.status for item in plan.items] == ["done", "active", "pending"]
    assert played.tell("item/reasoning/summaryTextDelta", itemId="r", delta="hm") == [ThinkingDelta("hm")]


def test_text_that_a_steered_message_cut_off_is_withdrawn() -> None:
    played = Played()
    played.item("started", type="agentMessage", text="")
    assert played.tell("item/agentMessage/delta", itemId="i", delta="The long") == [
        TextDelta("i", "The long")
    ]
    played.turn.unread.add("steer")
    assert played.item("started", type="userMessage", id="u", clientId="steer") == [TextSet("i", "")]
    played.item("completed", type="agentMessage", id="j", text="The short")
    end = played.end()
    assert (end.answer, played.turn.unread) == ("The short", set())


def test_text_before_a_tool_stays_when_the_next_request_is_made_again() -> None:
    played = Played()
    played.item("completed", type="agentMessage", id="a", text="First.")
    played.item("started", type="commandExecution", id="c", command="ls")
    played.item("completed", type="agentMessage", id="b", text="Torn")
    retried = played.tell("error", error={"message": "Reconnecting... 1/5"}, willRetry=True)
    assert retried[0] == TextSet("b", "")
    assert isinstance(retried[1], Notice)
    assert played.end().answer == "First."


def test_an_open_question_is_withdrawn_at_the_end() -> None:
    played = Played()
    asked = played.item(
        "completed", type="agentMessage", text="Which?", questions=[{"title": "Which?", "options": ["A"]}]
    )
    assert isinstance(asked[-1], Asked)
    steps = played.tell("turn/completed", turn={"id": "turn", "status": "completed"})
    assert steps[0] == AskChanged(asked[-1].ask.id, "withdrawn")


@pytest.mark.parametrize(
    ("method", "params", "words"),
    [
        ("model/rerouted", {"fromModel": "a", "toModel": "b"}, "Codex switched from a to b."),
        ("warning", {"message": "Look out."}, "Look out."),
        (
            "mcpServer/startupStatus/updated",
            {"name": "shop", "status": "failed", "error": "no"},
            "The MCP server shop",
        ),
        ("dream/started", {}, "dream/started"),
    ],
)
def test_what_is_worth_a_word_is_said_once(method: str, params: dict[str, Any], words: str) -> None:
    played = Played()
    (notice,) = played.tell(method, **params)
    assert isinstance(notice, Notice)
    assert words in notice.text
    assert len(played.tell(method, **params)) == (1 if method == "model/rerouted" else 0)


def test_a_compaction_is_told() -> None:
    played = Played()
    played.item("started", type="contextCompaction")
    (notice,) = played.item("completed", type="contextCompaction")
    assert notice.kind == "compacted"


def test_messages_of_other_turns_and_threads_are_dropped() -> None:
    played = Played()
    assert played.tell("item/agentMessage/delta", turnId="before", itemId="x", delta="late") == []
    assert played.tell("item/agentMessage/delta", threadId="child", itemId="x", delta="child's") == []
    assert played.tell("turn/completed", turn={"id": "before", "status": "completed"}) == []
    assert played.end().answer == ""


def test_usage_is_that_of_the_turn_whatever_the_thread_has_used() -> None:
    def count(given: int, cached: int, made: int) -> dict[str, int]:
        return {"inputTokens": given, "cachedInputTokens": cached, "outputTokens": made}

    played = Played({"model": Price(2.0, 0.5, 10.0)})
    first = {"total": count(10_000, 1_000, 900), "last": count(1_000, 200, 100)}
    second = {
        "total": count(12_000, 1_500, 1_000),
        "last": count(2_000, 500, 100),
        "modelContextWindow": 8_000,
    }
    played.tell("thread/tokenUsage/updated", tokenUsage=first)
    (changed,) = played.tell("thread/tokenUsage/updated", tokenUsage=second)
    assert isinstance(changed, UsageChanged)
    usage = changed.usage
    assert (usage.input_tokens, usage.cache_read_tokens, usage.output_tokens, usage.steps) == (
        2300,
        700,
        200,
        2,
    )
    assert usage.cost_usd == pytest.approx((2300 * 2 + 700 * 0.5 + 200 * 10) / 1e6)
    assert (usage.context_tokens, usage.context_window) == (2_100, 8_000)
    assert played.end().usage == usage


def test_a_process_that_ends_cancels_a_stopped_turn_and_fails_another() -> None:
    stopped, running = Played(), Played()
    stopped.turn.interrupted = True
    outcomes: list[EngineEvent | MediaFound] = [*stopped.turn.end(Exit(-9)), *running.turn.end(Exit(-9))]
    ends = [end.outcome for end in outcomes if isinstance(end, TurnEnded)]
    assert ends == ["cancelled", "failed"]
