"""Why a turn failed, in Pilothouse's kinds: all failures of Claude Code in two tables.

Rules: `is_error` decides, `subtype` does not. A diagnostic of the program itself (`[ede_diagnostic]`) goes into the detail
and is never shown. An interrupted turn was cancelled; it did not fail.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec
from msgspec import Struct

from pilothouse.core.outcome import Failure, FailureKind
from pilothouse.engines.claude.old_program import INSTALL
from pilothouse.engines.claude.wire import Assistant, Result
from pilothouse.engines.claude.wire_system import RateLimit, describe_limit
from pilothouse.processes import SpawnFailed, SpawnProblem

DIAGNOSTIC = "[ede_diagnostic]"
TEXT_CHARS = 600
DETAIL_CHARS = 4000

LOG_IN = "Run `claude auth login` on {machine}"
LOG_IN_OR_KEY = (
    f"{LOG_IN} (if you use an API key: name its variable in `environment` under `[engines.claude]`)"
)
CORRECT_KEY = "Correct the key on {machine} and restart Pilothouse there"
ADD_CREDIT = "Add credit at console.anthropic.com"
NOT_LOGGED_IN = "Claude Code is not logged in."
EXPIRED = "Claude's login has expired."
KEY_REFUSED = "Anthropic refused the API key."
NO_CREDIT = "Claude's credit is used up."
OVERLOADED = "Claude's servers are overloaded."
RATE_LIMIT = "Anthropic's rate limit for this account is reached."
NOT_FOUND = (
    f"Claude Code was not found where the gateway runs. Install it there: {INSTALL}; or name its file in "
    "engines.claude.command."
)
STOPPED_INSIDE = "Claude Code stopped in the middle of the turn and did not say why."
LIMIT_WORDS = ("hit your limit", "usage limit reached")
"""Words for a spent limit; some older versions say it in nothing else."""
CREDIT_WORDS = "Credit balance"
_EPOCH = re.compile(r"\|(\d{10})\b")


def explain_spawn(error: SpawnFailed) -> Failure:
    is_missing = error.reason is SpawnProblem.MISSING_PROGRAM and error.argv0 == "claude"
    return Failure("bad_request", NOT_FOUND if is_missing else str(error), detail=error.detail)


class Trouble(Struct, frozen=True):
    """The facts of a failed result, whichever lines they came from."""

    text: str
    subtype: str = ""
    reason: str = ""
    error: str = ""
    status: int | None = None
    api_error: str = ""
    startup: str = ""


Row = tuple[Callable[[Trouble], bool], FailureKind]

# The first row that holds decides.
ROWS: tuple[Row, ...] = (
    (lambda t: t.subtype in ("error_max_turns", "error_max_budget_usd"), "budget"),
    (lambda t: t.text.startswith("No conversation found"), "stale_session"),
    (lambda t: t.startup == "bypass_root", "permission"),
    (lambda t: t.reason == "prompt_too_long" or t.status == 413, "context_overflow"),
    (lambda t: t.api_error == "usage_limit_reached" or t.error == "billing_error", "quota"),
    (lambda t: t.status == 402 or CREDIT_WORDS in t.text, "quota"),
    (lambda t: any(words in t.text for words in LIMIT_WORDS) and t.status in (None, 429), "quota"),
    (lambda t: t.error == "authentication_failed" or t.status in (401, 403), "auth"),
    (lambda t: t.status == 429 or t.error == "rate_limit", "rate_limit"),
    (lambda t: t.status in (503, 529) or t.error == "overloaded", "overloaded"),
    (lambda t: t.status is not None and t.status >= 500, "transport"),
    (lambda t: t.status is not None, "bad_request"),
    (lambda t: t.error in ("invalid_request", "model_not_found"), "bad_request"),
    (lambda t: t.api_error == "connection_failed" or t.error in ("server_error", "unknown"), "transport"),
    (lambda t: t.reason == "image_error" or bool(t.startup), "bad_request"),
    (lambda t: True, "crash"),
)

# Messages on stderr of a process that printed no result. All come before any work is done.
COMPLAINTS: tuple[tuple[re.Pattern[str], FailureKind], ...] = (
    (re.compile(r"No conversation found"), "stale_session"),
    (re.compile(r"cannot be used with root"), "permission"),
    (re.compile(r"could not start|^error:", re.IGNORECASE | re.MULTILINE), "bad_request"),
)


def was_interrupted(result: Result) -> bool:
    return (result.terminal_reason or "").startswith("aborted_")


def explain_result(
    result: Result, last: Assistant | None, limit: RateLimit | None, server: str = ""
) -> Failure:
    """`last` is the turn's line with an API error, `limit` the last rate limit that was reported, `server` the address
    that Claude Code talks to."""
    trouble, limit = _gather(result, last), _limit_of(last) or limit
    return _explain(trouble, limit, _detail(result, trouble), server)


def _explain(trouble: Trouble, limit: RateLimit | None, detail: str, server: str = "") -> Failure:
    kind = next(kind for holds, kind in ROWS if holds(trouble))
    retry_at = _retry_at(trouble, limit) if kind in ("quota", "rate_limit") else None
    text, fix = _words(kind, trouble, limit, server)
    return Failure(kind, text, retry_at, detail, fix)


def explain_exit(exit_code: int | None, stderr_tail: str) -> Failure:
    """Explain the end of a process that gave no result. The code is None if it is not known."""
    stderr = stderr_tail.strip()
    detail = f"{_ending(exit_code)}\n{stderr[-DETAIL_CHARS + 100 :]}".strip()
    for pattern, kind in COMPLAINTS:
        if exit_code != 0 and pattern.search(stderr):
            return Failure(kind, _first_line(stderr), detail=detail)
    how = "" if exit_code is None else f" ({_ending(exit_code)})"
    return Failure("crash", f"Claude Code ended without finishing its turn{how}.", detail=detail)


_STATUS = re.compile(r"API Error:[^\n]*?\b([45]\d\d)\b")
_PRINTED: tuple[tuple[str, Trouble], ...] = (
    ("/login", Trouble("", error="authentication_failed")),
    ("Invalid API key", Trouble("", error="authentication_failed")),
    ("Prompt is too long", Trouble("", reason="prompt_too_long")),
    ("Request too large", Trouble("", reason="prompt_too_long")),
    ("Reached max turns", Trouble("", subtype="error_max_turns")),
    ("Reached maximum budget", Trouble("", subtype="error_max_budget_usd")),
    ("API Error: Connection", Trouble("", api_error="connection_failed")),
)


def explain_printed(text: str) -> Failure:
    """Explain a printed error, for text mode and for Claude's own log."""
    text = text.strip()
    known = next((trouble for words, trouble in _PRINTED if words in text), Trouble(""))
    status = _STATUS.search(text)
    trouble = msgspec.structs.replace(known, text=text, status=int(status[1]) if status else None)
    return _explain(trouble, None, text[:DETAIL_CHARS])


