"""An agent that hangs, crashes, repeats itself, or says strange things: every turn ends once, and the next one works."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import msgspec
import pytest
from tests.engines.acp.rig import Scripted, session_of
from tests.engines.acp.test_turns import open_failure
from tests.engines.codex.rig import Reaction, end_of, notices_of, read

from pilothouse.core.event import ResumeToken, TextDelta
from pilothouse.engines.acp.agents import Agent

pytestmark = pytest.mark.anyio

LATE_REPLY = {"outcome": {"outcome": "cancelled"}}


def when_said(act: Callable[[], Awaitable[None]]) -> Reaction:
    return lambda event: act() if isinstance(event, TextDelta) else None


async def test_a_crash_in_the_middle_of_a_line_fails_the_turn_and_the_next_one_works(tmp_path: Path) -> None:
    async with session_of(Scripted(tmp_path)) as session:
        end = end_of(await read(session, "crash"))
        assert end.failure is not None
        assert (end.failure.kind, "exit code 3" in end.failure.text) == ("crash", True)
        again = end_of(await read(session, "Hello"))
    assert (again.answer, again.resume) == ("Hello", end.resume)


async def test_an_agent_that_obeys_no_stop_is_ended_and_the_next_turn_works(tmp_path: Path) -> None:
    async with session_of(Scripted(tmp_path, stop_grace_s=0.5)) as session:
        assert end_of(await read(session, "hang", when_said(session.interrupt))).outcome == "cancelled"
        assert end_of(await read(session, "Hello")).answer == "Hello"


async def test_one_process_survives_strange_late_huge_and_repeated_messages(tmp_path: Path) -> None:
    scripted = Scripted(tmp_path)
    async with session_of(scripted, approval_mode="full-access") as session:
        strange = await read(session, "strange")
        assert end_of(strange).answer == "Awake."
        assert notices_of(strange) == ["Mind the gap."]
        assert end_of(await read(session, "twice")).answer == "Once."
        assert end_of(await read(session, "late")).answer == "Before."
        with anyio.fail_after(60):  # until all that came late was read
            while LATE_REPLY not in scripted.replies():
                await anyio.sleep(0.01)
        after = await read(session, "Hello")
        assert end_of(after).answer == "Hello"
        assert "After the end" not in str(after)
        noisy = await read(session, "noise")
        assert (end_of(noisy).answer, len(notices_of(noisy))) == ("Still here.", 2)
        huge = await read(session, "huge")
        assert (end_of(huge).answer, len(notices_of(huge))) == ("Still here.", 1)
        assert end_of(await read(session, "deltas")).answer == "word " * 5000
    assert len(scripted.sent("initialize")) == 1
    told = [fields["what"] for event, fields in scripted.logged if event == "acp.unknown_message"]
    assert told == ["update dream_update", "session/dreamt"]


@pytest.mark.parametrize(
    ("prompt", "outcome", "words"),
    [
        ("stop max_tokens", "completed", "limit of tokens"),
        ("stop refusal", "completed", "refuses to go on"),
        ("stop on_a_whim", "completed", "does not know: on_a_whim"),
        ("stop cancelled", "cancelled", ""),
    ],
)
async def test_every_reason_to_stop_is_a_clear_end(
    tmp_path: Path, prompt: str, outcome: str, words: str
) -> None:
    async with session_of(Scripted(tmp_path)) as session:
        events = await read(session, prompt)
    assert (end_of(events).outcome, end_of(events).answer) == (outcome, "So far.")
    assert words in " ".join(notices_of(events))


@pytest.mark.parametrize(
    ("fault", "kind", "words"),
    [
        ("mute", "hang", "within 1 s"),
        ("refuses", "bad_request", "Scripted did not start: too old"),
        ("exits", "crash", "ended before it was ready (exit code 3): unknown option --acp"),
        ("version", "bad_request", "speaks version 7 of ACP"),
        ("flood", "bad_request", "does not speak ACP: it printed “Welcome!”"),
    ],
)
async def test_an_agent_that_does_not_begin_says_why(
    tmp_path: Path, fault: str, kind: str, words: str
) -> None:
    failure = await open_failure(Scripted(tmp_path, fault, open_s=1.0 if fault == "mute" else 60.0))
    assert failure.kind == kind
    assert words in failure.text


async def test_a_program_that_is_older_than_the_tested_one_says_so(tmp_path: Path) -> None:
    """As Copilot did before it spoke ACP."""
    program = tmp_path / "old-agent"
    usage = 'echo "error: unknown option --acp" >&2; echo "Try --help." >&2; exit 1'
    program.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo "Agent 0.0.328" && exit\n{usage}\n')
    program.chmod(0o755)
    agent = Agent("Agent", (str(program), "--acp"), "npm install -g agent", tested="1.0.102", asks=True)
    known = msgspec.structs.replace(agent, untrusted={"TRUST": "no"})
    failure = await open_failure(Scripted(tmp_path, agent=known, command=None))
    assert failure.kind == "bad_request"
    assert (
        "(exit code 1): error: unknown option --acp\nIs it too old? Version 0.0.328 was found" in failure.text
    )
    assert failure.text.endswith("tested with 1.0.102. To update it: npm install -g agent")
    newer = msgspec.structs.replace(known, tested="0.0.328")
    assert "too old" not in (await open_failure(Scripted(tmp_path, agent=newer, command=None))).text


async def test_a_program_that_only_prints_prose_is_named_with_its_words(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\necho 'Welcome, stranger.'\n")
    program.chmod(0o755)
    failure = await open_failure(Scripted(tmp_path, command=[str(program)]))
    assert (failure.kind, "it printed “Welcome, stranger.”" in failure.text) == ("bad_request", True)


async def test_prose_before_the_protocol_is_skipped(tmp_path: Path) -> None:
    async with session_of(Scripted(tmp_path, "prose")) as session:
        assert end_of(await read(session, "Hello")).answer == "Hello"


@pytest.mark.parametrize(
    ("command", "words"), [(["/nowhere/agent"], "Correct its command"), ([], "has no command")]
)
async def test_a_missing_program_says_what_to_do(tmp_path: Path, command: list[str], words: str) -> None:
    failure = await open_failure(Scripted(tmp_path, command=command))
    assert (failure.kind, words in failure.text) == ("bad_request", True)


async def test_a_session_that_the_agent_cannot_bring_back_is_stale(tmp_path: Path) -> None:
    scripted = Scripted(tmp_path, "forgetful")
    async with session_of(scripted) as session:
        token = end_of(await read(session, "Hello")).resume
    failure = await open_failure(scripted, resume=token)
    assert (failure.kind, "cannot go on" in failure.text) == ("stale_session", True)
    other = ResumeToken(scripted.engine()._id, "unknown")
    assert (await open_failure(Scripted(tmp_path), resume=other)).kind == "stale_session"


async def test_a_loaded_session_goes_on_without_its_replay(tmp_path: Path) -> None:
    scripted = Scripted(tmp_path, "loads")
    async with session_of(scripted) as session:
        token = end_of(await read(session, "Hello")).resume
    async with session_of(scripted, resume=token) as session:
        events = await read(session, "Hello again")
    assert end_of(events).answer == "Hello again"
    assert "You said this before" not in str(events)
    assert len(scripted.sent("session/load")) == 1


async def test_leaving_before_an_answer_stops_the_turn(tmp_path: Path) -> None:
    scripted = Scripted(tmp_path)
    async with scripted.engine() as engine, anyio.create_task_group() as tasks:

        async def begin() -> None:
            async with engine.open(scripted.brief()) as session:
                await read(session, "wait")

        tasks.start_soon(begin)
        with anyio.fail_after(60):
            while not scripted.log.exists() or not scripted.sent("session/prompt"):
                await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()
    assert len(scripted.sent("session/cancel")) == 1
    assert scripted.leftovers() == []
