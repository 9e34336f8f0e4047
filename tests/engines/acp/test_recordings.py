"""Every recording of a real agent, whole, byte by byte, and cut after every line: the same events, one end per turn.

Recordings of Gemini CLI's `-p --output-format stream-json` are not among them: it cannot ask before a call, so no engine
drives it and nothing reads its lines.
"""

from __future__ import annotations

import pytest
from tests.engines.acp.recorded import (
    GOLDEN,
    NAMES,
    new_replay,
    read_recording,
    render,
    translate,
    translate_recording,
)
from tests.engines.codex.recorded import split_turns

from pilothouse.core.event import Asked, TurnEnded, well_formed
from pilothouse.core.view import TurnView, fold


def test_there_are_recordings_of_five_agents() -> None:
    assert len({name.partition("_")[0] for name in NAMES}) == 5


@pytest.mark.parametrize("name", NAMES)
def test_a_recording_gives_its_golden_events_view_and_output(name: str) -> None:
    assert render(name) == (GOLDEN / f"{name}.txt").read_text()


@pytest.mark.parametrize("name", NAMES)
def test_bytes_one_by_one_give_the_same_events(name: str) -> None:
    raw = read_recording(name)
    assert translate(name, [raw[n : n + 1] for n in range(len(raw))]) == translate_recording(name)


@pytest.mark.parametrize("name", NAMES)
def test_a_recording_cut_anywhere_ends_every_turn_that_it_began(name: str) -> None:
    lines = read_recording(name).splitlines(keepends=True)
    for kept in range(len(lines) + 1):
        turns = split_turns(translate(name, lines[:kept], -9))
        assert all(list(well_formed(turn)) == turn for turn in turns)
        assert len(turns) == sum(b'"method": "session/prompt"' in line for line in lines[:kept])


@pytest.mark.parametrize("name", NAMES)
def test_every_line_is_understood_and_the_answer_is_what_the_view_shows(name: str) -> None:
    translator = new_replay(name)
    for number, line in enumerate(read_recording(name).splitlines(), 1):
        translator.feed(line)
        assert not translator.line_problem, f"line {number}"
    for turn in split_turns(translate_recording(name)):
        view, end = TurnView(), turn[-1]
        for event in turn[:-1]:
            view = fold(view, event, 0.0)
        assert isinstance(end, TurnEnded)
        assert end.answer == view.text


def test_every_command_and_change_that_was_asked_about_can_be_read() -> None:
    asked = [event.ask for name in NAMES for event in translate_recording(name) if isinstance(event, Asked)]
    kinds = {ask.call.kind for ask in asked if ask.call is not None}
    assert len(asked) >= 10
    assert kinds == {"command", "change"}
