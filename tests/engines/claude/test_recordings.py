"""Every recording of the real CLI, whole, byte by byte, and cut after every line: the same events, one end per turn."""

from __future__ import annotations

import pytest
from tests.engines.claude.golden import path_of, render
from tests.engines.claude.recorded import (
    NAMES,
    Exit,
    exits,
    read,
    split_turns,
    translate,
    translate_recording,
)

from pilothouse.core.event import EngineEvent, SessionStarted, TurnEnded, well_formed
from pilothouse.core.view import TurnView, fold
from pilothouse.engines.claude.failures import DIAGNOSTIC
from pilothouse.engines.claude.translate import Translator

KILLED = Exit(-9, "")


def test_there_are_recordings_and_each_has_its_exit() -> None:
    assert len(NAMES) >= 190
    assert set(exits()) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_recording_gives_its_golden_events_view_and_output(name: str) -> None:
    assert render(name) == path_of(name).read_text()


def test_bytes_one_by_one_give_the_same_events() -> None:
    for name in NAMES:
        raw = read(name)
        assert translate([raw[n : n + 1] for n in range(len(raw))], exits()[name]) == translate_recording(
            name
        ), name


def test_a_recording_cut_anywhere_ends_every_turn_that_it_began() -> None:
    for name in NAMES:
        lines = read(name).splitlines(keepends=True)
        for kept in range(len(lines) + 1):
            turns = split_turns(translate(lines[:kept], KILLED))
            assert all(list(well_formed(turn)) == turn for turn in turns), name
            assert turns, f"{name}: a process that was started for a prompt owes an end"


def test_every_line_is_understood() -> None:
    for name in NAMES:
        translator = Translator()
        for number, line in enumerate(read(name).splitlines(), 1):
            translator.feed(line)
            assert not translator.line_problem, f"{name}: line {number}"


def ends(name: str) -> list[TurnEnded]:
    return [turn[-1] for turn in split_turns(translate_recording(name)) if isinstance(turn[-1], TurnEnded)]


def test_no_diagnostic_reaches_a_person() -> None:
    for name in NAMES:
        for end in ends(name):
            assert DIAGNOSTIC not in end.answer, name
            assert end.failure is None or DIAGNOSTIC not in end.failure.text, name


def test_the_answer_is_what_the_view_shows() -> None:
    for name in NAMES:
        for turn in split_turns(translate_recording(name)):
            end, view = turn[-1], _folded(turn[:-1])
            assert isinstance(end, TurnEnded), name
            assert end.answer == view.text or not view.text, name


def test_a_turn_that_started_says_how_to_resume_it() -> None:
    for name in NAMES:
        for turn in split_turns(translate_recording(name)):
            end, start = turn[-1], turn[0]
            assert isinstance(end, TurnEnded), name
            if isinstance(start, SessionStarted):
                assert end.resume is not None, name
                assert end.resume == start.resume, name


def _folded(events: list[EngineEvent]) -> TurnView:
    view = TurnView()
    for event in events:
        view = fold(view, event, 0.0)
    return view
