"""Turns of the real Codex: approvals, stops, steering, resuming, images, questions, failures."""

from __future__ import annotations

import base64
import os
import signal
import threading
import time
from pathlib import Path

import anyio
import pytest
from tests.engines.codex.api import (
    Reply,
    Request,
    begin,
    call,
    code,
    fail,
    open_api,
    patch,
    refuse,
    say,
    shell,
    wait_for,
)
from tests.engines.codex.rig import Rig, asks_of, end_of, notices_of, play, read

from pilothouse.core.ask import Decision
from pilothouse.core.errors import EngineError
from pilothouse.core.event import (
    Asked,
    EngineEvent,
    ResumeToken,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolStarted,
)
from pilothouse.core.message import Attachment
from pilothouse.core.policy import Ruling, Site
from pilothouse.core.turn import Prompt
from pilothouse.engines.codex.engine import CodexEngine
from pilothouse.engines.codex.failures import IN_USE

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAACAAAAAgCAIAAAD8GO2jAAAAKElEQVR4nO3NsQ0AAAzCMP5/un0CNkuZ41wybXsHAAAAAAAAAAAAxR4yw/wuPL6Q"
    "kAAAAABJRU5ErkJggg=="
)


async def test_an_approved_command_runs_and_its_output_is_shown(tmp_path: Path) -> None:
    with open_api(shell("echo hello > made.txt && cat made.txt"), say("Made it.")) as api:
        rig = Rig(tmp_path, api)
        events = await play(rig, decision=Decision("allow"))
    (asked,) = asks_of(events)
    assert asked.ask.title == "echo hello > made.txt && cat made.txt"
    assert asked.ask.call is not None
    assert (asked.ask.call.kind, asked.ask.call.command) == ("command", asked.ask.title)
    assert [event.output for event in events if isinstance(event, ToolFinished)] == ["hello\n"]
    assert end_of(events).answer == "Made it."
    assert (rig.workspace / "made.txt").read_text() == "hello\n"


async def test_an_approved_patch_shows_its_diff_first(tmp_path: Path) -> None:
    with open_api(patch("new.txt", "one", "two"), say("Done.")) as api:
        rig = Rig(tmp_path, api)
        events = await play(rig, decision=Decision("allow"))
    (asked,) = asks_of(events)
    call = asked.ask.call
    assert call is not None
    assert (call.kind, call.paths) == ("change", (str(rig.workspace / "new.txt"),))
    assert call.change is not None
    assert call.change.diff == "--- /dev/null\n+++ new.txt\n@@ -0,0 +1,2 @@\n+one\n+two"
    assert (rig.workspace / "new.txt").read_text() == "one\ntwo\n"


async def test_a_plain_no_stops_the_turn_and_nothing_runs(tmp_path: Path) -> None:
    with open_api(shell("touch made.txt"), say("Never said.")) as api:
        rig = Rig(tmp_path, api)
        events = await play(rig, decision=Decision("deny"))
        assert len(api.requests) == 1, "the model is not called again"
    assert end_of(events).outcome == "cancelled"
    assert not (rig.workspace / "made.txt").exists()


async def test_a_no_with_a_reason_reaches_the_model(tmp_path: Path) -> None:
    with open_api(shell("touch made.txt"), say("Then not.")) as api:
        rig = Rig(tmp_path, api)
        events = await play(rig, decision=Decision("deny", text="not on a Friday"))
        assert "not on a Friday" in api.requests[-1].text
    assert end_of(events).answer == "Then not."
    assert not (rig.workspace / "made.txt").exists()


async def test_a_yes_to_another_input_asks_the_model_to_use_it(tmp_path: Path) -> None:
    with open_api(shell("touch made.txt"), say("Another, then.")) as api:
        rig = Rig(tmp_path, api)
        events = await play(rig, decision=Decision("allow", input={"command": "touch other.txt"}))
        assert "touch other.txt" in api.requests[-1].text
    assert end_of(events).outcome == "completed"
    assert not (rig.workspace / "made.txt").exists()


