"""Turns of the real CLI against a scripted API: sessions, stops, pushes, images, and how they fail."""

from __future__ import annotations

import base64
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.engines.claude.api import Reply, bash, call, open_api, pause, refuse, say, think, use, wait_for
from tests.engines.claude.image_server import PIXEL
from tests.engines.claude.rig import (
    Rig,
    answer_with,
    end_of,
    notices_of,
    play,
    read,
    read_prompt,
)

from pilothouse.core.ask import Decision
from pilothouse.core.errors import EngineError
from pilothouse.core.event import (
    EngineEvent,
    MediaProduced,
    Notice,
    ResumeToken,
    SessionStarted,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolStarted,
)
from pilothouse.core.ids import EngineId
from pilothouse.core.mcp import McpServer, for_engines
from pilothouse.core.turn import Prompt
from pilothouse.engines.claude.failures import EXPIRED, LOG_IN

pytestmark = pytest.mark.slow

FULL: dict[str, Any] = {"approval_mode": "full-access"}


def resume_of(events: list[EngineEvent]) -> ResumeToken:
    token = end_of(events).resume
    assert token is not None
    return token


async def test_a_turn_of_a_new_session_is_answered(tmp_path: Path) -> None:
    with open_api(Reply([think("hm"), {"text": "Good day."}])) as api:
        rig = Rig(tmp_path, api)
        events = await play(rig)
    end = end_of(events)
    assert (end.outcome, end.answer) == ("completed", "Good day.")
    assert end.usage is not None and end.usage.cost_usd
    assert any(isinstance(event, TextDelta) for event in events)
    assert any(isinstance(event, ThinkingDelta) for event in events)
    assert rig.leftovers() == []


async def test_the_session_id_is_ours_and_the_token_knows_its_folder(tmp_path: Path) -> None:
    with open_api(say("one")) as api:
        rig = Rig(tmp_path, api)
        events = await play(rig)
    token = resume_of(events)
    started = next(fields for name, fields in rig.logged if name == "process.started")
    assert token == ResumeToken(EngineId("claude"), started["session"], str(rig.workspace))


async def test_follow_ups_go_to_the_same_process(tmp_path: Path) -> None:
    with open_api(say("one"), say("two"), say("three")) as api:
        rig = Rig(tmp_path, api)
        async with rig.engine() as engine:
            async with engine.open(rig.brief()) as session:
                token = resume_of(await read(session))
                await read(session)
            async with engine.open(rig.brief(resume=token)) as session:
                assert end_of(await read(session)).answer == "three"
    assert [name for name, _ in rig.logged].count("process.started") == 1
    assert "two" in api.main[-1].text


async def test_an_interrupt_ends_a_command_and_its_children_within_three_seconds(tmp_path: Path) -> None:
    with open_api(bash("echo; sh -c 'sleep 600; true'"), say("alive")) as api:
        rig = Rig(tmp_path, api)
        async with rig.engine() as engine, engine.open(rig.brief(**FULL)) as session:
            at = 0.0

            async def stop() -> None:
                nonlocal at
                with anyio.fail_after(60):
                    while not sleepers(rig):
                        await anyio.sleep(0.05)
                at = anyio.current_time()
                await session.interrupt()

            events = await read(session, when=lambda e: stop() if isinstance(e, ToolStarted) else None)
            while sleepers(rig):
                assert anyio.current_time() - at < 3.0
                await anyio.sleep(0.05)
            assert end_of(events).outcome == "cancelled"
            assert end_of(await read(session)).answer == "alive"


def sleepers(rig: Rig) -> list[str]:
    return [line for line in rig.leftovers() if "sleep 60" in line and "bash" not in line]


async def test_a_push_during_a_tool_is_folded_into_one_answer(tmp_path: Path) -> None:
    with open_api(bash("echo; while [ ! -e go ]; do sleep 0.1; done"), say("both done")) as api:
        rig = Rig(tmp_path, api)
        async with rig.engine() as engine, engine.open(rig.brief(**FULL)) as session:

            async def push() -> None:
                assert await session.steer(Prompt("and paint it blue"))
                await anyio.sleep(1.0)  # until the CLI has read it: nothing tells
                (rig.workspace / "go").touch()

            events = await read(session, when=lambda e: push() if isinstance(e, ToolStarted) else None)
        assert len(api.main) == 2
        assert "and paint it blue" in api.main[-1].text
    assert end_of(events).answer == "both done"


