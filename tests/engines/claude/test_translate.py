"""Rules of translation that no single recording shows."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from tests.engines.claude.recorded import read, split_turns, translate_recording
from tests.engines.claude.wire_samples import (
    IMAGE,
    PNG,
    SESSION,
    assistant,
    delta,
    init,
    request,
    result,
    stream,
    system,
    text,
    tool_result,
    tool_use,
    user,
)

from pilothouse.channels.progress import activity_label
from pilothouse.core.ask import AskKind
from pilothouse.core.engine import MediaFound
from pilothouse.core.event import (
    Asked,
    EngineEvent,
    Notice,
    PlanChanged,
    PlanItem,
    SessionChanged,
    SessionStarted,
    TextSet,
    ThinkingDelta,
    ToolFinished,
    ToolStarted,
    TurnEnded,
)
from pilothouse.core.outcome import Failure
from pilothouse.core.view import TurnView, fold, shown
from pilothouse.engines.claude.failures import OVERLOADED
from pilothouse.engines.claude.translate import Translator
from pilothouse.engines.media import MAX_BASE64_CHARS, NO_IMAGE, TOO_BIG, TOO_MANY

Step = EngineEvent | MediaFound


def play(*lines: bytes, workspace: str = "/srv/app") -> list[Step]:
    translator = Translator(workspace)
    return [step for line in lines for step in translator.feed(line)]


def events_of(steps: list[Step], kind: type) -> list[Any]:
    return [step for step in steps if isinstance(step, kind)]


def ended(steps: list[Step]) -> TurnEnded:
    (end,) = events_of(steps, TurnEnded)
    return end


def test_deltas_are_replaced_by_the_full_block_and_not_doubled() -> None:
    steps = play(
        init(),
        stream("message_start", message={"id": "m"}),
        stream("content_block_start", index=0, content_block=text("")),
        delta(type="text_delta", text="Hel"),
        delta(type="text_delta", text="lo"),
        assistant(text("Hello")),
        stream("content_block_stop", index=0),
        result(result="Hello"),
    )
    view = TurnView()
    for step in steps:
        assert not isinstance(step, MediaFound)
        view = fold(view, step, 0.0)
    assert view.text == shown(view, 0.0).text == ended(steps).answer == "Hello"
    assert len({step.block_id for step in events_of(steps, TextSet)} | {"m:0"}) == 1


def test_a_message_that_the_cli_asks_for_anew_withdraws_what_it_had_begun() -> None:
    steps = play(
        init(),
        stream("message_start", of="a", message={"id": "a"}),
        delta(of="a", type="text_delta", text="half an ans"),
        stream("message_start", of="b", message={"id": "b"}),
        delta(of="b", type="text_delta", text="an answer"),
        assistant(text("an answer"), id="b"),
        result(),
    )
    assert TextSet("a:0", "") in steps
    assert ended(steps).answer == "an answer"


def test_abandoned_blocks_are_withdrawn_and_finished_ones_stay() -> None:
    abandoned = stream("message_stop").replace(
        b'"api_message_id"', b'"abandoned_blocks": {"from_block_index": 1}, "api_message_id"'
    )
    steps = play(
        init(),
        delta(0, type="text_delta", text="kept"),
        assistant(text("kept")),
        delta(1, type="text_delta", text="dropped"),
        abandoned,
        result(),
    )
    assert TextSet("m:1", "") in steps
    assert ended(steps).answer == "kept"


def test_the_answer_is_every_text_block_not_the_last() -> None:
    steps = play(init(), assistant(text("one")), assistant(text("two")), result(result="two"))
    assert ended(steps).answer == "one\n\ntwo"


def test_a_sub_agent_is_shown_under_its_call_and_never_in_the_answer() -> None:
    steps = play(
        init(),
        assistant(tool_use("Task", "t1", description="look")),
        assistant({"type": "thinking", "thinking": "hm"}, text("sub"), id="s", parent="t1"),
        assistant(tool_use("Bash", "t2", command="ls"), id="s", parent="t1"),
        user(tool_result(id="t2"), parent="t1"),
        user(tool_result(id="t1")),
        assistant(text("main"), id="n"),
        result(result="main"),
    )
    assert [step.parent_id for step in events_of(steps, TextSet)] == ["t1", None]
    assert [step.call.parent_id for step in events_of(steps, ToolStarted)] == [None, "t1"]
    assert not events_of(steps, ThinkingDelta)
    assert ended(steps).answer == "main"


def test_results_are_matched_by_id_in_the_order_in_which_they_come() -> None:
    calls = [assistant(tool_use(id=id, command=id)) for id in ("a", "b")]
    steps = play(
        init(), *calls, user(tool_result(id="b", is_error=True)), user(tool_result(id="a")), result()
    )
    assert [(step.call_id, step.ok) for step in events_of(steps, ToolFinished)] == [("b", False), ("a", True)]


def test_is_error_decides_and_subtype_does_not() -> None:
    steps = play(init(), result("success", is_error=True, result="API Error: 500", api_error_status=500))
    assert ended(steps).outcome == "failed"
    assert play(init(), result("error_of_some_new_kind"))[-1] == TurnEnded(
        "completed", usage=ended(play(init(), result())).usage, resume=ended(play(init(), result())).resume
    )


def test_an_api_error_is_no_part_of_the_answer() -> None:
    steps = play(
        init(),
        assistant(text("I had begun")),
        assistant(text("API Error: 529"), id="e", error="server_error", is_api_error_message=True),
        result(is_error=True, result="API Error: 529", api_error_status=529),
    )
    end = ended(steps)
    assert end.answer == "I had begun"
    assert end.failure is not None
    assert (end.failure.kind, end.failure.text) == ("overloaded", OVERLOADED)


def test_a_turn_costs_what_it_cost_and_not_what_the_session_did() -> None:
    used = {"opus": {"costUSD": 0.25, "inputTokens": 7}, "haiku": {"costUSD": 0.5, "outputTokens": 3}}
    end = ended(play(init(), result(total_cost_usd=9.0, model_usage_since_last_result=used)))
    assert end.usage is not None
    assert (end.usage.cost_usd, end.usage.input_tokens, end.usage.output_tokens) == (0.75, 7, 3)


def test_where_only_totals_are_told_a_turn_costs_the_difference() -> None:
    steps = play(
        init(),
        result(total_cost_usd=0.5),
        init(),
        result(total_cost_usd=0.75),
        init(),
        result(total_cost_usd=0.1),
    )
    assert [end.usage.cost_usd for end in events_of(steps, TurnEnded)] == [0.5, 0.25, 0.1]


def test_the_first_total_of_a_resumed_session_tells_nothing() -> None:
    translator = Translator(resumed=True)
    ends = [
        translator.feed(line)[-1]
        for line in (init(), result(total_cost_usd=5.0), init(), result(total_cost_usd=5.5))
    ]
    assert [end.usage and end.usage.cost_usd for end in ends if isinstance(end, TurnEnded)] == [None, 0.5]


def test_a_session_whose_id_changes_says_so() -> None:
    moved = result().replace(SESSION.encode(), b"99999999-2222-4333-8444-555555555555")
    translator = Translator()
    steps = [step for line in (init(), moved, init()) for step in translator.feed(line)]
    (changed,) = events_of(steps, SessionChanged)
    assert changed.resume.value.startswith("99999999")
    assert ended(steps).resume == changed.resume
    assert isinstance(steps[-1], SessionStarted)


def test_what_is_said_between_two_turns_stands_in_the_next() -> None:
    retry = system(
        "api_retry", attempt=1, max_retries=2, retry_delay_ms=10, error_status=529, error="overloaded"
    )
    steps = play(init(), result(), retry, assistant(text("late sub"), parent="gone"), init(), result())
    assert [type(step) for step in steps] == [SessionStarted, TurnEnded, SessionStarted, Notice, TurnEnded]


def test_a_process_that_ends_between_two_turns_owes_nothing_unless_a_prompt_was_sent() -> None:
    translator = Translator()
    translator.feed(init())
    translator.feed(result())
    assert not translator.end(0)
    translator.expect_turn()
    (end,) = translator.end(1, "Killed")
    assert isinstance(end, TurnEnded)
    assert end.failure is not None
    assert "exit code 1" in end.failure.detail
    assert "Killed" in end.failure.detail


def test_a_turn_that_was_interrupted_was_cancelled_even_if_its_process_died() -> None:
    translator = Translator()
    translator.feed(init())
    translator.interrupted = True
    assert translator.end(143)[-1] == TurnEnded("cancelled", resume=translator.resume)


def test_an_engine_may_give_a_turn_up() -> None:
    translator = Translator()
    translator.feed(init())
    translator.feed(assistant(tool_use()))
    hang = Failure("hang", "It hung.")
    assert [type(step) for step in translator.fail(hang)] == [ToolFinished, TurnEnded]
    assert not translator.in_turn


def test_a_turn_knows_which_messages_it_answers_and_one_that_nobody_asked_for_answers_none() -> None:
    translator = Translator()
    translator.feed(init(user_message_uuids=["u1"]))
    translator.feed(result(user_message_uuids=["u1", "u2"]))
    assert translator.user_message_uuids == ("u1", "u2")
    translator.feed(init())
    assert translator.user_message_uuids == ()


def picture(number: int) -> dict[str, Any]:
    data = base64.b64encode(base64.b64decode(PNG) + bytes([number])).decode()
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}


def test_an_image_that_comes_several_times_is_one() -> None:
    steps = play(init(), user(tool_result([IMAGE, IMAGE])), assistant(IMAGE), result(result=[IMAGE]))
    (found,) = events_of(steps, MediaFound)
    assert (found.name, found.media_type) == ("image-1.png", "image/png")
    assert found.data == base64.b64decode(PNG)


def test_a_turn_has_ten_images_at_most_and_the_next_may_have_more() -> None:
    many = user(tool_result([picture(n) for n in range(12)]))
    steps = play(init(), many, result(), init(), many, result())
    assert len(events_of(steps, MediaFound)) == 20
    assert [step.text for step in events_of(steps, Notice)] == [TOO_MANY, TOO_MANY]


def test_an_image_that_is_too_big_or_none_at_all_is_left_out_and_said() -> None:
    def of(data: str) -> dict[str, Any]:
        return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}

    steps = play(
        init(), user(tool_result([of("A" * (MAX_BASE64_CHARS + 4)), of("bm8="), of("~"), of("")])), result()
    )
    assert not events_of(steps, MediaFound)
    assert [step.text for step in events_of(steps, Notice)] == [TOO_BIG, NO_IMAGE]


def test_noise_costs_two_notices_however_much_there_is() -> None:
    steps = play(init(), *[b"Warning: something \xff"] * 50, result())
    first, last = events_of(steps, Notice)
    assert first.text.endswith("Warning: something �")
    assert "49 more lines" in last.text


@pytest.mark.parametrize(
    ("tool", "kind"), [("Bash", "approval"), ("ExitPlanMode", "plan"), ("AskUserQuestion", "question")]
)
def test_what_the_cli_asks_is_an_ask(tool: str, kind: AskKind) -> None:
    given = {
        "command": "ls",
        "plan": "1. go",
        "questions": [{"question": "Which?", "options": [{"label": "A"}]}],
    }
    steps = play(init(), request("can_use_tool", tool_name=tool, input=given, tool_use_id="t1"))
    (asked,) = events_of(steps, Asked)
    assert asked.ask.kind == kind
    assert asked.ask.payload_hash


def test_the_plan_to_approve_is_the_one_of_the_call() -> None:
    call = assistant(tool_use("ExitPlanMode", "t1", plan="1. go"))
    steps = play(init(), call, request("can_use_tool", tool_name="ExitPlanMode", input={}, tool_use_id="t1"))
    (asked,) = events_of(steps, Asked)
    assert asked.ask.title == "1. go"
    assert asked.ask.payload["input"] == {"plan": "1. go"}


def test_several_questions_are_several_asks_with_their_options() -> None:
    questions = [
        {"question": q, "options": [{"label": "Yes", "description": "do it"}, {"label": "No"}]} for q in "AB"
    ]
    steps = play(init(), request("can_use_tool", tool_name="AskUserQuestion", input={"questions": questions}))
    asks = [step.ask for step in events_of(steps, Asked)]
    assert [(ask.id, ask.title, ask.free_text) for ask in asks] == [("r1", "A", True), ("r1:1", "B", True)]
    assert [option.label for option in asks[0].options] == ["Yes: do it", "No"]
    assert [option.key for option in asks[0].options] == ["1", "2"]


def test_the_same_call_asked_again_has_the_same_hash() -> None:
    first, second = (
        play(
            init(), request("can_use_tool", id=id, tool_name="Bash", input={"command": "ls"}, tool_use_id=id)
        )[-1]
        for id in ("a", "b")
    )
    assert isinstance(first, Asked)
    assert isinstance(second, Asked)
    assert first.ask.payload_hash == second.ask.payload_hash


def test_todos_are_the_plan() -> None:
    todos = [
        {"content": "a", "status": "completed"},
        {"content": "b", "status": "in_progress"},
        {"content": "c"},
    ]
    steps = play(init(), assistant(tool_use("TodoWrite", todos=todos)))
    assert steps[-1] == PlanChanged(
        (PlanItem("a", "done"), PlanItem("b", "active"), PlanItem("c", "pending"))
    )


def test_tasks_are_the_plan_as_their_results_change_it() -> None:
    plans = events_of(list(translate_recording("m_taskcreate_default")), PlanChanged)
    assert [plan.items for plan in plans] == [
        (PlanItem("step 1", "pending"),),
        (PlanItem("step 1", "active"),),
    ]


@pytest.mark.parametrize(
    ("name", "given", "kind", "title", "label"),
    [
        ("Bash", {"command": "make  -j2\nls"}, "command", "make -j2 ls", "Running command…"),
        ("Read", {"file_path": "/srv/app/src/auth/login.py"}, "read", "tool: Read src/auth/login.py", "Reading …/auth/login.py"),
        ("Write", {"file_path": "/srv/app/a.txt", "content": "x"}, "file_change", "file: a.txt", "Writing …/app/a.txt"),
        ("Edit", {"file_path": "/etc/hosts"}, "file_change", "edit: /etc/hosts", "Editing /etc/hosts"),
        ("Glob", {"pattern": "**/*.py"}, "search", "glob: **/*.py", "Finding files…"),
        ("Grep", {"pattern": "TODO"}, "search", "grep: TODO", "Searching content…"),
        ("WebSearch", {"query": "msgspec"}, "web", "search: msgspec", "Searching the web…"),
        ("WebFetch", {"url": "https://x.y"}, "web", "fetch: https://x.y", "Fetching URL…"),
        ("Task", {"description": "look"}, "subagent", "task: look", "Running subtask…"),
        ("Agent", {"prompt": "look"}, "subagent", "task: look", "Running subtask…"),
        ("TodoWrite", {"todos": [{"content": "a"}]}, "note", "todo: a", "Running todo: a…"),
        ("AskUserQuestion", {"questions": [{"question": "Which?"}]}, "note", "question: Which?", "Running question: Which?…"),
        ("mcp__img__draw", {}, "tool", "tool: img.draw", "Running tool: img.draw…"),
        ("Bash", {"command": 7}, "command", "command", "Running command…"),
    ],
)  # fmt: skip
def test_a_call_is_titled_in_the_words_of_its_tool(
    name: str, given: dict[str, Any], kind: str, title: str, label: str
) -> None:
    (started,) = events_of(play(init(), assistant(tool_use(name, **given))), ToolStarted)
    assert (started.call.kind, started.call.title) == (kind, title)
    assert activity_label(started.call) == label


def test_a_call_with_a_huge_input_and_a_huge_result_stays_small() -> None:
    given = {"content": "x" * 1_000_000, "list": ["y"] * 10_000}
    steps = play(init(), assistant(tool_use("Write", **given)), user(tool_result("z" * 1_000_000)))
    started, finished = steps[1], steps[2]
    assert isinstance(started, ToolStarted)
    assert isinstance(finished, ToolFinished)
    assert len(str(started)) < 5_000
    assert len(finished.output) == 10_000


def test_ten_thousand_calls_in_one_turn_are_ten_thousand_calls() -> None:
    translator = Translator()
    translator.feed(init())
    count = 10_000
    for n in range(count):
        assert len(translator.feed(assistant(tool_use(id=f"t{n}", command="ls"), id=f"m{n}"))) == 1
        assert len(translator.feed(user(tool_result(id=f"t{n}")))) == 1
    assert [type(step) for step in translator.feed(result())] == [TurnEnded]


def test_a_result_that_was_held_back_ends_no_second_turn() -> None:
    (turn,) = split_turns(translate_recording("l_subagent_background_stream_eof"))
    assert isinstance(turn[-1], TurnEnded)
    assert turn[-1].answer == "delegating\n\nmain final 2\n\nmain final 3"
    assert turn[-1].usage is not None
    assert turn[-1].usage.cost_usd == 0.0032


def test_a_turn_that_nobody_asked_for_says_what_woke_it() -> None:
    causes: list[str] = []
    for name in ("k_background_task_wakes_idle_session", "x_schedule_wakeup_stream"):
        translator, was = Translator(), ""
        for one in read(name).splitlines():
            before = translator.in_turn
            translator.feed(one)
            was = translator.wake_cause if translator.in_turn and not before else was
        causes.append(was)
    assert causes == ["background_task", "loop_wakeup"]


def test_a_call_that_the_gate_denied_says_why_and_gets_no_second_notice() -> None:
    translator, given = Translator(denials={"t1": "because"}), {"command": "git push"}
    lines = (
        init(),
        assistant(tool_use(**given)),
        system("permission_denied", tool_name="Bash", tool_use_id="t1", message="no"),
        user(tool_result("no", is_error=True)),
        result(permission_denials=[{"tool_name": "Bash", "tool_use_id": "t1", "tool_input": given}]),
    )
    steps = [step for one in lines for step in translator.feed(one)]
    assert [(step.ok, step.denied) for step in events_of(steps, ToolFinished)] == [(False, "because")]
    assert events_of(steps, Notice) == []