async def test_a_command_that_wants_to_leave_the_sandbox_says_so(tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    wanted = {"sandbox_permissions": "require_escalated", "justification": "It is elsewhere."}
    with open_api(shell(f"touch {outside}"), shell(f"touch {outside}", **wanted), say("Done.")) as api:
        rig = Rig(tmp_path, api)
        events = await play(rig, decision=Decision("allow"))
    first, second = asks_of(events)
    assert first.ask.title == f"touch {outside}"
    assert second.ask.title == f"touch {outside}\nOutside the sandbox: It is elsewhere."
    assert first.ask.payload_hash != second.ask.payload_hash
    assert end_of(events).answer == "Done."


class _Rules:
    """Allows what makes a file, and denies everything else."""

    async def judge(self, ask: object, site: Site) -> Ruling:
        allowed = "touch" in str(ask)
        return Ruling("allow") if allowed else Ruling("deny", "only files may be made")


async def test_rules_decide_without_anybody_and_the_model_is_told_why(tmp_path: Path) -> None:
    with open_api(shell("touch made.txt"), shell("echo no"), say("One of two.")) as api:
        rig = Rig(tmp_path, api)
        rig.policy = _Rules()
        events = await play(rig)
        assert "only files may be made" in api.requests[-1].text
    assert asks_of(events) == []
    assert [event.ok for event in events if isinstance(event, ToolFinished)] == [True, False]
    assert end_of(events).answer == "One of two."


async def test_in_full_access_rules_still_deny(tmp_path: Path) -> None:
    with open_api(shell("echo no"), say("Denied.")) as api:
        rig = Rig(tmp_path, api)
        rig.policy = _Rules()
        events = await play(rig, approval_mode="full-access")
    assert [event.ok for event in events if isinstance(event, ToolFinished)] == [False]


@pytest.mark.parametrize("mode", ["minimal", "full-access"])
async def test_a_command_that_is_stopped_leaves_no_process(tmp_path: Path, mode: str) -> None:
    with open_api(shell("sleep 997 & sleep 997"), say("Never said.")) as api:
        rig = Rig(tmp_path, api)
        rig.policy = _Everything()
        async with rig.engine() as engine, engine.open(rig.brief(approval_mode=mode)) as session:

            async def stop_later() -> None:
                with anyio.fail_after(60):
                    while not _running("997"):
                        await anyio.sleep(0.02)
                await session.interrupt()

            async with anyio.create_task_group() as tasks:

                def stop_when_started(event: EngineEvent) -> None:
                    if isinstance(event, ToolStarted):
                        tasks.start_soon(stop_later)

                events = await read(session, when=stop_when_started)
            assert end_of(events).outcome == "cancelled"
            with anyio.fail_after(60):
                while _running("997"):
                    await anyio.sleep(0.02)
            assert end_of(await read(session, "Hello again")).outcome == "completed"


class _Everything:
    async def judge(self, ask: object, site: Site) -> Ruling:
        return Ruling("allow")


def _running(word: str) -> bool:
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[:2] == [b"sleep", word.encode()]:
            return True
    return False


async def test_a_stop_during_text_keeps_what_was_said_and_the_session(tmp_path: Path) -> None:
    with open_api(begin("Once upon a time"), say("The end.")) as api:
        rig = Rig(tmp_path, api)
        async with rig.engine() as engine, engine.open(rig.brief()) as session:
            events = await read(
                session, when=lambda event: session.interrupt() if isinstance(event, TextDelta) else None
            )
            assert end_of(events).outcome == "cancelled"
            assert end_of(events).answer.startswith("Once upon")
            assert end_of(await read(session, "Go on")).answer == "The end."


async def test_a_steered_message_reaches_the_running_turn(tmp_path: Path) -> None:
    with open_api(begin("Walking the long way"), lambda request: say(f"You said: {request.prompt}")) as api:
        rig = Rig(tmp_path, api)
        async with rig.engine() as engine, engine.open(rig.brief()) as session:
            taken: list[bool] = []

            async def steer() -> None:
                if not taken:
                    taken.append(await session.steer(Prompt("take the short way")))

            events = await read(session, when=lambda e: steer() if isinstance(e, TextDelta) else None)
    assert taken == [True]
    assert end_of(events).answer == "You said: take the short way"
    assert notices_of(events) == []


async def test_a_steered_message_that_a_stop_swallows_is_reported(tmp_path: Path) -> None:
    with open_api(shell("touch made.txt"), say("Never said.")) as api:
        rig = Rig(tmp_path, api)
        async with rig.engine() as engine, engine.open(rig.brief()) as session:

            async def steer_and_stop() -> None:
                assert await session.steer(Prompt("and another thing"))
                await session.interrupt()

            events = await read(session, when=lambda e: steer_and_stop() if asks_of([e]) else None)
    assert end_of(events).outcome == "cancelled"
    assert any("Send it again" in text for text in notices_of(events))


def first_child(pid: int) -> int:
    """Return the process that it started itself; what that one left behind may have become its child later."""
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


async def test_a_session_goes_on_after_its_app_server_was_killed(tmp_path: Path) -> None:
    def remembers(request: Request) -> Reply:
        return say("I remember." if "the word is plum" in request.text else "Who are you?")

    with open_api(say("Noted."), remembers) as api:
        rig = Rig(tmp_path, api)
        async with rig.engine() as engine:
            async with engine.open(rig.brief()) as session:
                token = end_of(await read(session, "the word is plum")).resume
                keeper = next(fields["pid"] for event, fields in rig.logged if event == "process.started")
                os.kill(first_child(keeper), signal.SIGKILL)
                assert end_of(await read(session, "what is the word?")).answer == "I remember."
            async with engine.open(rig.brief(resume=token)) as session:
                assert end_of(await read(session, "and now?")).answer == "I remember."


async def test_an_app_server_that_is_killed_in_a_turn_fails_it_once(tmp_path: Path) -> None:
    with open_api(Reply([{"say": "Well"}], ending="stall")) as api:
        rig = Rig(tmp_path, api)

        async def kill() -> None:
            os.kill(next(f["pid"] for event, f in rig.logged if event == "process.started"), signal.SIGKILL)

        async with rig.engine() as engine, engine.open(rig.brief()) as session:
            events = await read(session, when=lambda e: kill() if isinstance(e, TextDelta) else None)
    failure = end_of(events).failure
    assert failure is not None
    assert failure.kind == "crash"


async def test_an_image_reaches_the_model(tmp_path: Path) -> None:
    with open_api(say("A dot.")) as api:
        rig = Rig(tmp_path, api)
        attached: list[Attachment] = [await rig.blobs.put(PNG, "dot.png", "image/png")]
        attached.append(await rig.blobs.put(b"a,b\n1,2\n", "table.csv", "text/csv"))
        async with rig.engine() as engine, engine.open(rig.brief()) as session:
            await read(session, Prompt("What is this?", tuple(attached)))
        assert "data:image/png;base64," in api.requests[-1].text
        assert "downloads/table.csv" in api.requests[-1].text
    assert (rig.workspace / "downloads" / "table.csv").read_bytes() == b"a,b\n1,2\n"


async def test_a_question_is_answered_by_its_option(tmp_path: Path) -> None:
    options = [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}]
    asked = {"id": "colour", "header": "Colour", "question": "Which colour?", "options": options}
    with open_api(call("request_user_input", questions=[asked]), say("So be it.")) as api:
        events = await play(Rig(tmp_path, api), decision=Decision("answer", ("2",)))
        assert "Blue" in api.requests[-1].outputs[-1]
    (question,) = asks_of(events)
    assert question.ask.kind == "question"
    assert [option.label for option in question.ask.options[:2]] == ["Red: warm", "Blue: cold"]
    assert end_of(events).answer == "So be it."


