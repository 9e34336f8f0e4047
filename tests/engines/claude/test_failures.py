"""Every way in which Claude Code fails, and what the house calls it."""

from __future__ import annotations

import pytest
from tests.engines.claude.recorded import split_turns, translate_recording
from tests.engines.claude.wire_samples import SESSION, assistant, init, line, result, text

from pilothouse.core.event import Notice, TurnEnded
from pilothouse.core.outcome import Failure, FailureKind
from pilothouse.engines.claude.failures import (
    ADD_CREDIT,
    CORRECT_KEY,
    EXPIRED,
    KEY_REFUSED,
    LOG_IN,
    LOG_IN_OR_KEY,
    NO_CREDIT,
    NOT_LOGGED_IN,
    OVERLOADED,
    RATE_LIMIT,
    STOPPED_INSIDE,
    explain_exit,
    explain_printed,
)
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
    assert failure.text == "Claude's five-hour limit is reached.", (
        "the gateway says when, in people's own time"
    )


def test_a_session_that_never_was_is_not_remembered() -> None:
    assert first_end("j_resume_bad_uuid").resume is None
    assert first_end("o_root_skip_permissions_startup_results").resume is None


def test_who_must_log_in_is_told_where() -> None:
    failure = first_end("j_not_logged_in").failure
    assert failure is not None
    assert (failure.text, failure.fix) == (NOT_LOGGED_IN, LOG_IN_OR_KEY)


@pytest.mark.parametrize(
    ("printed", "text", "fix"),
    [
        (
            "Failed to authenticate. API Error: 401 OAuth token has expired. Please obtain a new token.",
            EXPIRED,
            LOG_IN,
        ),
        ("OAuth token has expired · Please run /login", EXPIRED, LOG_IN),
        ("Not logged in · Please run /login", NOT_LOGGED_IN, LOG_IN_OR_KEY),
        ("Invalid API key · Fix external API key", KEY_REFUSED, CORRECT_KEY),
        (
            "Failed to authenticate. API Error: 403 Request not allowed",
            "Anthropic refused Claude's login (403 Request not allowed).",
            LOG_IN,
        ),
        ("Credit balance is too low", NO_CREDIT, ADD_CREDIT),
        ("API Error: Request rejected (429) · your organization's rate limit", RATE_LIMIT, ""),
        ("API Error: Repeated 529 Overloaded errors. Try again in a moment.", OVERLOADED, ""),
        ("API Error: 502 Bad gateway", "Claude's server failed (HTTP 502).", ""),
        (
            "API Error: Connection refused — a firewall or proxy may be blocking it (ECONNREFUSED)",
            "Claude's server does not answer (connection refused).",
            "",
        ),
    ],
)
def test_a_failure_says_what_happened_and_what_mends_it(printed: str, text: str, fix: str) -> None:
    failure = explain_printed(printed)
    assert (failure.text, failure.fix) == (text, fix)
    assert printed in failure.detail, "a bug report has the words of the program"


def test_a_server_that_does_not_answer_is_named() -> None:
    words = "API Error: Connection refused — a firewall or proxy may be blocking it (ECONNREFUSED)"
    translator = Translator(server="127.0.0.1:1")
    lines = init(), result(is_error=True, result=words, api_error="connection_failed")
    end = [step for one in lines for step in translator.feed(one)][-1]
    assert isinstance(end, TurnEnded) and end.failure is not None
    assert end.failure.text == "Claude's server does not answer (127.0.0.1:1: connection refused)."


def test_the_program_s_own_retries_of_a_refused_login_are_not_shown() -> None:
    assert not [step for step in translate_recording("j_401_maxretries2") if isinstance(step, Notice)]
    assert [step for step in translate_recording("j_529_maxretries2") if isinstance(step, Notice)]


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


def test_words_about_a_limit_in_a_server_s_error_are_no_limit() -> None:
    words = "You've hit your limit · resets 3pm"
    failure = failed(init(), result(is_error=True, result=words, api_error_status=500))
    assert (failure.kind, failure.retry_at) == ("transport", None)


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
