"""A turn in a few words: what it does now, and what it took."""

from __future__ import annotations

from typing import Any

import pytest

from pilothouse.channels.discord.payload import Look as DiscordLook
from pilothouse.channels.discord.render import render as render_discord
from pilothouse.channels.progress import (
    Step,
    activity_label,
    activity_text,
    done_lines,
    last_steps,
    short_path,
    status_line,
)
from pilothouse.channels.telegram.payload import Look, Message, unpack
from pilothouse.channels.telegram.render import render
from pilothouse.core.ask import Ask
from pilothouse.core.event import (
    Asked,
    EngineEvent,
    Outcome,
    SessionStarted,
    TextDelta,
    ToolCall,
    ToolFinished,
    ToolKind,
    ToolStarted,
    TurnEnded,
    Usage,
)
from pilothouse.core.ids import AskId, CallId
from pilothouse.core.message import Content, DoneStep
from pilothouse.core.text import format_cost, format_duration
from pilothouse.core.view import TurnView, fold

READ = ToolCall(CallId("c"), "read", "Read", {"path": "/home/me/src/auth/login.py"})


@pytest.mark.parametrize(
    ("kind", "title", "detail", "label"),
    [
        ("read", "Read", {"file_path": "/a/b/src/auth/login.py"}, "Reading …/auth/login.py"),
        ("read", "auth/login.py", {}, "Reading auth/login.py"),
        ("read", "`src/auth/login.py`", {}, "Reading …/auth/login.py"),
        ("read", "Read", {"path": "C:\\work\\src\\main.py"}, "Reading …/src/main.py"),
        ("read", "Read", {}, "Reading a file…"),
        ("file_change", "Write", {"path": "notes.md"}, "Writing notes.md"),
        ("file_change", "Edit src/app/main.py", {}, "Editing …/app/main.py"),
        ("file_change", "patch", {"change": "add", "path": "a/b/c"}, "Writing a/b/c"),
        ("file_change", "patch", {}, "Editing files…"),
        ("command", "pytest -q", {}, "Running command…"),
        ("search", "Grep", {"pattern": "x"}, "Searching content…"),
        ("search", "Glob **/*.py", {}, "Finding files…"),
        ("web", "WebSearch", {"query": "x"}, "Searching the web…"),
        ("web", "WebFetch", {"url": "https://example.org"}, "Fetching URL…"),
        ("subagent", "Task", {}, "Running subtask…"),
        ("tool", "mcp__db__query", {}, "Running mcp__db__query…"),
        ("note", "", {}, "Running a tool…"),
        ("tool", "two\nlines", {}, "Running two lines…"),
    ],
)
def test_a_label_says_what_a_call_does(
    kind: ToolKind, title: str, detail: dict[str, Any], label: str
) -> None:
    assert activity_label(ToolCall(CallId("c"), kind, title, detail)) == label


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-3, "0s"),
        (0, "0s"),
        (12.9, "12s"),
        (60, "1m 00s"),
        (62, "1m 02s"),
        (3599, "59m 59s"),
        (7380, "2h 03m"),
    ],
)
def test_a_duration_is_short(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


def test_a_cost_has_the_digits_that_matter() -> None:
    assert [format_cost(Usage(usd)) for usd in (0.0234, 0, 12.345)] == ["$0.0234", "$0.0000", "$12.35"]


def test_a_path_keeps_its_last_two_parts() -> None:
    """P3: a path that is no longer than its short form stays as it is."""
    assert [short_path(p) for p in ("", "a", "a/b", "a/b/c", "/etc/passwd", "/srv/src/b/c")] == [
        "",
        "a",
        "a/b",
        "a/b/c",
        "/etc/passwd",
        "…/b/c",
    ]


def folded(*events: EngineEvent) -> TurnView:
    view = TurnView()
    for event in events:
        view = fold(view, event, 100.0)
    return view


def test_the_status_of_a_running_turn_names_its_step() -> None:
    view = folded(SessionStarted(), ToolStarted(READ))
    assert status_line(view, 112.0) == "Reading …/auth/login.py · 12s · step 1"


def test_before_anything_happens_it_thinks() -> None:
    assert status_line(TurnView(), 0.0) == "Thinking…"


def test_between_tools_it_thinks_and_then_writes() -> None:
    done = (SessionStarted(), ToolStarted(READ), ToolFinished(READ.id, ok=True))
    assert status_line(folded(*done), 101.0) == "Thinking… · 1s · step 1"
    assert status_line(folded(*done, TextDelta("b", "So")), 101.0) == "Writing… · 1s · step 1"


def test_an_open_ask_comes_first() -> None:
    view = folded(SessionStarted(), ToolStarted(READ), Asked(Ask(AskId("a"), "approval", "May I?")))
    assert status_line(view, 103.0) == "Waiting for your answer · 3s · step 1"


@pytest.mark.parametrize(
    ("outcome", "line"),
    [
        ("completed", "✓ 1 step · 12s · $0.0234"),
        ("failed", "✗ failed · 1 step · 12s · $0.0234"),
        ("cancelled", "■ stopped · 1 step · 12s · $0.0234"),
    ],
)
def test_the_closing_line_says_what_it_took(outcome: Outcome, line: str) -> None:
    end = TurnEnded(outcome, usage=Usage(cost_usd=0.0234))
    view = fold(folded(SessionStarted(), ToolStarted(READ)), end, 112.0)
    assert status_line(view, 112.0) == status_line(view, 9999.0) == line


def test_what_was_not_told_is_not_shown() -> None:
    assert status_line(fold(folded(SessionStarted()), TurnEnded("completed"), 101.0), 101.0) == "✓ 1s"


@pytest.mark.parametrize(
    ("kind", "title", "detail", "text"),
    [
        ("command", "pytest -q\n tests", {}, "Running command… pytest -q tests"),
        ("command", "command", {"command": 7}, "Running command…"),
        ("search", "grep: TODO", {}, "Searching content… TODO"),
        ("search", "Grep", {"pattern": "TODO"}, "Searching content… TODO"),
        ("web", "fetch: https://example.org", {"url": "u"}, "Fetching URL… https://example.org"),
        ("subagent", "task: find the bug", {}, "Running subtask… find the bug"),
        ("subagent", "Task", {}, "Running subtask…"),
        ("read", "Read", {"path": "a/b"}, "Reading a/b"),
        ("command", "x" * 500, {}, "Running command… " + "x" * 80),
    ],
)
def test_what_is_going_on_says_what_runs(
    kind: ToolKind, title: str, detail: dict[str, Any], text: str
) -> None:
    assert activity_text(ToolCall(CallId("c"), kind, title, detail)) == text


def test_a_step_that_was_denied_says_so() -> None:
    call = ToolCall(CallId("c"), "command", "git push")
    view = folded(SessionStarted(), ToolStarted(call), ToolFinished(call.id, ok=False, denied="a rule"))
    assert [(step.label, step.tail) for step in last_steps(view, 100.0)] == [("git push", "· denied")]


STEPS = tuple(DoneStep(f"make {number}", is_command=True) for number in range(30))


def test_the_steps_below_an_answer_are_few_and_the_rest_is_counted() -> None:
    shown, more = done_lines([DoneStep("a.py"), *STEPS], 2)
    assert shown == [Step("✓", "changed a.py"), Step("✓", "make 0", is_code=True)]
    assert more == 29


def test_steps_are_folded_on_telegram_small_on_discord_and_can_be_switched_off() -> None:
    answer = Content("Done.", "answer", steps=STEPS)
    (part,) = render(answer, Look())
    message = unpack(part)
    assert isinstance(message, Message)
    assert "expandable_blockquote" in {entity.type for entity in message.entities}
    assert message.text.endswith("✓ make 19\n… and 10 more")
    (small,) = render_discord(answer)
    assert small.text.splitlines()[1] == "-# ✓ `make 0`"
    assert small.text.splitlines()[-1] == "-# … and 25 more"
    assert [part.text for part in render(answer, Look(steps=False))] == ["Done."]
    assert [part.text for part in render_discord(answer, DiscordLook(steps=False))] == ["Done."]
