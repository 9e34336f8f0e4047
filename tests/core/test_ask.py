"""The life of an ask, and the hash that an answer is bound to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.strategies import payloads

from pilothouse.core.ask import ASK_STATES, AskState, hash_payload, move_ask
from pilothouse.core.errors import IllegalMove

ALLOWED: set[tuple[AskState, AskState]] = {
    ("open", "answered"),
    ("open", "expired"),
    ("open", "withdrawn"),
    ("open", "superseded"),
}


@pytest.mark.parametrize("to", ASK_STATES)
@pytest.mark.parametrize("state", ASK_STATES)
def test_an_ask_leaves_open_once_and_for_good(state: AskState, to: AskState) -> None:
    if (state, to) in ALLOWED:
        assert move_ask(state, to) == to
    else:
        with pytest.raises(IllegalMove, match=f"an ask cannot go from {state} to {to}"):
            move_ask(state, to)


def reordered(value: object) -> object:
    match value:
        case dict():
            return {key: reordered(value[key]) for key in reversed(list(value))}
        case list():
            return [reordered(item) for item in value]
        case _:
            return value


@given(payloads)
def test_the_order_of_keys_does_not_change_the_hash(payload: dict[str, object]) -> None:
    again = reordered(payload)
    assert isinstance(again, dict)
    assert hash_payload(again) == hash_payload(payload)


@given(payloads, payloads)
def test_two_payloads_have_two_hashes(one: dict[str, object], other: dict[str, object]) -> None:
    assert one == other or hash_payload(one) != hash_payload(other)


@given(st.lists(st.integers(), min_size=2, unique=True))
def test_the_order_of_a_list_does_change_the_hash(items: list[int]) -> None:
    assert hash_payload({"args": items}) != hash_payload({"args": items[::-1]})


def test_text_that_cannot_be_stored_still_has_a_hash_of_its_own() -> None:
    hashes = {hash_payload({"b": text, "a": 1}) for text in ("\ud800", "\ud801", "\\ud800", "�")}
    assert len(hashes) == 4
    assert hash_payload({"a": 1, "b": "\ud800"}) in hashes
