"""`trace`: every step of a message, in order, with times from the first."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.cli.conftest import House
from tests.shelf import CALL, DONE, INBOX, OUTBOX, PART, PLACE, SESSION, T0

from pilothouse.cli.story import Sending, Story, render_story, tell
from pilothouse.core.ask import Ask, AskRow, Decision
from pilothouse.core.channel import LoggedEvent
from pilothouse.core.event import AskChanged, Asked, EngineEvent, ToolFinished, ToolStarted, TurnEnded
from pilothouse.core.ids import AskId, CallId

STEPS = [
    ("+0.00s", "message.accepted", "msg-1 in telegram:7 from Ada: mend the roof"),
    ("+0.00s", "turn.made", "turn-abc111 for puppet, cause: message"),
    ("+0.00s", "reply.stored", "out-1 to telegram:7: mended"),
    ("+1.00s", "turn.started", "attempt 1 on node 3"),
    ("+1.00s", "session.started", "big in /srv/app"),
    ("+2.00s", "prompt.added", "mend the roof"),
    ("+3.00s", "tool.started", "command: make roof"),
    ("+3.00s", "ask.stored", "ask-1 approval: Run make?"),
    ("+4.00s", "tool.finished", "ok: ok"),
    ("+4.00s", "ask.answered", "ask-1: allow by telegram:1"),
    ("+5.00s", "text.streamed", "2 pieces in 1.0s: mended"),
    ("+7.00s", "engine.ended", "completed"),
    ("+8.00s", "turn.ended", "done"),
    ("+8.00s", "message.done", "msg-1"),
    ("+8.50s", "part.sent", "1 of 1 as 99"),
    ("+8.50s", "reply.done", "out-1"),
]


@pytest.mark.parametrize("word", ["turn-abc111", "turn-abc", "abc", "msg-1", "out-1", "key-msg-1"])
def test_a_turn_is_found_by_its_id_its_beginning_or_a_message(lived_in: House, word: str) -> None:
    lines = lived_in.run("trace", word).stdout.splitlines()
    assert lines[0].startswith("turn-abc111  2023-11-1")
    assert lines[1].split() == ["AFTER", "STEP", "WHAT"]
    assert [tuple(line.split(maxsplit=2)) for line in lines[2:]] == STEPS


def test_the_steps_are_one_json_document(lived_in: House) -> None:
    document = lived_in.json("trace", "abc")
    assert document["turn"]["status"] == "done"
    assert [(step["what"], step["text"]) for step in document["steps"]] == [step[1:] for step in STEPS]


def test_a_message_that_never_became_a_turn_has_a_story_too(lived_in: House) -> None:
    document = lived_in.json("trace", "msg-2")
    assert document["turn"] is None
    assert [step["what"] for step in document["steps"]] == ["message.accepted", "message.done"]


def test_a_word_that_means_several_turns_lists_them(lived_in: House) -> None:
    done = lived_in.run("trace", "turn-ab")
    assert (done.returncode, done.stderr) == (1, 'error: "turn-ab" may be any of turn-abc111, turn-abd222\n')


def test_a_word_that_means_nothing_says_what_to_try(lived_in: House) -> None:
    done = lived_in.run("trace", "zzz")
    assert (done.returncode, "`pilothouse turns` lists the turns" in done.stderr) == (1, True)


def test_what_was_written_at_one_time_is_told_in_the_order_in_which_it_came_about() -> None:
    ask = Ask(AskId("ask-9"), "approval", "Run make?")
    row = AskRow(ask, PLACE, SESSION.id, DONE.id, "k", "answered", T0, Decision("allow"), T0)
    events: list[EngineEvent] = [
        Asked(ask),
        AskChanged(ask.id, "answered", said="allowed"),
        ToolStarted(CALL),
        ToolFinished(CallId("c1"), True),
        TurnEnded("completed"),
    ]
    turn = replace(DONE, created_at=T0, started_at=T0, ended_at=T0)
    inbox = [replace(row, created_at=T0, ended_at=T0) for row in (INBOX["msg-1"],)]
    logged = [LoggedEvent(n, DONE.id, T0 - n, event) for n, event in enumerate(events)]
    outbox = [Sending(replace(OUTBOX["out-1"], created_at=T0, ended_at=T0), [PART])]
    steps = tell(Story(turn, inbox, logged, [row], outbox))
    assert {after for after, _, _ in render_story(steps)} == {"+0.00s"}, "no time runs backwards"
    assert [step.what for step in steps] == [
        "message.accepted",
        "turn.made",
        "turn.started",
        "ask.stored",
        "ask.shown",
        "ask.answered",
        "ask.changed",
        "tool.started",
        "tool.finished",
        "engine.ended",
        "turn.ended",
        "message.done",
        "reply.stored",
        "part.sent",
        "reply.done",
    ], "even though the clock was set back"


def test_the_last_words_of_an_engine_that_failed_are_shown(lived_in: House) -> None:
    told = lived_in.run("trace", "turn-abd222").stdout
    assert told.split("LAST OUTPUT OF THE ENGINE\n")[1] == "  exit status 3\n  puppet: a string broke\n"
    assert "LAST WORDS" not in lived_in.run("trace", "abc").stdout
