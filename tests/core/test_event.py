"""Events as JSON: what is written is read back, and nothing else is."""

import json
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.strategies import events

from pilothouse.core.errors import PilothouseError
from pilothouse.core.event import (
    SCHEMA_VERSION,
    EngineEvent,
    ThinkingDelta,
    ToolCall,
    ToolKind,
    ToolStarted,
    TurnEnded,
    decode_event,
    encode_event,
    has_side_effects,
)
from pilothouse.core.ids import CallId

TYPES = {
    "session_started",
    "session_changed",
    "prompt_added",
    "text_delta",
    "text_set",
    "thinking_delta",
    "tool_started",
    "tool_updated",
    "tool_finished",
    "asked",
    "ask_changed",
    "plan_changed",
    "media_produced",
    "notice",
    "usage_changed",
    "turn_ended",
}


@given(events)
def test_an_event_survives_json(event: EngineEvent) -> None:
    assert decode_event(encode_event(event)) == event


@given(events)
def test_an_event_is_one_line_of_json_with_its_type(event: EngineEvent) -> None:
    raw = encode_event(event)
    assert b"\n" not in raw
    assert json.loads(raw)["type"] in TYPES


def test_the_union_has_exactly_the_sixteen_types() -> None:
    tags = [kind.__struct_config__.tag for kind in get_args(EngineEvent)]
    assert sorted(tags) == sorted(TYPES)


def test_an_event_of_a_newer_schema_is_refused() -> None:
    raw = encode_event(ThinkingDelta("hm"))
    with pytest.raises(PilothouseError, match="newer"):
        decode_event(raw, schema=SCHEMA_VERSION + 1)


@given(st.binary() | st.text(st.characters()))
def test_garbage_is_refused_in_our_own_words(raw: bytes | str) -> None:
    with pytest.raises(PilothouseError):
        decode_event(raw)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b'{"type":"unheard_of"}',
        b'{"type":"TurnEnded","outcome":"completed"}',
        b'{"type":"turn_ended"}',
        b'{"type":"turn_ended","outcome":"maybe"}',
        b'{"type":"tool_finished","call_id":"c1","ok":"yes"}',
        b'{"type":"thinking_delta","text":"\xff"}',
        b'{"type":"thinking_delta","text":"a"}{',
        '{"type":"thinking_delta","text":"\ud800"}',
        b'{"type":"tool_started","call":{"id":"c1","kind":"tool","title":"","detail":{"deep":'
        + b"[" * 100_000,
    ],
    ids=lambda raw: repr(raw)[:60],
)
def test_what_is_not_quite_an_event_is_refused(raw: bytes | str) -> None:
    with pytest.raises(PilothouseError, match="not an event"):
        decode_event(raw)


def test_a_field_from_a_later_patch_release_is_read_over() -> None:
    raw = b'{"type":"turn_ended","outcome":"completed","answer":"yes","mood":"good"}'
    assert decode_event(raw) == TurnEnded("completed", "yes")


def test_text_that_cannot_be_stored_is_cleaned_and_not_refused() -> None:
    detail: dict[str, Any] = {"arg\ud800": ["a\udfff", 1, {"b": "\ud800"}], "n": 2.5}
    event = ToolStarted(ToolCall(CallId("c1"), "command", "run \ud83d", detail))
    assert decode_event(encode_event(event)) == ToolStarted(
        ToolCall(CallId("c1"), "command", "run �", {"arg�": ["a�", 1, {"b": "�"}], "n": 2.5})
    )


SIDE_EFFECTS: dict[ToolKind, bool] = {
    "command": True,
    "file_change": True,
    "read": False,
    "search": False,
    "web": False,
    "subagent": True,
    "tool": True,
    "note": False,
}


@pytest.mark.parametrize("kind", get_args(ToolKind))
def test_only_tools_that_look_may_run_twice(kind: ToolKind) -> None:
    assert has_side_effects(kind) is SIDE_EFFECTS[kind]
