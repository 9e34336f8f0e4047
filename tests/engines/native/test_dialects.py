"""Streams of the three APIs: cut at any byte, in any portions, with blocks of the provider's own tools."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engines.native.conftest import MakeRig
from tests.engines.native.model import Call, Reply, render
from tests.engines.native.rig import ask, end_of

from pilothouse.core.event import TurnEnded
from pilothouse.engines.native.dialects.anthropic import AnthropicDialect
from pilothouse.engines.native.dialects.chat import ChatDialect, OpenRouterDialect
from pilothouse.engines.native.dialects.dialect import Dialect, StreamReader
from pilothouse.engines.native.dialects.responses import ResponsesDialect
from pilothouse.engines.native.messages import ModelCall, Piece, Replied, Said, Thought, ToolSpec
from pilothouse.engines.native.sse import SseReader

pytestmark = pytest.mark.anyio
PATHS: dict[str, tuple[str, Dialect]] = {
    "anthropic": ("/v1/messages", AnthropicDialect()),
    "openai": ("/v1/responses", ResponsesDialect()),
    "openrouter": ("/v1/chat/completions", OpenRouterDialect()),
    "compatible": ("/v1/chat/completions", ChatDialect()),
}
WHOLE = Reply("Grüße, und gleich", [Call("read", {"file_path": "ä"}, "c1")], thinking="Hm, so?")


def feed(dialect: Dialect, stream: bytes, portions: list[int]) -> tuple[list[Piece], StreamReader]:
    events, reader = SseReader(), dialect.reader()
    pieces: list[Piece] = []
    at = 0
    for size in [*portions, len(stream)]:
        for data in events.feed(stream[at : at + size]):
            if data != b"[DONE]":
                pieces += reader.feed(json.loads(data))
        at += size
    return pieces, reader


@pytest.mark.parametrize("provider", PATHS)
@given(portions=st.lists(st.integers(1, 40), max_size=80))
def test_any_portions_give_the_same_reply(provider: str, portions: list[int]) -> None:
    path, dialect = PATHS[provider]
    stream = render(path, WHOLE, WHOLE.calls)
    pieces, reader = feed(dialect, stream, portions)
    whole, other = feed(dialect, stream, [])
    assert (pieces, reader.done, reader.reply()) == (whole, other.done, other.reply())
    assert Replied(reader.reply().blocks).text == WHOLE.text


@pytest.mark.parametrize("provider", PATHS)
def test_a_stream_cut_at_any_byte_is_never_a_whole_reply(provider: str) -> None:
    path, dialect = PATHS[provider]
    stream = render(path, WHOLE, WHOLE.calls)
    needed = {"anthropic": b"message_stop", "openai": b"response.completed"}.get(
        provider, b'finish_reason": "tool_calls'
    )
    enough = stream.index(b"\n\n", stream.index(needed)) + 2
    for cut in range(len(stream)):
        assert feed(dialect, stream[:cut], [])[1].done is (cut >= enough), cut


@pytest.mark.parametrize("provider", ["anthropic", "openai", "compatible"])
async def test_a_turn_whose_stream_was_cut_ends_once(make_rig: MakeRig, provider: str) -> None:
    path, _ = PATHS[provider]
    size = len(render(path, Reply("Hi"), ()))
    rig = make_rig(Reply("Hi"), provider=provider, max_retries=0)
    outcomes: list[str] = []
    async with rig.engine() as engine:
        for cut in range(0, size, 7):
            rig.model.script = lambda _request, cut=cut: Reply("Hi", cut=cut)
            async with engine.open(rig.brief(f"cut-{cut}")) as session:
                events = await ask(session, "Hello")
            assert sum(isinstance(event, TurnEnded) for event in events) == 1
            outcomes.append(end_of(events).outcome)
    assert outcomes[0] == "failed"
    assert outcomes == sorted(outcomes, reverse=True)  # failed until there is enough, completed from then on


SEARCHED: list[dict[str, Any]] = [
    {"type": "message_start", "message": {"usage": {"input_tokens": 1}}},
    {
        "type": "content_block_start",
        "index": 0,
        "content_block": {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}},
    },
    {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "input_json_delta", "partial_json": '{"query": "tea"}'},
    },
    {
        "type": "content_block_start",
        "index": 1,
        "content_block": {
            "type": "web_search_tool_result",
            "tool_use_id": "srv_1",
            "content": [
                {"type": "web_search_result", "url": "https://tea.example", "encrypted_content": "x"}
            ],
        },
    },
    {"type": "content_block_start", "index": 2, "content_block": {"type": "text", "text": "Tea."}},
    {"type": "message_delta", "delta": {"stop_reason": "pause_turn"}},
    {"type": "message_stop"},
]


def call(*messages: Any) -> ModelCall:
    tools = [ToolSpec("read", "Read.", {"type": "object"})]
    return ModelCall("m", "s", messages, tools, 100, lambda _image: "", may_search=True)


def test_searches_of_the_provider_go_back_to_it_as_they_came() -> None:
    dialect = AnthropicDialect()
    reader = dialect.reader()
    for data in SEARCHED:
        reader.feed(data)
    reply = reader.reply()
    assert reply.stop == "paused"
    sent = dialect.request(call(Said("Tea?"), Replied(reply.blocks)))
    first, second, text = sent["messages"][1]["content"]
    assert first == {
        "type": "server_tool_use",
        "id": "srv_1",
        "name": "web_search",
        "input": {"query": "tea"},
    }
    assert second["content"][0]["encrypted_content"] == "x"
    assert text == {"type": "text", "text": "Tea."}
    assert sent["tools"][-1]["type"] == "web_search_20250305"


def test_a_search_of_openai_goes_back_and_other_dialects_never_see_it() -> None:
    dialect = ResponsesDialect()
    reader = dialect.reader()
    item = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search"}}
    reader.feed({"type": "response.output_item.done", "output_index": 0, "item": item})
    reader.feed({"type": "response.completed", "response": {}})
    blocks = reader.reply().blocks
    assert blocks == (Thought("responses", "", item),)
    assert item in dialect.request(call(Said("Tea?"), Replied(blocks)))["input"]
    for other in (AnthropicDialect(), ChatDialect()):
        assert "ws_1" not in json.dumps(other.request(call(Said("Tea?"), Replied(blocks))))