async def test_a_push_that_comes_too_late_to_be_folded_still_ends_in_one_turn(tmp_path: Path) -> None:
    pushed = threading.Event()
    with open_api(Reply([{"text": "first."}, wait_for(pushed)]), say("second.")) as api:
        rig = Rig(tmp_path, api)
        async with rig.engine() as engine, engine.open(rig.brief()) as session:

            async def push() -> None:
                if not pushed.is_set():
                    assert await session.steer(Prompt("one more"))
                    await anyio.sleep(1.0)  # until the CLI has read it: nothing tells
                    pushed.set()

            events = await read(session, when=lambda e: push() if isinstance(e, TextDelta) else None)
            assert not await session.steer(Prompt("too late"))
    assert end_of(events).answer == "first.\n\nsecond."
    assert sum(isinstance(event, SessionStarted) for event in events) == 1


async def test_images_go_in(tmp_path: Path) -> None:
    with open_api(say("a dot")) as api:
        rig = Rig(tmp_path, api)
        png = await rig.blobs.put(base64.b64decode(PIXEL), "dot.png", "image/png")
        log = await rig.blobs.put(b"line one\n", "../../../notes.log", "text/plain")
        fake = await rig.blobs.put(b"\x89PNG\r\n\x1a\n" + b"\0" * (21 << 20), "big.png", "image/png")
        async with rig.engine() as engine, engine.open(rig.brief()) as session:
            events = await read_prompt(session, Prompt("What is it?", (png, log, fake)))
        assert PIXEL in api.main[0].text
        assert "downloads/notes.log" in api.main[0].text
    assert (rig.workspace / "downloads" / "notes.log").read_bytes() == b"line one\n"
    assert any("big.png" in text for text in notices_of(events))


