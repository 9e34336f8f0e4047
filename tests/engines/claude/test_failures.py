"""Every way in which Claude Code fails, and what the house calls it."""

from __future__ import annotations

import pytest
from tests.engines.claude.recorded import split_turns, translate_recording
from tests.engines.claude.wire_samples import SESSION, assistant, init, line, result, text

from pilothouse.core.event import TurnEnded
from pilothouse.core.outcome import Failure, FailureKind
from pilothouse.engines.claude.failures import LOG_IN, STOPPED_INSIDE, explain_exit
from pilothouse.engines.claude.translate import Translator

RECORDED: dict[str, FailureKind] = {
    "i_max_turns": "budget",
    "i_max_budget_usd": "budget",
    "j_400": "bad_request",
    "j_400_too_long": "context_overflow",
    "j_401_maxretries0": "auth",
    "j_403": "auth",
    "j_413": "context_overflow",
    "j_429_maxretries2": "rate_limit",
    "j_500_maxretries2": "transport",
    "j_529_maxretries2": "overloaded",
    "j_conn_refused_maxretries2": "transport",
    "j_not_logged_in": "auth",
    "j_empty_key": "auth",
    "j_resume_bad_uuid": "stale_session",
    "j_stream_resume_bad_uuid": "stale_session",
    "i_resume_not_persisted": "stale_session",
    "q_rate_limit_rejected_oauth": "quota",
    "o_root_skip_permissions": "permission",
    "o_root_skip_permissions_startup_results": "permission",
    "i_session_id_with_resume": "bad_request",
    "j_invalid_flag": "bad_request",
    "j_invalid_permission_mode2": "bad_request",
    "i_mcp_bad_config": "bad_request",
    "j_bad_settings_json": "bad_request",
    "j_empty_prompt": "bad_request",
    "e_stream_json_without_verbose": "bad_request",
    "f_badstdin_wrong_role": "bad_request",
    "k_env_scrub": "bad_request",
    "k_sigterm_bash": "crash",
    "k_sighup_bash": "crash",
    "k_sigkill_bash": "crash",
    "j_server_hang_before_headers": "crash",
}
CANCELLED = (
    "h_interrupt_during_bash",
    "h_can_use_tool_deny_interrupt",
    "k_sigint_text",
    "f_push_priority_now",
)


def first_end(name: str) -> TurnEnded:
    end = split_turns(translate_recording(name))[0][-1]
    assert isinstance(end, TurnEnded)
    return end


@pytest.mark.parametrize("name", RECORDED)
def test_a_recorded_failure_has_its_kind_and_words_for_people(name: str) -> None:
    end = first_end(name)
    assert end.outcome == "failed"
    assert end.failure is not None
    assert end.failure.kind == RECORDED[name]
    assert end.failure.text.strip()
    assert end.failure.detail


@pytest.mark.parametrize("name", CANCELLED)
def test_what_a_person_stopped_was_cancelled(name: str) -> None:
    end = first_end(name)
    assert (end.outcome, end.failure) == ("cancelled", None)


def test_a_limit_tells_when_it_ends() -> None:
    failure = first_end("q_rate_limit_rejected_oauth").failure
    assert failure is not None
    assert failure.retry_at == 1794771478.0
    assert failure.text == "Claude's five-hour limit is reached; it resets at 19:37 UTC on 15 Nov."


def test_a_session_that_never_was_is_not_remembered() -> None:
    assert first_end("j_resume_bad_uuid").resume is None
    assert first_end("o_root_skip_permissions_startup_results").resume is None


def test_who_must_log_in_is_told_where() -> None:
    failure = first_end("j_not_logged_in").failure
    assert failure is not None
    assert failure.text == LOG_IN


def failed(*lines: bytes) -> Failure:
    translator = Translator()
    end = [step for one in lines for step in translator.feed(one)][-1]
    assert isinstance(end, TurnEnded)
    assert end.failure is not None
    return end.failure


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        ("billing_error", 400, "quota"),
        (None, 402, "quota"),
        ("model_not_found", 404, "bad_request"),
        (None, 404, "bad_request"),
        ("invalid_request", None, "bad_request"),
        ("rate_limit", None, "rate_limit"),
        ("overloaded", None, "overloaded"),
        (None, 503, "overloaded"),
        (None, 502, "transport"),
        ("unknown", None, "transport"),
        (None, None, "crash"),
    ],
)
def test_an_api_error_has_the_kind_of_its_status_and_name(
    error: str | None, status: int | None, kind: FailureKind
) -> None:
    told = assistant(text("x"), error=error, is_api_error_message=True, api_error_status=status)
    assert failed(init(), told, result(is_error=True, result="x", api_error_status=status)).kind == kind


@pytest.mark.parametrize("status", [None, 429])
def test_an_older_cli_writes_the_reset_behind_a_bar_and_perhaps_nothing_else(status: int | None) -> None:
    words = "Claude AI usage limit reached|1794771478"
    failure = failed(init(), result(is_error=True, result=words, api_error_status=status))
    assert (failure.kind, failure.retry_at) == ("quota", 1794771478.0)
    assert failure.text == "Claude AI usage limit reached"


@pytest.mark.parametrize(("told", "retry_at"), [({"status": "rejected", "resetsAt": 7}, 7.0), ("soon", None)])
def test_a_limit_may_be_told_by_the_error_alone(told: object, retry_at: float | None) -> None:
    params = {"rate_limit_info": told}
    error = assistant(text("x"), error="rate_limit", api_error="usage_limit_reached", api_error_params=params)
    failure = failed(init(), error, result(is_error=True, result="x", api_error="usage_limit_reached"))
    assert (failure.kind, failure.retry_at) == ("quota", retry_at)


def test_a_limit_that_only_warned_is_no_reason_to_wait() -> None:
    warned = line("rate_limit_event", rate_limit_info={"status": "allowed_warning", "resetsAt": 1794771478})
    assert failed(init(), warned, result(is_error=True, result="x", api_error_status=429)).retry_at is None


def test_a_diagnostic_alone_is_a_crash_with_the_diagnostic_in_its_detail() -> None:
    failure = failed(init(), result("error_during_execution", is_error=True, errors=["[ede_diagnostic] x=1"]))
    assert (failure.kind, failure.text) == ("crash", STOPPED_INSIDE)
    assert "[ede_diagnostic] x=1" in failure.detail


@pytest.mark.parametrize(
    ("code", "stderr", "kind", "words"),
    [
        (1, f"No conversation found with session ID: {SESSION}", "stale_session", "No conversation found"),
        (1, "Error: Session ID is already in use.", "bad_request", "Session ID is already in use."),
        (1, "error: unknown option '--x'", "bad_request", "unknown option '--x'"),
        (0, "", "crash", "(exit code 0)"),
        (0, "error: a tool said so", "crash", "(exit code 0)"),
        (-9, "", "crash", "(signal 9)"),
        (143, "", "crash", "(exit code 143, signal 15)"),
        (None, "", "crash", "ended without finishing its turn."),
    ],
)
def test_a_process_without_a_result_tells_by_its_exit(
    code: int | None, stderr: str, kind: FailureKind, words: str
) -> None:
    failure = explain_exit(code, stderr)
    assert failure.kind == kind
    assert words in failure.text
    assert stderr in failure.detail


def test_a_long_stderr_is_cut_to_its_end() -> None:
    failure = explain_exit(1, "x" * 100_000 + "the end")
    assert len(failure.detail) <= 4000
    assert failure.detail.endswith("the end")
