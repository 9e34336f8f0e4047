"""The life of an ask, and the hash that an answer is bound to."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.strategies import payloads

from pilothouse.core.ask import (
    ASK_STATES,
    Ask,
    AskKind,
    AskState,
    Decision,
    Option,
    answer_problem,
    hash_payload,
    move_ask,
    parse_reply,
    payload_bytes,
)
from pilothouse.core.errors import IllegalMove
from pilothouse.core.ids import AskId

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


COLOURS = (Option("r", "Red"), Option("b", "Blue, dark"), Option("g", "Green: calm"))


def question(*, many: bool = False, options: tuple[Option, ...] = COLOURS, kind: AskKind = "question") -> Ask:
    return Ask(AskId("q"), kind, "Which?", options=options, free_text=True, many=many)


@given(payloads)
def test_the_hash_is_of_bytes_that_anybody_can_check(payload: dict[str, object]) -> None:
    assert hashlib.sha256(payload_bytes(payload)).hexdigest() == hash_payload(payload)


@pytest.mark.parametrize(
    ("text", "many", "options"),
    [
        ("red", False, ("r",)),
        (" Blue, DARK ", False, ("b",)),
        ("b", False, ("b",)),
        ("3", False, ("g",)),
        ("green: calm", False, ("g",)),
        ("1, 3", True, ("r", "g")),
        ("red,green, 1", True, ("r", "g")),
        ("**Red**", False, ("r",)),
        ("`green: calm`, __1__", True, ("g", "r")),
        ("1, 3", False, ()),
        ("1, 7", True, ()),
        ("something else", True, ()),
        ("4", False, ()),
    ],
)
def test_a_plain_reply_names_options_or_is_words(text: str, many: bool, options: tuple[str, ...]) -> None:
    assert parse_reply(question(many=many), text) == Decision("answer", options, "" if options else text)


def test_a_number_is_a_number_where_there_is_nothing_to_choose() -> None:
    assert parse_reply(question(options=()), "1") == Decision("answer", text="1")


@given(st.text(), st.booleans())
def test_a_plain_reply_always_fits_its_question(text: str, many: bool) -> None:
    decision = parse_reply(question(many=many), text)
    assert answer_problem(question(many=many), decision) in ("", "The answer is empty.")


@pytest.mark.parametrize(
    ("ask", "decision", "word"),
    [
        (question(), Decision("answer", ("x",)), "no option 'x'"),
        (question(), Decision("answer", ("r", "b")), "Only one"),
        (question(), Decision("allow"), "a question"),
        (question(), Decision("answer"), "empty"),
        (question(many=True), Decision("answer", ("r", "b")), ""),
        (question(), Decision("deny"), ""),
        (question(kind="approval"), Decision("allow"), ""),
    ],
)
def test_what_does_not_fit_the_ask_is_no_answer(ask: Ask, decision: Decision, word: str) -> None:
    assert word in answer_problem(ask, decision)
    assert bool(answer_problem(ask, decision)) is bool(word)
