"""GitHub's events that concern a watched pull request: a failed check, a review, a comment. Pure.

The key of a failed check names the commit, so a commit wakes a conversation once, however many of its checks fail. The
comments of one review have the review's key. Bots are not listened to: an agent would answer itself.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

FAILED = frozenset({"failure", "timed_out", "action_required", "startup_failure"})


class PullEvent(Struct, frozen=True):
    pulls: tuple[str, ...]
    """As `owner/name#7`, in small letters."""
    key: str


def read_pull_event(event: str, payload: Any) -> PullEvent | None:
    """Return what the event is for pull requests; None if nobody is woken by it."""
    repository = _get(payload, "repository", "full_name")
    numbers, key = _checks(event, payload) if event in _CHECKS else _said(event, payload)
    if not isinstance(repository, str) or not numbers or not key:
        return None
    return PullEvent(tuple(f"{repository}#{number}".lower() for number in numbers), key)


_CHECKS = ("check_run", "workflow_run")


def _checks(event: str, payload: Any) -> tuple[list[int], str]:
    run = _get(payload, event)
    sha, pulls = _get(run, "head_sha"), _get(run, "pull_requests")
    failed = _get(payload, "action") == "completed" and _get(run, "conclusion") in FAILED
    if not failed or not isinstance(sha, str) or not isinstance(pulls, list):
        return [], ""
    numbers = [number for pull in pulls if isinstance(number := _get(pull, "number"), int)]
    return numbers, f"checks-{sha}"


def _said(event: str, payload: Any) -> tuple[list[int], str]:
    action, number = _get(payload, "action"), _get(payload, "pull_request", "number")
    if _get(payload, "sender", "type") == "Bot":
        return [], ""
    match event, action:
        case "pull_request_review", "submitted":
            silent = _get(payload, "review", "state") == "approved" and not _get(payload, "review", "body")
            id = None if silent else _get(payload, "review", "id")
            key = f"review-{id}"
        case "pull_request_review_comment", "created":
            id = _get(payload, "comment", "pull_request_review_id")
            key = f"review-{id}"
        case "issue_comment", "created" if _get(payload, "issue", "pull_request") is not None:
            id, number = _get(payload, "comment", "id"), _get(payload, "issue", "number")
            key = f"comment-{id}"
        case _:
            return [], ""
    return ([number], key) if isinstance(id, int) and isinstance(number, int) else ([], "")


def _get(document: Any, *path: str) -> Any:
    for key in path:
        document = document.get(key) if isinstance(document, dict) else None
    return document
