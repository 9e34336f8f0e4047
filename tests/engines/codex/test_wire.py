"""Lines that are torn, foreign or changed: none raises, and each costs as little as it can."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engines.codex.recorded import NAMES, read, split_turns, translate

from pilothouse.core.event import Notice, TextDelta, TurnEnded, well_formed
from pilothouse.engines.codex import wire
from pilothouse.engines.codex.wire_items import CommandExecution, UnknownItem, read_item


def line(**message: Any) -> bytes:
    return json.dumps(message).encode()


@given(st.binary())
def test_any_bytes_are_decoded(raw: bytes) -> None:
    wire.decode(raw)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda one: (
            st.lists(one)
            | st.dictionaries(
                st.sampled_from(
                    ["method", "id", "params", "result", "error", "item", "turn", "type", "threadId"]
                ),
                one,
            )
        ),
        max_leaves=10,
    )
)
def test_any_json_is_decoded(value: Any) -> None:
    wire.decode(json.dumps(value).encode())


def test_a_method_and_an_item_that_are_not_known_are_named() -> None:
    assert wire.decode(line(method="thread/dreams", params={})) == wire.Ignored("thread/dreams")
    unknown = wire.decode(line(method="dream/started", params={"threadId": "t"}))
    assert unknown == wire.Unknown("dream/started", "t")
    assert read_item({"type": "dream", "id": "d"}) == UnknownItem("d", "dream")


def test_a_field_of_another_shape_costs_that_field_only() -> None:
    item = read_item({"type": "commandExecution", "id": "c", "command": "ls", "exitCode": "zero"})
    assert item == CommandExecution("c", "ls")
    told = wire.decode(
        line(method="item/agentMessage/delta", params={"itemId": "m", "delta": "a", "turnId": 5})
    )
    assert told == wire.TextPiece("", "", "m", "a")


def test_half_a_character_costs_that_character_only() -> None:
    raw = b'{"method":"item/agentMessage/delta","params":{"itemId":"m","delta":"a\\ud83d"}}'
    assert wire.decode(raw) == wire.TextPiece("", "", "m", "a\ufffd")


def test_a_request_is_told_from_a_reply_with_the_same_number() -> None:
    assert isinstance(wire.decode(line(id=1, result={"thread": {}})), wire.Reply)
    assert isinstance(wire.decode(line(id=1, method="item/tool/call", params={})), wire.ServerRequest)
    refused = wire.decode(line(id=1, error={"code": -32600, "message": "no"}))
    assert isinstance(refused, wire.Reply)
    assert refused.error == wire.WireError("no", -32600)


@pytest.mark.parametrize("name", NAMES)
def test_noise_and_strangers_between_the_lines_lose_no_text(name: str) -> None:
    strange = [b"panic at the disco\n", line(method="dream/started", params={}) + b"\n"]
    strange.append(line(method="item/started", params={"item": {"type": "dream", "id": "d"}}) + b"\n")
    lines = [one for kept in read(name).splitlines(keepends=True) for one in (kept, *strange)]
    before, after = split_turns(translate([read(name)])), split_turns(translate(lines))
    assert [_words(turn) for turn in after] == [_words(turn) for turn in before]
    assert all(list(well_formed(turn)) == turn for turn in after)
    assert all(sum(isinstance(event, Notice) for event in turn) <= 12 for turn in after)


def _words(turn: list[Any]) -> list[str]:
    return [event.text for event in turn if isinstance(event, TextDelta)] + [
        f"{event.outcome} {event.answer}" for event in turn if isinstance(event, TurnEnded)
    ]
