"""Every recording of the real program, whole, byte by byte, and cut after every line: the same events, one end per turn.

Two recordings are not among them: that of the interface of version 2, which the engine refuses by name and does not read,
and that of `run` with an unknown session, which prints nothing on stdout.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy

import pytest
from tests.engines.codex.recorded import split_turns
from tests.engines.opencode.golden import FOLDER, render
from tests.engines.opencode.recorded import NAMES, read, translate_portions, translate_recording

from pilothouse.cli.replay import produced
from pilothouse.core.engine import Step
from pilothouse.core.event import Asked, EngineEvent, SessionStarted, TurnEnded, well_formed
from pilothouse.core.view import TurnView, fold
from pilothouse.engines.opencode.replay import OpenCodeReplay

ENDS = {
    "run_resume": ["completed"],
    "run_sigint": ["failed"],
    "run_sigterm": ["failed"],
    "run_simple": ["completed"],
    "run_stdin": ["completed"],
    "serve_abort_busy": ["completed", "cancelled", "cancelled", "completed", "completed"],
    "serve_basic": ["completed", "completed"],
    "serve_errors": ["auth", "bad_request", "bad_request", "rate_limit", "completed", "completed"],
    "serve_files_mcp": ["completed", "completed", "completed", "completed", "completed", "crash"],
    "serve_permission": ["completed", "cancelled", "completed", "completed", "completed"],
    "serve_question": ["completed", "cancelled"],
}
"""How each turn ends: its outcome, or the kind of its failure."""


def test_all_recordings_are_known() -> None:
    assert list(ENDS) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_recording_gives_its_golden_events_view_and_output(name: str) -> None:
    assert render(name) == (FOLDER / f"{name}.txt").read_text()


@pytest.mark.parametrize("name", NAMES)
def test_turns_end_as_they_did(name: str) -> None:
    found: list[str] = []
    for turn in split_turns(translate_recording(name)):
        end = turn[-1]
        assert isinstance(end, TurnEnded)
        kind = end.failure.kind if end.failure and not name.startswith("run") else ""
        found.append(kind or end.outcome)
    assert found == ENDS[name]


@pytest.mark.parametrize("name", NAMES)
def test_bytes_one_by_one_give_the_same_events(name: str) -> None:
    raw = read(name)
    assert translate_portions([raw[n : n + 1] for n in range(len(raw))]) == translate_recording(name)


@pytest.mark.parametrize("name", NAMES)
def test_a_recording_cut_anywhere_ends_every_turn_that_it_began(name: str) -> None:
    replay, ended, begun = OpenCodeReplay(), 0, 0
    for number, line in enumerate(read(name).splitlines(), 1):
        ended += len(turns_of(replay.feed(line)))
        left = turns_of(deepcopy(replay).end(-9))
        assert ended + len(left) >= begun, f"a turn was lost after line {number}"
        begun = ended + len(left)
    assert begun == len(ENDS[name])


def turns_of(steps: Sequence[Step]) -> list[list[EngineEvent]]:
    turns = split_turns([produced(step) for step in steps])
    assert all(list(well_formed(turn)) == turn for turn in turns)
    return turns


@pytest.mark.parametrize("name", NAMES)
def test_every_line_is_understood(name: str) -> None:
    translator = OpenCodeReplay()
    for number, line in enumerate(read(name).splitlines(), 1):
        translator.feed(line)
        assert not translator.line_problem, f"line {number}"


@pytest.mark.parametrize("name", NAMES)
def test_a_turn_says_how_to_resume_it_and_its_answer_is_what_the_view_shows(name: str) -> None:
    for turn in split_turns(translate_recording(name)):
        start, end = turn[0], turn[-1]
        assert isinstance(start, SessionStarted)
        assert isinstance(end, TurnEnded)
        assert end.resume is not None
        assert end.resume == start.resume
        view = TurnView()
        for event in turn[:-1]:
            view = fold(view, event, 0.0)
        assert end.answer == view.text


def test_a_permission_that_comes_before_its_call_is_asked_with_the_input() -> None:
    asks = [event.ask for event in translate_recording("serve_files_mcp") if isinstance(event, Asked)]
    assert [ask.payload["input"] for ask in asks] == [{"text": "x"}]