def _gather(result: Result, last: Assistant | None) -> Trouble:
    status = result.api_error_status
    return Trouble(
        text=_told(result),
        subtype=result.subtype,
        reason=result.terminal_reason or "",
        error=(last.error or "") if last else "",
        status=status if status is not None else (last.api_error_status if last else None),
        api_error=result.api_error or (last.api_error or "" if last else ""),
        startup=result.startup_failure_reason or "",
    )


def _limit_of(last: Assistant | None) -> RateLimit | None:
    """Return the limit that the error repeats."""
    told = (last.api_error_params or {}).get("rate_limit_info") if last else None
    try:
        return msgspec.convert(told, RateLimit) if told is not None else None
    except msgspec.ValidationError:
        return None


def _told(result: Result) -> str:
    shown = [text for text in result.errors or () if not text.startswith(DIAGNOSTIC)]
    text = shown[0] if shown else result.result if isinstance(result.result, str) else ""
    return "" if text.startswith(DIAGNOSTIC) else text.strip()


def _words(kind: FailureKind, trouble: Trouble, limit: RateLimit | None, server: str) -> tuple[str, str]:
    """Return the text and the fix."""
    told = _EPOCH.sub("", trouble.text)[:TEXT_CHARS]
    match kind:
        case "auth":
            return _refused_words(told)
        case "quota" if CREDIT_WORDS in told:
            return NO_CREDIT, ADD_CREDIT
        case "quota" if limit is not None and limit.status == "rejected":
            return describe_limit(limit), ""
        case "rate_limit":
            return RATE_LIMIT, ""
        case "overloaded":
            return OVERLOADED, ""
        case "transport":
            return _unreachable_words(trouble, server), ""
        case _:
            return told or STOPPED_INSIDE, ""


def _refused_words(told: str) -> tuple[str, str]:
    if "expired" in told:
        return EXPIRED, LOG_IN
    if "API key" in told:
        return KEY_REFUSED, CORRECT_KEY
    if not told or "/login" in told:
        return NOT_LOGGED_IN, LOG_IN_OR_KEY
    return f"Anthropic refused Claude's login ({_API_ERROR.sub('', told).rstrip('.')}).", LOG_IN


_API_ERROR = re.compile(r"^(Failed to authenticate\. )?(API Error: )?")
_ERROR_CODE = re.compile(r"\((E[A-Z_]+)\)")
_CODES = {
    "ECONNREFUSED": "connection refused",
    "ECONNRESET": "connection lost",
    "ENOTFOUND": "name not found",
    "ETIMEDOUT": "no answer in time",
}


def _unreachable_words(trouble: Trouble, server: str) -> str:
    code, failed = _ERROR_CODE.search(trouble.text), trouble.status is not None
    if failed:
        why = f"HTTP {trouble.status}"
    elif code:
        why = _CODES.get(code[1], code[1])
    else:
        why = _API_ERROR.sub("", trouble.text)[:TEXT_CHARS].rstrip(".")
    facts = ": ".join(filter(None, (server, why)))
    return f"Claude's server {'failed' if failed else 'does not answer'} ({facts})."


def _retry_at(trouble: Trouble, limit: RateLimit | None) -> float | None:
    """Return the time of the next try. Older versions write it into the text, behind a bar."""
    if limit is not None and limit.status == "rejected":
        return limit.resets_at
    told = _EPOCH.search(trouble.text)
    return float(told[1]) if told else None


def _detail(result: Result, trouble: Trouble) -> str:
    facts = (
        ("subtype", trouble.subtype),
        ("reason", trouble.reason),
        ("error", trouble.error),
        ("status", trouble.status),
        ("api_error", trouble.api_error or result.api_error_type),
        ("startup", trouble.startup),
    )
    told = " ".join(f"{name}={value}" for name, value in facts if value)
    return "\n".join([told, *(result.errors or ()), trouble.text]).strip()[:DETAIL_CHARS]


def _first_line(stderr: str) -> str:
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    told = [line for line in lines if any(pattern.search(line) for pattern, _ in COMPLAINTS)]
    return re.sub(r"^error:\s*", "", (told or lines)[0], flags=re.IGNORECASE)[:TEXT_CHARS]


def _ending(exit_code: int | None) -> str:
    if exit_code is None:
        return "exit code unknown"
    if exit_code < 0:
        return f"signal {-exit_code}"
    return (
        f"exit code {exit_code}" if exit_code <= 128 else f"exit code {exit_code}, signal {exit_code - 128}"
    )
