"""Failures of Bot API calls as values: callers match on kinds, never on strings.

    Trouble
    ├── RetryAfter      Telegram asks us to wait exactly `after_s`
    ├── NotModified     the message already looks like that: as good as done
    ├── TooOld          a button press that is too old for a toast
    ├── Blocked         we may not write there: blocked, kicked, muted, no rights
    ├── ParseError      the markup or its entities are refused: plain text may pass
    ├── TooLong         the text is too long for one message
    ├── TooBig          the file exceeds a limit, Telegram's or ours
    ├── NotFound        a message, topic, chat or file does not exist (any more)
    ├── Migrated        the group became a supergroup: `to` is its new id
    ├── Conflict        another program polls with this token, or a webhook is set
    ├── Unauthorized    the token is wrong or was revoked
    ├── Unsupported     this server does not know the method: it has an older Bot API
    ├── NetworkDown     the server was not reached, or its answer was lost
    ├── ServerDown      the server answered with 5xx
    ├── NotTelegram     the answer is not from a Bot API server, or cannot be read
    └── Refused         any other refusal

Where `maybe_done` is true, the call may have had its effect although no answer came: a repeat may double it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

DEFAULT_WAIT_S = 5.0
"""For a 429 that does not say how long."""

TEXT_CHARS = 300
"""Longest text. It is cut only after the token was removed: half a token would not be found."""


class Trouble(Struct, frozen=True):
    """`text` is Telegram's own description, or ours, without the token and fit for a log."""

    text: str
    maybe_done: bool = False


class RetryAfter(Trouble, frozen=True):
    after_s: float = DEFAULT_WAIT_S


class NotModified(Trouble, frozen=True):
    pass


class TooOld(Trouble, frozen=True):
    pass


class Blocked(Trouble, frozen=True):
    pass


class ParseError(Trouble, frozen=True):
    pass


class TooLong(Trouble, frozen=True):
    pass


class TooBig(Trouble, frozen=True):
    pass


class NotFound(Trouble, frozen=True):
    pass


class Migrated(Trouble, frozen=True):
    to: int = 0


class Conflict(Trouble, frozen=True):
    webhook: bool = False
    """A webhook is set and must be deleted before polling; otherwise another program polls."""


class Unauthorized(Trouble, frozen=True):
    pass


class Unsupported(Trouble, frozen=True):
    pass


class NetworkDown(Trouble, frozen=True):
    pass


class ServerDown(Trouble, frozen=True):
    pass


class NotTelegram(Trouble, frozen=True):
    pass


class Refused(Trouble, frozen=True):
    pass


# Parts of the description of a refusal (400), in lower case; the first match decides.
_PHRASES: tuple[tuple[type[Trouble], tuple[str, ...]], ...] = (
    (NotModified, ("message is not modified",)),
    (TooOld, ("query is too old", "query_id_invalid")),
    (TooLong, ("too long", "_too_long")),
    (TooBig, ("file is too big",)),
    (ParseError, ("can't parse", "unsupported parse_mode", "entity", "entities", "rich_message")),
    (
        NotFound,
        (
            "replied not found",
            "replied message not found",
            "thread not found",
            "topic_",
            "chat not found",
            "file_id",
            "file is temporarily unavailable",
            "message to edit not found",
            "message to delete not found",
            "message can't be",
            "message_id_invalid",
            "message not found",
        ),
    ),
    (
        Blocked,
        ("no rights", "not enough rights", "chat_write_forbidden", "admin_required", "user_is_blocked"),
    ),
)


def classify(code: int, description: str, parameters: Mapping[str, Any]) -> Trouble:
    """Classify an answer that is not `ok`. `code` is the body's `error_code`, which is also the HTTP status."""
    text = description or f"error {code} without a description"
    if isinstance(to := parameters.get("migrate_to_chat_id"), int):
        return Migrated(text, to=to)
    match code:
        case 429:
            return RetryAfter(text, after_s=_wait_s(parameters.get("retry_after")))
        case 401:
            return Unauthorized(text)
        case 403:
            return Blocked(text)
        case 404:
            # A malformed token and an unknown method share this code; only the latter is named.
            return Unsupported(text) if "method" in text.lower() else Unauthorized(text)
        case 409:
            return Conflict(text, webhook="webhook" in text.lower())
        case 413:
            return TooBig(text)
        case _ if code >= 500:
            return ServerDown(text, maybe_done=True)
        case _:
            lowered = text.lower()
            found = (kind for kind, phrases in _PHRASES if any(phrase in lowered for phrase in phrases))
            return next(found, Refused)(text)


def _wait_s(value: object) -> float:
    usable = isinstance(value, int | float) and not isinstance(value, bool) and value > 0
    return float(value) if usable else DEFAULT_WAIT_S