async def test_images_come_out_of_a_tool_once(tmp_path: Path) -> None:
    folder = str(Path(__file__).parent)
    server = for_engines(
        McpServer(command=sys.executable, args=("image_server.py",), cwd=folder, env={"A": "1"})
    )
    with open_api(call("mcp__images__draw"), say("there")) as api:
        rig = Rig(tmp_path, api, extra_args=["--allowedTools", "mcp__images__draw"])
        async with rig.engine() as engine:
            brief = rig.brief(
                mcp_servers={"images": server}, environment={"ENABLE_TOOL_SEARCH": "false"}, **FULL
            )
            async with engine.open(brief) as session:
                events = await read(session)
    produced = [event.attachment for event in events if isinstance(event, MediaProduced)]
    assert len(produced) == 1
    assert produced[0].media_type == "image/png"
    assert rig.leftovers() == []


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (refuse(401, "authentication_error"), "auth"),
        (refuse(429, "rate_limit_error", retry_after="3600"), "rate_limit"),
        (refuse(529, "overloaded_error"), "overloaded"),
        (refuse(500), "transport"),
        (
            refuse(400, "invalid_request_error", "prompt is too long: 300000 tokens > 200000 maximum"),
            "context_overflow",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_failing_api_fails_the_turn_with_its_kind(tmp_path: Path, reply: Reply, kind: str) -> None:
    with open_api(reply) as api:
        events = await play(Rig(tmp_path, api, max_retries=0))
    failure = end_of(events).failure
    assert failure is not None
    assert failure.kind == kind
    assert "ede_diagnostic" not in failure.text


EXPIRED_TOKEN = "OAuth token has expired. Please obtain a new token or refresh your existing token."


async def test_an_expired_login_is_named_and_the_retries_of_the_program_are_not_shown(tmp_path: Path) -> None:
    with open_api(refuse(401, "authentication_error", EXPIRED_TOKEN)) as api:
        rig = Rig(tmp_path, api, max_retries=1)
        rig.more = {"ANTHROPIC_API_KEY": "", "ANTHROPIC_AUTH_TOKEN": "expired"}
        events = await play(rig)
        assert len(api.main) == 2, "Claude Code itself tries once more"
    failure = end_of(events).failure
    assert failure is not None
    assert (failure.text, failure.fix) == (EXPIRED, LOG_IN)
    assert notices_of(events) == []


async def test_a_server_that_refuses_connections_is_named(tmp_path: Path) -> None:
    with open_api(say("never")) as api:
        rig = Rig(tmp_path, api, max_retries=0)
        rig.more = {"ANTHROPIC_BASE_URL": "http://127.0.0.1:1"}
        failure = end_of(await play(rig)).failure
    assert failure is not None
    assert (failure.kind, failure.text) == (
        "transport",
        "Claude's server does not answer (127.0.0.1:1: connection refused).",
    )


async def test_an_api_that_never_answers_is_given_up(tmp_path: Path) -> None:
    with open_api(Reply(ending="hang")) as api:
        events = await play(Rig(tmp_path, api, max_retries=0, api_timeout_s=2.0))
    assert end_of(events).outcome == "failed"


async def test_a_stream_that_breaks_off_is_taken_up_again(tmp_path: Path) -> None:
    with open_api(Reply([{"text": "half of it"}], ending="drop"), say("all of it")) as api:
        events = await play(Rig(tmp_path, api))
    assert end_of(events).outcome == "completed"
    assert "all of it" in end_of(events).answer


async def test_an_api_that_hangs_once_before_its_headers_is_asked_again(tmp_path: Path) -> None:
    with open_api(Reply(ending="hang"), say("at last")) as api:
        events = await play(Rig(tmp_path, api, max_retries=1, api_timeout_s=2.0))
    assert end_of(events).answer == "at last"
    assert [event for event in events if isinstance(event, Notice)], "people are told that it is tried again"


async def test_a_stream_that_stalls_in_its_middle_is_taken_up_again(tmp_path: Path) -> None:
    """The CLI waits 300 s unless it is told otherwise; 10 s is the least (2.1.325)."""
    stall = Reply([{"text": "half of it"}], ending="stall")
    with open_api(stall, say("all of it")) as api:
        rig = Rig(tmp_path, api)
        rig.more = {"CLAUDE_BYTE_STREAM_IDLE_TIMEOUT_MS": "2000"}
        names = [*rig.config().environment, "CLAUDE_BYTE_STREAM_IDLE_TIMEOUT_MS"]
        events = await play(rig, environment=names)
    assert end_of(events).outcome == "completed"
    assert end_of(events).answer.endswith("all of it")
    assert end_of(events).answer.count("half of it") <= 1


async def test_a_stream_that_never_goes_on_is_a_hang_and_tried_once_more(tmp_path: Path) -> None:
    stall = Reply([{"text": "half of it"}], ending="stall")
    with open_api(stall, stall) as api:
        rig = Rig(tmp_path, api)
        events = await play(rig, hang_after_s=2.0)
    failure = end_of(events).failure
    assert failure is not None and failure.kind == "hang"
    assert any("started again" in text for text in notices_of(events))
    assert rig.leftovers() == []


async def test_a_picture_that_is_none_is_a_file_and_named(tmp_path: Path) -> None:
    with open_api(say("no picture")) as api:
        rig = Rig(tmp_path, api)
        fake = await rig.blobs.put(b"<svg>not a picture</svg>", "photo.png", "image/png")
        async with rig.engine() as engine, engine.open(rig.brief()) as session:
            events = await read_prompt(session, Prompt("What is it?", (fake,)))
        content = api.main[0].body["messages"][-1]["content"]
        assert not [block for block in content if isinstance(block, dict) and block.get("type") == "image"]
        assert "downloads/photo.png" in api.main[0].text
    assert end_of(events).answer == "no picture"
    assert (rig.workspace / "downloads" / "photo.png").read_bytes() == b"<svg>not a picture</svg>"


async def test_with_tool_aware_streaming_words_come_whole_before_a_tool_and_the_answer_is_the_same(
    tmp_path: Path,
) -> None:
    first = Reply([{"text": "Let me look at that file first."}, use("Read", file_path="a.txt")])
    with open_api(first, say("It says alpha, and nothing else.")) as api:
        rig = Rig(tmp_path, api, tool_aware_streaming=True)
        (rig.workspace / "a.txt").write_text("alpha")
        events = await play(rig)
    before = events[: next(n for n, event in enumerate(events) if isinstance(event, ToolStarted))]
    assert not [event for event in before if isinstance(event, TextDelta)]
    assert end_of(events).answer == "Let me look at that file first.\n\nIt says alpha, and nothing else."


async def test_permissions_are_skipped_loudly_and_by_root_only_in_a_sandbox(tmp_path: Path) -> None:
    with open_api(bash("touch made.txt"), say("done")) as api:
        rig = Rig(tmp_path, api, dangerously_skip_permissions=True)
        if os.geteuid() == 0:
            with pytest.raises(EngineError) as caught:
                await play(rig)
            assert caught.value.failure.kind == "permission"
            assert "sandboxed" in caught.value.failure.text
            assert api.main == []
        events = await play(rig, sandboxed=True)
    assert any("WITHOUT asking" in text for text in notices_of(events))
    assert any(name == "permissions.skipped" for name, _ in rig.logged)
    assert (rig.workspace / "made.txt").exists()


async def test_a_retry_is_told(tmp_path: Path) -> None:
    with open_api(refuse(529, "overloaded_error"), say("at last")) as api:
        events = await play(Rig(tmp_path, api))
    assert end_of(events).answer == "at last"
    assert [event for event in events if isinstance(event, Notice)]


async def test_another_model_takes_over_from_one_that_is_not_there(tmp_path: Path) -> None:
    def model(request: Any) -> Reply:
        missing = request.model == "claude-opus-5-5"
        return refuse(404, "not_found_error", "model: claude-opus-5-5") if missing else say("I am the other")

    with open_api(model) as api:
        rig = Rig(tmp_path, api, model="claude-opus-5-5", fallback_model="claude-haiku-5-5")
        events = await play(rig)
    assert end_of(events).answer == "I am the other"
    assert any("aiku" in text for text in notices_of(events))


async def test_a_budget_ends_the_turn_and_the_next_one_begins_with_a_new_one(tmp_path: Path) -> None:
    dear = {"input_tokens": 1_000_000}
    with open_api(Reply([{"text": "x"}], usage=dear), say("again")) as api:
        rig = Rig(tmp_path, api, max_budget_usd=0.5)
        async with rig.engine() as engine:
            async with engine.open(rig.brief()) as session:
                first = await read(session)
            async with engine.open(rig.brief(resume=end_of(first).resume)) as session:
                second = await read(session)
    failure = end_of(first).failure
    assert failure is not None and failure.kind == "budget"
    assert end_of(second).answer == "again"


async def test_a_session_that_is_not_there_is_stale(tmp_path: Path) -> None:
    token = ResumeToken(EngineId("claude"), "11111111-2222-4333-8444-555555555555", str(tmp_path))
    with open_api(say("never")) as api:
        rig = Rig(tmp_path, api)
        async with rig.engine() as engine:
            with pytest.raises(EngineError) as caught:
                async with engine.open(rig.brief(resume=token)):
                    pass
    assert caught.value.failure.kind == "stale_session"
    assert rig.leftovers() == []


async def test_a_process_that_dies_before_it_did_anything_is_replaced(tmp_path: Path) -> None:
    hung = Reply([{"text": "let me th"}], ending="stall")
    with open_api(say("one"), hung, say("two")) as api:
        rig = Rig(tmp_path, api)
        async with rig.engine() as engine, engine.open(rig.brief()) as session:
            first = await read(session)

            async def steer_and_kill() -> None:
                pid = rig.pids()[0]
                os.kill(pid, signal.SIGSTOP)  # it never reads the message
                assert await session.steer(Prompt("the short way"))
                os.kill(pid, signal.SIGKILL)

            events = await read(
                session,
                when=lambda e: steer_and_kill() if isinstance(e, TextDelta) and "th" in e.text else None,
            )
    assert end_of(events).answer == "two"
    assert "the short way" in api.main[-1].prompt
    assert resume_of(events) == resume_of(first)
    assert "one" in api.main[-1].text
    assert any("started again" in text for text in notices_of(events))


async def test_a_process_that_dies_in_the_middle_of_a_deed_ends_honestly(tmp_path: Path) -> None:
    with open_api(bash("echo; sleep 600"), say("never")) as api:
        rig = Rig(tmp_path, api)
        async with rig.engine() as engine, engine.open(rig.brief(**FULL)) as session:

            async def kill() -> None:
                with anyio.fail_after(60):
                    while not sleepers(rig):
                        await anyio.sleep(0.05)
                os.kill(next(pid for pid in rig.pids() if is_leader(pid)), 9)

            events = await read(session, when=lambda e: kill() if isinstance(e, ToolStarted) else None)
    failure = end_of(events).failure
    assert failure is not None and failure.kind == "crash"
    assert "signal 9" in failure.text
    assert rig.leftovers() == []


def is_leader(pid: int) -> bool:
    return os.getsid(pid) == pid and Path(f"/proc/{pid}/exe").resolve().name == "claude"


async def test_silence_is_a_hang_only_where_no_tool_runs(tmp_path: Path) -> None:
    quiet = Reply([pause(60.0), {"text": "never"}])
    with open_api(bash("echo; sleep 4"), quiet, quiet, say("two")) as api:
        rig = Rig(tmp_path, api, hang_after_s=2.0)
        async with rig.engine() as engine, engine.open(rig.brief(**FULL)) as session:
            events = await read(session)
    assert any(isinstance(event, ToolFinished) and event.ok for event in events)
    failure = end_of(events).failure
    assert failure is not None and failure.kind == "hang"


async def test_without_a_pool_every_turn_has_its_own_process(tmp_path: Path) -> None:
    with open_api(say("one"), bash("touch made"), say("two")) as api:
        rig = Rig(tmp_path, api, pool=False)
        async with rig.engine() as engine:
            async with engine.open(rig.brief()) as session:
                token = resume_of(await read(session))
            assert rig.pids() == []
            async with engine.open(rig.brief(resume=token)) as session:
                events = await read(session, when=answer_with(session, Decision("allow")))
    assert end_of(events).answer == "two"
    assert (rig.workspace / "made").exists()
    assert [name for name, _ in rig.logged].count("process.started") == 2