async def test_usage_is_that_of_the_turn_and_has_an_estimated_price(tmp_path: Path) -> None:
    with open_api(say("One.", usage=(1000, 400, 100)), say("Two.", usage=(2000, 1000, 200))) as api:
        rig = Rig(tmp_path, api)
        async with rig.engine() as engine, engine.open(rig.brief()) as session:
            first, second = end_of(await read(session)).usage, end_of(await read(session)).usage
    assert first is not None
    assert second is not None
    assert (first.input_tokens, first.cache_read_tokens, first.output_tokens) == (600, 400, 100)
    assert (second.input_tokens, second.cache_read_tokens, second.output_tokens) == (1000, 1000, 200)
    assert second.cost_usd == pytest.approx((1000 * 5 + 1000 * 0.5 + 200 * 30) / 1e6)


LIMITS = {
    "x_codex_primary_used_percent": "100",
    "x_codex_primary_window_minutes": "300",
    "x_codex_primary_reset_at": str(int(time.time()) + 3600),
}


@pytest.mark.parametrize(
    ("reply", "kind", "parked"),
    [
        (refuse(401, "bad key"), "auth", False),
        (refuse(429, "slow down"), "rate_limit", False),
        (refuse(429, "all used", "usage_limit_reached", **LIMITS), "quota", True),
        (refuse(500, "boom"), "overloaded", False),
        (refuse(400, "no"), "bad_request", False),
        (fail("insufficient_quota", "no money"), "quota", False),
        (fail("context_length_exceeded", "too long"), "context_overflow", False),
        (Reply([{"say": "part"}], ending="drop"), "transport", False),
    ],
    ids=["401", "429", "used up", "500", "400", "quota", "context", "drop"],
)
async def test_a_failure_of_the_api_has_its_kind(
    tmp_path: Path, reply: Reply, kind: str, parked: bool
) -> None:
    with open_api(reply) as api:
        failure = end_of(await play(Rig(tmp_path, api))).failure
    assert failure is not None
    assert failure.kind == kind
    assert (failure.retry_at is not None) == parked


