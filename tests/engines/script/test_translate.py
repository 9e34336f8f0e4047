"""Any output of a process, cut anywhere, is one well-formed stream with one end."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pilothouse
from pilothouse.core.ask import hash_payload
from pilothouse.core.call import Call
from pilothouse.core.event import (
    Asked,
    EngineEvent,
    Notice,
    ResumeToken,
    SessionStarted,
    TurnEnded,
    well_formed,
)
from pilothouse.core.ids import BlobHash, EngineId
from pilothouse.core.message import Attachment
from pilothouse.core.outcome import Failure
from pilothouse.engines.link import Exit
from pilothouse.engines.script import wire
from pilothouse.engines.script.faults import GARBAGE
from pilothouse.engines.script.translate import TurnTranslator
from pilothouse.processes import LineSplitter

SCRIPT = """
[[turn]]
steps = [
  { say = "Hello {prompt}" }, { stream = "äöü 👩🏽‍🚀 text", chunk = 2, every_s = 0 }, { think = "hm" },
  { tool = "command", title = "ls", output = "a\\nb" }, { plan = ["a", "b"], active = 1 },
  { image = "a.png" }, { garbage = 12 }, { notice = "n" }, { usage = { cost_usd = 0.1 } },
  { flood = 3000 }, { say = "bye" },
]
"""
DEAD = Exit(code=3, stderr="last words")


def record(folder: Path) -> bytes:
    """What the real player prints for one turn."""
    script = folder / "script.toml"
    script.write_text(SCRIPT)
    (folder / "a.png").write_bytes(b"png")
    command = [sys.executable, "-m", "pilothouse.engines.script.player", str(script)]
    found_at = {"PYTHONPATH": str(Path(pilothouse.__file__).parent.parent)}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=found_at) as player:
        assert player.stdin is not None
        assert player.stdout is not None
        for line in (wire.Open("s", "/w"), wire.Prompt("s", 1, "you")):
            player.stdin.write(wire.encode(line) + b"\n")
        player.stdin.flush()
        lines: list[bytes] = []
        while not lines or b'"turn_ended"' not in lines[-1]:
            lines.append(player.stdout.readline())
            assert lines[-1], "the player ended too early"
        player.stdin.close()
        return b"".join(lines)


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return record(tmp_path_factory.mktemp("recording"))


def translate(lines: Iterable[bytes], last: Exit = DEAD) -> list[EngineEvent]:
    turn = TurnTranslator("s", 1, "/w")
    events: list[EngineEvent] = []
    for line in lines:
        for event in turn.feed(line):
            if isinstance(event, wire.Media):
                blob = Attachment(event.name, event.media_type, len(event.data), BlobHash("b"))
                events += turn.keep(blob)
            else:
                events.append(event)
    return [*events, *turn.end(last)]


def assert_well_formed(events: list[EngineEvent]) -> None:
    assert list(well_formed(events)) == events
    assert [type(event) for event in events].count(TurnEnded) == 1
    assert isinstance(events[-1], TurnEnded)


def split(data: bytes, size: int) -> list[bytes]:
    splitter = LineSplitter()
    lines = [
        line for start in range(0, len(data), size) for line in splitter.feed(data[start : start + size])
    ]
    return [line.data for line in (*lines, *splitter.end())]


def test_the_stream_fed_byte_by_byte_gives_the_same_events(recording: bytes) -> None:
    whole = translate(recording.splitlines())
    assert_well_formed(whole)
    assert isinstance(whole[-1], TurnEnded)
    assert whole[-1].outcome == "completed"
    for size in (1, 7, len(recording)):
        assert translate(split(recording, size)) == whole


def test_the_stream_cut_after_every_line_ends_once(recording: bytes) -> None:
    lines = recording.splitlines()
    for cut in range(len(lines)):
        events = translate(lines[:cut])
        assert_well_formed(events)
        assert isinstance(events[-1], TurnEnded)
        assert events[-1].failure == Failure(
            "crash",
            "The engine's process ended unexpectedly (exit code 3).",
            detail="exit code 3\nlast words",
        )


def test_the_stream_cut_after_every_byte_ends_once(recording: bytes) -> None:
    for cut in range(0, len(recording), 3):
        assert_well_formed(translate(split(recording[:cut], 1024)))


@st.composite
def messy(draw: st.DrawFn) -> list[bytes]:
    """Lines of the protocol in any order and number, foreign ones among them."""
    events: list[dict[str, Any]] = [
        {"type": "session_started"},
        {"type": "text_delta", "block_id": "b", "text": "x"},
        {"type": "tool_started", "call": {"id": "c", "kind": "read", "title": "t"}},
        {"type": "tool_finished", "call_id": "c", "ok": True},
        {"type": "asked", "ask": {"id": "a", "kind": "approval", "title": "t"}},
        {"type": "turn_ended", "outcome": "completed"},
        {"type": "turn_ended", "outcome": "failed"},
    ]
    lines = [
        json.dumps({"type": "event", "session": session, "turn": turn, "event": event}).encode()
        for event in events
        for session, turn in (("s", 1), ("s", 2), ("other", 1))
    ]
    return draw(st.lists(st.one_of(st.sampled_from(lines), st.sampled_from(GARBAGE), st.binary(max_size=20))))


@given(messy())
def test_any_mess_gives_a_well_formed_stream_with_at_most_two_notices(lines: list[bytes]) -> None:
    events = translate(lines)
    assert_well_formed(events)
    assert sum(isinstance(event, Notice) for event in events) <= 2


def test_noise_is_quoted_once_and_then_counted() -> None:
    events = translate([b"first", *[b"more"] * 1000])
    texts = [event.text for event in events if isinstance(event, Notice)]
    assert texts == [
        "The engine printed something that is not of its protocol: first",
        "The engine printed 1000 more lines that are not of its protocol.",
    ]


def line(event: dict[str, Any]) -> bytes:
    return json.dumps({"type": "event", "session": "s", "turn": 1, "event": event, "new_field": 1}).encode()


def test_a_token_is_ours_whatever_the_program_calls_itself() -> None:
    token = {"engine": "claude", "value": "v", "cwd": "/elsewhere"}
    events = translate([line({"type": "session_started", "resume": token})])
    assert events[0] == SessionStarted(ResumeToken(EngineId("script"), "v", "/w"))


def test_the_hash_of_an_ask_is_ours() -> None:
    ask = {"id": "a", "kind": "approval", "title": "t", "payload": {"x": 1}, "payload_hash": "forged"}
    event = next(e for e in translate([line({"type": "asked", "ask": ask})]) if isinstance(e, Asked))
    assert event.ask.payload_hash == hash_payload({"x": 1})


@pytest.mark.parametrize(
    ("more", "call"),
    [
        (
            {"payload": {"tool": "Bash", "input": {"command": "make"}, "cwd": "/w"}},
            Call("command", "Bash", "/w", "make", shown=("command",)),
        ),
        (
            {"payload": {"x": 1}, "call": {"kind": "command", "command": "make", "cwd": "/w"}},
            Call("command", cwd="/w", command="make"),
        ),
        ({"payload": {"tool": "Bash"}, "call": {"kind": "notes"}}, Call("notes")),
        ({"payload": {"x": 1}}, None),
        ({"payload": {"tool": "Bash", "input": {}}, "kind": "question"}, None),
    ],
)
def test_the_call_of_an_ask_is_the_program_s_or_is_read_from_its_payload(
    more: dict[str, Any], call: Call | None
) -> None:
    ask = {"id": "a", "kind": "approval", "title": "t", **more}
    event = next(e for e in translate([line({"type": "asked", "ask": ask})]) if isinstance(e, Asked))
    assert event.ask.call == call
    assert event.ask.payload == more["payload"]


def test_a_program_cannot_name_a_blob_of_the_store() -> None:
    stolen = {"name": "n", "media_type": "m", "size": 1, "blob": "someone-elses"}
    events = translate([line({"type": "media_produced", "attachment": stolen})])
    assert [type(event) for event in events] == [Notice, TurnEnded]


def test_a_process_that_we_ended_after_an_interrupt_means_cancelled() -> None:
    turn = TurnTranslator("s", 1, "/w")
    turn.interrupted = True
    assert turn.end(Exit(code=-9)) == [TurnEnded("cancelled")]
    assert turn.end(Exit(code=-9)) == []


def test_a_signal_is_named_as_one() -> None:
    events = translate([], Exit(code=-11))
    assert isinstance(events[-1], TurnEnded)
    assert events[-1].failure is not None
    assert "signal 11" in events[-1].failure.text
