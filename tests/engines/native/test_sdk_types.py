"""Every request that we send fits the types of the vendors' own SDKs, with no key that they do not know."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from anthropic.types import message_create_params
from openai.types.chat import completion_create_params
from openai.types.responses import response_create_params
from tests.engines.native.conftest import MakeRig
from tests.engines.native.model import Call, Reply
from tests.engines.native.rig import end_of
from tests.engines.native.sdk_types import problems
from tests.mcp_client.stdio_server import PIXEL

from pilothouse.engines.native.dialects.anthropic import AnthropicDialect
from pilothouse.engines.native.dialects.chat import ChatDialect
from pilothouse.engines.native.dialects.dialect import Dialect
from pilothouse.engines.native.dialects.responses import ResponsesDialect
from pilothouse.engines.native.messages import Image, ModelCall, Replied, Result, Said, Text, ToolSpec, Use

pytestmark = pytest.mark.anyio

KINDS: dict[str, Any] = {
    "anthropic": message_create_params.MessageCreateParamsStreaming,
    "openai": response_create_params.ResponseCreateParamsStreaming,
    "compatible": completion_create_params.CompletionCreateParamsStreaming,
}
DIALECTS: dict[str, Dialect] = {
    "anthropic": AnthropicDialect(),
    "openai": ResponsesDialect(),
    "compatible": ChatDialect(),
}
CALLS = [Call("view_image", {"file_path": "dot.png"}), Call("read", {"file_path": "missing.txt"})]


@pytest.mark.parametrize("provider", KINDS)
async def test_a_turn_with_thinking_two_calls_an_image_and_a_failed_result(
    make_rig: MakeRig, provider: str
) -> None:
    rig = make_rig(
        Reply("Let me look.", CALLS, thinking="Hm."),
        Reply(calls=[Call("todo", {"items": []})]),
        Reply("It is a dot."),
        provider=provider,
        effort="high",
        verbosity="low",
    )
    (rig.workspace / "dot.png").write_bytes(base64.b64decode(PIXEL))
    assert end_of(await rig.turn("What is it?")).outcome == "completed"
    assert len(rig.model.requests) == 3
    assert PIXEL in rig.model.requests[-1].text
    for request in rig.model.requests:
        assert problems(request.body, KINDS[provider]) == []


def whole(provider: str, *, may_call: bool = True) -> dict[str, Any]:
    """Return a request with everything that a conversation can hold, as it is sent."""
    image, tool = Image("dot.png", "image/png"), ToolSpec("read", "Read.", {"type": "object"})
    uses = (Use("c1", "read", {"file_path": "a"}), Use("c2", "read", {"file_path": "b"}))
    messages = [
        Said("Look", images=(image,)),
        Replied((Text("I look."), *uses)),
        Result("c1", "alpha", images=(image,)),
        Result("c2", "It failed.", ok=False),
        Said("And now?"),
    ]
    call = ModelCall(
        "model",
        "Be brief.",
        messages,
        [tool],
        1000,
        lambda _image: PIXEL,
        may_call=may_call,
        effort="low",
        verbosity="high",
        cache_key="key",
        may_search=DIALECTS[provider].has_search,
    )
    return json.loads(json.dumps(DIALECTS[provider].request(call)))


@pytest.mark.parametrize("may_call", [True, False])
@pytest.mark.parametrize("provider", KINDS)
def test_a_request_with_everything_fits(provider: str, may_call: bool) -> None:
    assert problems(whole(provider, may_call=may_call), KINDS[provider]) == []


def keys_of(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every key, except those of a tool's schema and input, which are free."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in items:
        if isinstance(value, dict):
            yield (*path, key)
        if key not in ("input_schema", "parameters") and not (key == "input" and path):
            yield from keys_of(one, (*path, key))


@pytest.mark.parametrize("provider", KINDS)
def test_any_misnamed_key_is_found(provider: str) -> None:
    """Each key of the request is misspelt once."""
    sent = whole(provider)
    paths = list(keys_of(sent))
    assert len(paths) > 40
    for *parents, key in paths:
        wrong = copy.deepcopy(sent)
        table: Any = wrong
        for name in parents:
            table = table[name]
        table[f"{key}x"] = table.pop(key)
        assert problems(wrong, KINDS[provider]), (*parents, key)
