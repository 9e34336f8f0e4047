"""Every word of Codex for a failure has a kind, and a spent limit says when it is open again."""

from __future__ import annotations

from typing import Any

import pytest

from pilothouse.engines.codex.failures import NOT_LOGGED_IN, explain_error, explain_refusal, reset_of
from pilothouse.engines.codex.wire import RateLimits, TurnError, Window


@pytest.mark.parametrize(
    ("info", "message", "kind"),
    [
        ("contextWindowExceeded", "too long", "context_overflow"),
        ("usageLimitExceeded", "all used", "quota"),
        ({"httpConnectionFailed": {"httpStatusCode": 401}}, "no", "auth"),
        ({"responseTooManyFailedAttempts": {"httpStatusCode": 429}}, "slow", "rate_limit"),
        ({"responseStreamDisconnected": {"httpStatusCode": None}}, "cut", "transport"),
        ({"httpConnectionFailed": {"httpStatusCode": 502}}, "bad gateway", "transport"),
        ({"somethingNew": {"deep": 1}}, "new", "bad_request"),
        ("other", "stream disconnected before completion", "transport"),
        (None, "unexpected status 503 Service Unavailable", "overloaded"),
        (None, "", "crash"),
        (5, "odd", "bad_request"),
    ],
)
def test_each_word_has_its_kind(info: Any, message: str, kind: str) -> None:
    assert explain_error(TurnError(message, info)).kind == kind


def test_the_body_of_an_http_error_is_shown_as_its_words() -> None:
    body = '{"error": {"message": "No such model.", "type": "invalid_request_error"}}'
    assert explain_error(TurnError(body, "other")).text == "No such model."
    assert explain_error(TurnError("unexpected status 401 Unauthorized")).text == NOT_LOGGED_IN


def test_a_limit_opens_again_when_all_its_spent_windows_do() -> None:
    spent, later, open_ = Window(100.0, 50.0), Window(100.0, 90.0), Window(20.0, 10.0)
    assert reset_of(RateLimits(spent, later)) == 90.0
    assert reset_of(RateLimits(spent, open_)) == 50.0
    assert reset_of(RateLimits(open_, None)) is None
    assert reset_of(RateLimits(Window(99.0, 30.0), open_, "rate_limit_reached")) == 30.0
    assert reset_of(None) is None


def test_only_a_spent_limit_parks_a_turn() -> None:
    limits = RateLimits(Window(100.0, 50.0))
    assert explain_error(TurnError("all used", "usageLimitExceeded"), limits).retry_at == 50.0
    assert explain_error(TurnError("cut", "other"), limits).retry_at is None


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("no rollout found for thread id 01a1", "stale_session"),
        ("thread not found: 01a1", "stale_session"),
        ("thread 01a1 already has an active writer", "bad_request"),
        ("anything else", "bad_request"),
    ],
)
def test_a_refused_session_says_why(message: str, kind: str) -> None:
    assert explain_refusal(message).kind == kind
