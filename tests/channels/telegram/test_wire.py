"""Every update is read: a part that does not fit costs itself alone."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.channels.telegram.wire import Arrived, NoUpdate, Update, read_update

CHAT = {"id": 7, "type": "private", "first_name": "Ada"}
USER = {"id": 7, "is_bot": False, "first_name": "Ada"}
MESSAGE: dict[str, Any] = {
    "message_id": 5,
    "date": 1_700_000_000,
    "chat": CHAT,
    "from": USER,
    "text": "hi @bot",
    "entities": [{"type": "mention", "offset": 3, "length": 4}],
    "reply_to_message": {"message_id": 4, "date": 1, "chat": CHAT, "text": "before"},
    "photo": [{"file_id": "a", "file_unique_id": "b", "width": 1, "height": 1}],
}
UPDATE: dict[str, Any] = {"update_id": 9, "message": MESSAGE}


def arrive(update: object) -> Arrived:
    arrived = read_update(json.dumps(update).encode())
    assert isinstance(arrived, Arrived)
    return arrived


def changed(path: list[str | int], value: object) -> dict[str, Any]:
    copy = json.loads(json.dumps(UPDATE))
    place = copy
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return copy


def test_an_update_is_read_with_its_bytes_and_its_kind() -> None:
    arrived = arrive(UPDATE)
    message = arrived.update.message
    assert message is not None
    assert (message.text, message.from_ and message.from_.id) == ("hi @bot", 7)
    assert json.loads(arrived.raw) == UPDATE
    assert arrived.lost == ()


def test_an_update_from_the_future_is_named_and_costs_nothing() -> None:
    arrived = arrive({"update_id": 9, "telepathy": {"from": USER, "thought": "?"}})
    assert (arrived.update.update_id, arrived.lost) == (9, ())
    assert (
        arrive({"update_id": 9, "message": {**MESSAGE, "aura": {"colour": "blue"}}}).update.message
        is not None
    )


@pytest.mark.parametrize(
    ("path", "value", "kept"),
    [
        (["message", "photo"], "a picture", "hi @bot"),
        (["message", "photo", 0, "width"], "wide", "hi @bot"),
        (["message", "entities", 0, "offset"], None, "hi @bot"),
        (["message", "reply_to_message", "chat", "id"], "seven", "hi @bot"),
        (["message", "from", "first_name"], 7, "hi @bot"),
        (["message", "forward_origin"], [], "hi @bot"),
    ],
)
def test_a_field_that_does_not_fit_costs_that_field(path: list[str | int], value: object, kept: str) -> None:
    arrived = arrive(changed(path, value))
    message = arrived.update.message
    assert message is not None
    assert message.text == kept
    assert arrived.lost
    assert arrived.lost[0].startswith(".".join(str(step) for step in path[:2]))


def test_a_message_without_a_chat_is_lost_but_its_number_is_known() -> None:
    arrived = arrive(changed(["message", "chat"], "somewhere"))
    assert (arrived.update.update_id, arrived.update.message) == (9, None)
    assert arrived.lost[-1] == "message"


@pytest.mark.parametrize(
    "raw", [b"", b"[]", b"null", b"{", b"\xff", b'{"update_id": "x"}', b'{"message": {}}']
)
def test_what_has_no_number_is_no_update(raw: bytes) -> None:
    assert isinstance(read_update(raw), NoUpdate)


def test_a_hostile_nesting_does_not_break_the_reader() -> None:
    deep = b'{"update_id":1,"message":' + b'{"reply_to_message":' * 5000 + b"{}" + b"}" * 5001
    assert isinstance(read_update(deep), Arrived | NoUpdate)


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
leaves = [
    ["message"],
    ["message", "chat"],
    ["message", "chat", "id"],
    ["message", "entities"],
    ["message", "entities", 0],
    ["message", "entities", 0, "length"],
    ["message", "text"],
    ["message", "photo", 0],
    ["message", "reply_to_message", "date"],
    ["message", "from"],
]


@given(st.sampled_from(leaves), anything)
def test_whatever_stands_anywhere_the_update_is_read_and_the_rest_of_it_is_kept(
    path: list[str | int], value: object
) -> None:
    arrived = arrive(changed(path, value))
    assert arrived.update.update_id == 9
    if path[:2] not in (["message"], ["message", "chat"]):
        assert arrived.update.message is not None
        assert arrived.update.message.message_id == 5
    if not arrived.lost:
        assert msgspec.json.decode(arrived.raw, type=Update) == arrived.update


@given(st.binary(max_size=60))
def test_no_bytes_raise(raw: bytes) -> None:
    assert isinstance(read_update(raw), Arrived | NoUpdate)
