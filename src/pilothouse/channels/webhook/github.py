"""GitHub's events in words: what happened, where, to which commit, and what failed or was said. Pure.

The payloads are those of docs.github.com/webhooks/webhook-events-and-payloads. An event that is not known here is shown as JSON.
"""

from __future__ import annotations

from typing import Any

TEXT_CHARS = 4_000
LINE_CHARS = 300
MOST_PULLS = 10


def describe(event: str, payload: Any) -> str:
    """Return the lines of an event; empty if its shape is not known."""
    if not isinstance(payload, dict):
        return ""
    thing = _THINGS.get(event)
    subject = _at(payload, thing) if thing else None
    if not isinstance(subject, dict):
        return ""
    lines = [
        ("event", " ".join(filter(None, [event, _text(payload, "action")]))),
        ("repository", _text(payload, "repository.full_name")),
        ("by", _text(payload, "sender.login")),
        ("pull request", _pulls(payload, subject)),
        (_NAMES.get(event, "name"), _text(subject, "name")),
        (
            "title",
            _text(subject, "title") or _text(payload, "issue.title") or _text(payload, "pull_request.title"),
        ),
        (
            "number",
            _text(payload, "pull_request.number")
            or _text(payload, "issue.number")
            or _text(subject, "number"),
        ),
        (
            "branch",
            _text(subject, "head_branch")
            or _text(subject, "check_suite.head_branch")
            or _text(subject, "head.ref"),
        ),
        ("commit", _text(subject, "head_sha") or _text(subject, "commit_id") or _text(subject, "head.sha")),
        ("state", _text(subject, "conclusion") or _text(subject, "state") or _text(subject, "status")),
        ("file", " ".join(filter(None, [_text(subject, "path"), _text(subject, "line")]))),
        ("summary", _text(subject, "output.title")),
        ("url", _text(subject, "html_url")),
    ]
    said = [f"{name}: {value}" for name, value in lines if value]
    for path in ("output.summary", "body"):
        said += _block(_at(subject, path))
    return "\n".join(said)


_THINGS = {
    "check_run": "check_run",
    "workflow_run": "workflow_run",
    "pull_request": "pull_request",
    "pull_request_review": "review",
    "pull_request_review_comment": "comment",
    "issue_comment": "comment",
    "issues": "issue",
}
"""By event: the part of the payload that it is about."""
_NAMES = {"check_run": "check", "workflow_run": "workflow"}


def _pulls(payload: Any, subject: Any) -> str:
    """Return the pull requests of a check or a workflow, as `owner/name#7`."""
    repository, pulls = _text(payload, "repository.full_name"), _at(subject, "pull_requests")
    numbers = [_text(pull, "number") for pull in pulls[:MOST_PULLS]] if isinstance(pulls, list) else []
    return ", ".join(f"{repository}#{number}" for number in numbers if number)


def _at(document: Any, path: str) -> Any:
    for key in path.split("."):
        document = document.get(key) if isinstance(document, dict) else None
    return document


def _text(document: Any, path: str) -> str:
    """Return a value as one short line: the caller wrote it."""
    value = _at(document, path)
    if isinstance(value, bool) or not isinstance(value, str | int):
        return ""
    return " ".join(str(value).split())[:LINE_CHARS]


def _block(text: Any) -> list[str]:
    if not isinstance(text, str) or not text.strip():
        return []
    cut = text if len(text) <= TEXT_CHARS else f"{text[:TEXT_CHARS]} … (shortened)"
    return ["", *(f"> {line}" for line in cut.splitlines())]
