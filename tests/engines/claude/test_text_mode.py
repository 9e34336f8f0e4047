"""In text mode all that is printed is the answer, or what went wrong."""

from __future__ import annotations

import pytest

from pilothouse.core.engine import Step
from pilothouse.core.event import (
    Notice,
    ResumeToken,
    SessionStarted,
    TextSet,
    ToolCall,
    ToolFinished,
    ToolStarted,
    TurnEnded,
)
from pilothouse.core.ids import CallId, EngineId
from pilothouse.engines.claude.text_mode import MAX_BYTES, TextTranslator

TOKEN = ResumeToken(EngineId("claude"), "abc", "/srv/app")
TOOL = ToolStarted(ToolCall(CallId("t1"), "read", "tool: Read a.txt"))


def last_of(steps: list[Step]) -> TurnEnded:
    assert isinstance(steps[-1], TurnEnded)
    return steps[-1]


def test_lines_are_one_block_and_the_answer() -> None:
    translator = TextTranslator(TOKEN)
    for line in (b"one", b"", b"two \xff"):
        translator.feed(line)
    start, text, end = translator.end(0)
    assert start == SessionStarted(TOKEN, cwd="/srv/app")
    assert text == TextSet("text:0", "one\n\ntwo �")
    assert end == TurnEnded("completed", "one\n\ntwo �", resume=TOKEN)


@pytest.mark.parametrize(
    ("printed", "kind"),
    [
        ("Failed to authenticate. API Error: 401 scripted error", "auth"),
        ("Not logged in · Please run /login", "auth"),
        ("API Error: Request rejected (429) · scripted error", "rate_limit"),
        ("API Error: 529 scripted error. This is a server-side issue", "overloaded"),
        ("API Error: Repeated 529 Overloaded errors.", "overloaded"),
        ("API Error: 500 Internal server error.", "transport"),
        ("API Error: 400 messages.0: something invalid", "bad_request"),
        ("API Error: Connection refused — a firewall may be blocking it (ECONNREFUSED)", "transport"),
        ("Prompt is too long · the request is ~300000 tokens (limit 200000)", "context_overflow"),
        ("Error: Reached max turns (1)", "budget"),
        ("Error: Reached maximum budget ($0.5)", "budget"),
        ("You've hit your limit · resets 7:37pm (UTC)", "quota"),
        ("something else entirely", "crash"),
    ],
)
def test_what_is_printed_before_a_bad_exit_is_why_it_failed_and_no_answer(printed: str, kind: str) -> None:
    translator = TextTranslator(TOKEN)
    translator.feed(printed.encode())
    end = last_of([*translator.end(1, "")])
    assert (end.outcome, end.answer, end.resume) == ("failed", "", TOKEN)
    assert end.failure is not None
    assert end.failure.kind == kind
    assert end.failure.text


def test_a_process_that_printed_nothing_has_failed_and_left_no_session() -> None:
    (end,) = TextTranslator(TOKEN).end(0, "")
    assert isinstance(end, TurnEnded)
    assert (end.outcome, end.resume) == ("failed", None)


def test_a_session_that_is_not_there_is_told_as_such() -> None:
    (end,) = TextTranslator(TOKEN).end(1, "No conversation found with session ID: abc")
    assert isinstance(end, TurnEnded)
    assert end.failure is not None
    assert (end.failure.kind, end.resume) == ("stale_session", None)


def test_what_was_interrupted_was_cancelled_and_can_be_resumed_once_it_had_begun() -> None:
    translator = TextTranslator(TOKEN)
    translator.interrupted = translator.begun = True
    assert last_of([*translator.end(143)]) == TurnEnded("cancelled", resume=TOKEN)
    assert not translator.end(143)


def test_of_what_the_log_tells_only_tools_are_shown_and_each_is_closed() -> None:
    translator = TextTranslator(TOKEN)
    assert translator.watch([TextSet("b", "words"), Notice("info", "x", "y")]) == []
    assert translator.watch([SessionStarted(), TOOL]) == [SessionStarted(TOKEN, cwd="/srv/app"), TOOL]
    translator.feed(b"done")
    assert [type(step) for step in translator.end(0)] == [TextSet, ToolFinished, TurnEnded]


def test_an_endless_answer_is_bounded() -> None:
    translator = TextTranslator(TOKEN)
    for _ in range(MAX_BYTES // 100_000 + 10):
        translator.feed(b"x" * 100_000)
    assert len(last_of([*translator.end(0)]).answer) <= MAX_BYTES