async def test_two_sessions_share_one_app_server(tmp_path: Path) -> None:
    with open_api(lambda request: say(request.prompt)) as api:
        rig = Rig(tmp_path, api)
        async with rig.engine() as engine, engine.open(rig.brief("a")) as a, engine.open(rig.brief("b")) as b:
            assert end_of(await read(a, "plum")).answer == "plum"
            assert end_of(await read(b, "pear")).answer == "pear"
    assert [event for event, _ in rig.logged].count("process.started") == 1


async def test_models_are_those_that_codex_offers(tmp_path: Path) -> None:
    with open_api(say("Hello.")) as api:
        rig = Rig(tmp_path, api, model="gpt-5.5")
        async with rig.engine(model="mine") as engine:
            assert [model.name for model in engine.models()] == ["mine"]
            async with engine.open(rig.brief(model="gpt-5.5")) as session:
                await read(session)
            with anyio.fail_after(60):
                while len(engine.models()) < 3:
                    await anyio.sleep(0.02)
        assert "gpt-5.5" in [model.name for model in engine.models()]


async def test_a_session_that_stays_open_is_not_opened_again(tmp_path: Path) -> None:
    with open_api(say("Hello.")) as api:
        rig = Rig(tmp_path, api)
        async with rig.engine() as engine:
            async with engine.open(rig.brief()) as session:
                first = end_of(await read(session)).resume
            async with engine.open(rig.brief(resume=first)) as session:
                again = end_of(await read(session, "Again"))
    assert again.resume == first
    assert again.outcome == "completed"


async def test_a_session_that_nobody_uses_is_given_up_for_others(tmp_path: Path) -> None:
    with open_api(say("Hello.")) as api:
        rig = Rig(tmp_path, api)
        async with rig.engine(keep_s=0.05) as engine, rig.engine("other") as other:
            async with engine.open(rig.brief()) as session:
                token = end_of(await read(session)).resume
            with anyio.fail_after(60):
                while not await _opens(other, rig, token):
                    await anyio.sleep(0.05)


async def _opens(engine: CodexEngine, rig: Rig, token: ResumeToken | None) -> bool:
    try:
        async with engine.open(rig.brief(resume=token)) as session:
            return end_of(await read(session)).outcome == "completed"
    except EngineError as error:
        if error.failure.text != IN_USE:
            raise
        return False


async def test_calls_in_code_mode_are_asked_about_one_by_one(tmp_path: Path) -> None:
    script = """const r = await tools.exec_command({cmd: "echo hi > made.txt"}); text(r);
const p = await tools.apply_patch("*** Begin Patch\\n*** Add File: other.txt\\n+Hello\\n*** End Patch"); text(p);"""
    with open_api(code(script), say("Both.")) as api:
        rig = Rig(tmp_path, api, model="gpt-6.1-sol")
        events = await play(rig, decision=Decision("allow"))
    kinds = [asked.ask.call.kind for asked in asks_of(events) if asked.ask.call]
    assert kinds == ["command", "change"]
    assert end_of(events).answer == "Both."
    assert (rig.workspace / "made.txt").read_text() == "hi\n"
    assert (rig.workspace / "other.txt").read_text() == "Hello\n"


async def test_a_question_that_the_model_does_not_wait_for_is_answered_by_a_message(tmp_path: Path) -> None:
    released = threading.Event()
    given = {"questions": [{"title": "Which colour?", "options": ["Red", "Blue"]}]}
    asked = {"call": "request_user_input_async", "namespace": "functions", "arguments": given}
    waits = Reply([wait_for(released), {"say": "Meanwhile."}])
    with open_api(Reply([asked]), waits, say("So be it.")) as api:
        rig = Rig(tmp_path, api, model="gpt-6.1-sol")
        async with rig.engine() as engine, engine.open(rig.brief()) as session:

            async def answer(asked: Asked) -> None:
                await session.answer(asked.ask.id, Decision("answer", ("2",)))
                released.set()

            events = await read(session, when=lambda e: answer(e) if isinstance(e, Asked) else None)
    (question,) = asks_of(events)
    assert (question.ask.kind, question.ask.title) == ("question", "Which colour?")
    assert any("Which colour? Blue" in request.text for request in api.requests)
    assert end_of(events).outcome == "completed"


async def test_thoughts_are_shown_as_they_come(tmp_path: Path) -> None:
    with open_api(Reply([{"think": "Hmm, let me see."}, {"say": "Seen."}])) as api:
        events = await play(Rig(tmp_path, api))
    assert "".join(event.text for event in events if isinstance(event, ThinkingDelta)) == "Hmm, let me see."
    assert end_of(events).answer == "Seen."
