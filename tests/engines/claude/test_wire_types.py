"""Every kind of line that the CLI prints, one by one: what it becomes, and that the page says the same."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engines.claude.recorded import split_turns
from tests.engines.claude.wire_samples import (
    BEFORE,
    SAMPLES,
    assistant,
    init,
    result,
    text,
    tool_result,
    user,
)

from pilothouse.cli.replay import produced
from pilothouse.core.event import EngineEvent, TextSet, ToolFinished, TurnEnded, well_formed
from pilothouse.engines.claude import wire, wire_system
from pilothouse.engines.claude.translate import Translator

PAGE = Path(__file__).parents[3] / "docs" / "internals" / "claude.md"
STRANGE = {"anything else", "a block of another kind", "no JSON"}


def names(events: list[EngineEvent]) -> tuple[str, ...]:
    return tuple(msgspec.to_builtins(event)["type"] for event in events)


def in_a_turn(line: bytes, before: Sequence[bytes] = BEFORE) -> tuple[list[EngineEvent], Translator]:
    translator = Translator("/srv/app")
    for earlier in before:
        translator.feed(earlier)
    return [produced(step) for step in translator.feed(line)], translator


@pytest.mark.parametrize("kind", [kind for kind in SAMPLES if kind != "system/init"])
def test_a_line_becomes_what_the_table_says(kind: str) -> None:
    before = BEFORE[:1] if kind.startswith("result") else BEFORE  # with nothing left open to be closed
    events, translator = in_a_turn(SAMPLES[kind].line, before)
    assert names(events) == SAMPLES[kind].becomes
    assert bool(translator.line_problem) == (kind in STRANGE)
    assert bool(translator.unknown_lines) == (kind in STRANGE)


def test_an_init_starts_a_turn() -> None:
    assert names([produced(step) for step in Translator().feed(init())]) == ("session_started",)


def test_the_page_has_this_table() -> None:
    found = re.findall(r"^\| ([^|]+?) \| ([^|]*?) \| [^|]*\|$", PAGE.read_text(), flags=re.MULTILINE)
    rows = {kind.replace("`", ""): tuple(re.findall(r"`(\w+)`", becomes)) for kind, becomes in found}
    assert {kind: rows.get(kind) for kind in SAMPLES} == {kind: s.becomes for kind, s in SAMPLES.items()}


def test_every_subtype_that_we_decode_has_a_sample() -> None:
    sampled = {kind.removeprefix("system/").split(":")[0].split(",")[0] for kind in SAMPLES}
    assert set(wire_system.KINDS) - sampled == {"hook_progress"}


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (rb"cut \ud83d", "cut \ufffd"),
        (rb"\ude00 cut", "\ufffd cut"),
        (rb"whole \ud83d\ude00", "whole \U0001f600"),
        (rb"\ud83d\ud83d\ude00", "\ufffd\U0001f600"),
        (rb"literal \\ud83d and \ud83d", "literal \\ud83d and \ufffd"),
        (b"bytes \xff", "bytes \ufffd"),
    ],
)
def test_half_a_character_costs_itself_and_not_the_line(raw: bytes, shown: str) -> None:
    events, translator = in_a_turn(assistant(text("@")).replace(b"@", raw))
    assert [event.text for event in events if isinstance(event, TextSet)] == [shown]
    assert not translator.line_problem


def test_every_value_that_a_line_may_be_is_handled() -> None:
    kinds = set(get_args(wire.Heard)) - {wire.System}
    assert kinds <= set(Translator()._handlers)


def test_a_strange_block_costs_none_of_its_neighbours() -> None:
    strange = {"type": "hologram", "data": {"deep": [1]}}
    events, translator = in_a_turn(assistant(text("before"), strange, text("after")))
    assert [event.text for event in events if isinstance(event, TextSet)] == ["before", "after"]
    assert translator.line_problem == "unknown: block hologram"


def test_a_strange_block_inside_a_result_does_not_lose_the_result() -> None:
    events, _ = in_a_turn(user(tool_result([text("seen"), {"type": "hologram"}], is_error=True)))
    assert ToolFinished in [type(event) for event in events]
    finished = next(event for event in events if isinstance(event, ToolFinished))
    assert (finished.ok, finished.output) == (False, "seen")


def test_a_field_of_another_type_does_not_lose_the_line() -> None:
    events, translator = in_a_turn(assistant(text("hello"), user_message_uuids="not a list"))
    assert names(events) == ("notice", "text_set")
    assert translator.line_problem == "unknown: field user_message_uuids"


def test_a_result_ends_its_turn_whatever_became_of_its_fields() -> None:
    events, _ = in_a_turn(
        result(permission_denials={"new": "shape"}, usage=[], num_turns="two", result=[{}, text("a")])
    )
    end = events[-1]
    assert isinstance(end, TurnEnded)
    assert (end.outcome, end.answer) == ("completed", "a")


def test_an_init_starts_its_turn_whatever_became_of_its_fields() -> None:
    steps = Translator().feed(init(tools=[{"name": "Bash"}], mcp_servers=None))
    assert names([produced(step) for step in steps]) == ("session_started", "notice", "notice")


def test_a_strange_line_is_said_once_and_kept_each_time() -> None:
    translator = Translator()
    translator.feed(init())
    said = [len(translator.feed(b'{"type": "telepathy"}')) for _ in range(30)]
    assert said == [1, *[0] * 29]
    assert len(translator.unknown_lines) == 20


def test_a_type_may_stand_anywhere_in_a_line() -> None:
    assert isinstance(
        wire.decode(b'{"is_error": false, "subtype": "success", "type": "result"}'), wire.Result
    )


LINES = st.lists(
    st.one_of(
        st.sampled_from([sample.line for sample in SAMPLES.values()]),
        st.binary(max_size=40),
        st.sampled_from(
            [init(), result(), b"[1]", b"null", b'{"type": 7}', b'{"type": "assistant"}', b"\xff"]
        ),
    ),
    max_size=30,
)


@given(LINES)
def test_whatever_is_fed_the_turns_keep_the_grammar(lines: list[bytes]) -> None:
    translator = Translator()
    events = [produced(step) for line in lines for step in translator.feed(line)]
    events += [produced(step) for step in translator.end(1, "last words")]
    for turn in split_turns(events):
        assert list(well_formed(turn)) == turn
