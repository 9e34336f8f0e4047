"""Every recording of the real app-server and of `codex exec`, whole, byte by byte, and cut after every line: the same events, one end per turn."""

from __future__ import annotations

import pytest
from tests.engines.codex.golden import path_of, render
from tests.engines.codex.recorded import NAMES, read, split_turns, translate, translate_recording

from pilothouse.core.event import EngineEvent, SessionStarted, TurnEnded, well_formed
from pilothouse.core.view import TurnView, fold
from pilothouse.engines.codex.replay import CodexReplay


def test_there_are_recordings() -> None:
    assert len(NAMES) >= 45


@pytest.mark.parametrize("name", NAMES)
def test_a_recording_gives_its_golden_events_view_and_output(name: str) -> None:
    assert render(name) == path_of(name).read_text()


def test_bytes_one_by_one_give_the_same_events() -> None:
    for name in NAMES:
        raw = read(name)
        assert translate([raw[n : n + 1] for n in range(len(raw))]) == translate_recording(name), name


def test_a_recording_cut_anywhere_ends_every_turn_that_it_began() -> None:
    for name in NAMES:
        lines = read(name).splitlines(keepends=True)
        for kept in range(len(lines) + 1):
            turns = split_turns(translate(lines[:kept], -9))
            assert all(list(well_formed(turn)) == turn for turn in turns), name
            begun = (b'"method": "turn/started"', b'"type":"turn.started"')
            assert len(turns) == sum(word in line for line in lines[:kept] for word in begun), name


def test_every_line_is_understood() -> None:
    for name in NAMES:
        translator = CodexReplay()
        for number, line in enumerate(read(name).splitlines(), 1):
            translator.feed(line)
            assert not translator.line_problem, f"{name}: line {number}"


def test_the_answer_is_what_the_view_shows() -> None:
    for name in NAMES:
        for turn in split_turns(translate_recording(name)):
            end = turn[-1]
            assert isinstance(end, TurnEnded), name
            assert end.answer == _folded(turn[:-1]).text, name


def test_every_turn_says_how_to_resume_it() -> None:
    for name in NAMES:
        for turn in split_turns(translate_recording(name)):
            start, end = turn[0], turn[-1]
            assert isinstance(start, SessionStarted), name
            assert isinstance(end, TurnEnded), name
            assert end.resume is not None, name
            assert end.resume == start.resume, name


def test_the_text_of_a_request_that_is_made_again_is_withdrawn() -> None:
    answers = [turn[-1] for turn in split_turns(translate_recording("app_errors"))]
    assert "partial" in [end.answer for end in answers if isinstance(end, TurnEnded)]


def _folded(events: list[EngineEvent]) -> TurnView:
    view = TurnView()
    for event in events:
        view = fold(view, event, 0.0)
    return view
