"""`pilothouse replay` in real processes: events, a view, and an exit code that tells of what was not understood."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.conftest import House
from tests.dists import write_dist

RECORDINGS = Path(__file__).parents[1] / "engines" / "claude" / "recordings"
SCRIPTED = [
    '{"type": "hello", "protocol": 1}',
    '{"type": "event", "session": "a", "turn": 1, "event": {"type": "session_started"}}',
    '{"type": "event", "session": "b", "turn": 1, "event": {"type": "session_started"}}',
    '{"type": "event", "session": "a", "turn": 1, "event": {"type": "text_set", "block_id": "1", "text": "A"}}',
    '{"type": "media", "session": "b", "turn": 1, "name": "b.png", "media_type": "image/png", "data": "Yg=="}',
    '{"type": "event", "session": "a", "turn": 1, "event": {"type": "turn_ended", "outcome": "completed"}}',
]


@pytest.fixture
def engines(house: House) -> House:
    points = {"claude": "pilothouse.engines.claude:ENGINE", "script": "pilothouse.engines.script:ENGINE"}
    write_dist(house.packages, "engines", {"engines": points})
    return house


def test_events_are_printed_as_json_lines(engines: House) -> None:
    done = engines.run("replay", "claude", str(RECORDINGS / "d_multi_tools.jsonl"), "--json")
    types = [json.loads(line)["type"] for line in done.stdout.splitlines()]
    assert done.returncode == 0
    assert types[0] == "session_started"
    assert types[-1] == "turn_ended"
    assert types.count("tool_started") == types.count("tool_finished") == 6


def test_several_turns_give_several_streams(engines: House) -> None:
    done = engines.run("replay", "claude", str(RECORDINGS / "f_multiturn_one_process.jsonl"), "--json")
    types = [json.loads(line)["type"] for line in done.stdout.splitlines()]
    assert types == ["session_started", "text_set", "turn_ended"] * 3


def test_a_view_is_what_a_channel_would_show(engines: House) -> None:
    done = engines.run("replay", "claude", str(RECORDINGS / "l_subagent_foreground.jsonl"), "--view")
    assert "· Running subtask…  task: do subtask" in done.stdout
    assert "  · Running command…  echo from-sub" in done.stdout
    assert "delegating\n\nmain final" in done.stdout
    assert "sub final report" not in done.stdout
    assert "✓ 2 steps" in done.stdout


def test_without_an_option_each_event_is_one_short_line(engines: House) -> None:
    done = engines.run("replay", "claude", str(RECORDINGS / "00_first.jsonl"))
    assert [line.split('"')[3] for line in done.stdout.splitlines()] == [
        "session_started",
        "text_set",
        "turn_ended",
    ]
    assert all(len(line) <= 160 for line in done.stdout.splitlines())


def test_a_line_that_is_not_understood_is_named_and_costs_the_exit_code(engines: House) -> None:
    recorded = (RECORDINGS / "00_first.jsonl").read_text().splitlines()
    strange = [recorded[0], '{"type": "telepathy"}', "oops \x1b[31m", *recorded[1:]]
    done = engines.run("replay", "claude", "-", "--json", said="\n".join(strange))
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        'line 2: unknown: telepathy: {"type": "telepathy"}',
        "line 3: no JSON object: oops [31m",
    ]
    assert json.loads(done.stdout.splitlines()[-1])["outcome"] == "completed"


def test_a_recording_that_breaks_off_ends_as_a_failure(engines: House) -> None:
    done = engines.run("replay", "claude", "-", "--view", said=SCRIPTED[0])
    assert done.returncode == 1
    assert "Failed: Claude Code ended without finishing its turn" in done.stdout


def test_the_alias_of_an_engine_is_understood(engines: House) -> None:
    assert engines.run("replay", "claude-code", str(RECORDINGS / "00_first.jsonl")).returncode == 0


def test_the_script_engine_brings_a_translator_too_and_mixes_no_turns(engines: House) -> None:
    done = engines.run("replay", "script", "-", "--json", said="\n".join(SCRIPTED))
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0
    assert [event["type"] for event in events] == [
        "session_started",
        "text_set",
        "turn_ended",
        "session_started",
        "media_produced",
        "turn_ended",
    ]
    assert events[-1]["failure"]["kind"] == "crash"


def test_an_engine_without_a_translator_says_so(engines: House) -> None:
    done = engines.run("replay", "puppet", "-")
    assert done.returncode == 1
    assert 'the engine "puppet" has no translator' in done.stderr


def test_two_ways_to_show_are_one_too_many(engines: House) -> None:
    done = engines.run("replay", "claude", "-", "--json", "--view")
    assert done.returncode == 2
    assert "give one" in done.stderr
