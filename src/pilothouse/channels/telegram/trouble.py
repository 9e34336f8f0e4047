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
from typing import Any, Literal

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
    what: Literal["message", "reply", "thread", "chat", "file"] = "message"


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
    status: int = 500


class NotTelegram(Trouble, frozen=True):
    pass


class Refused(Trouble, frozen=True):
    code: int = 400


# Parts of the description of a refusal (400), in lower case; the first match decides.
_PHRASES: tuple[tuple[str, type[Trouble], Mapping[str, Any]], ...] = (
    ("message is not modified", NotModified, {}),
    ("query is too old", TooOld, {}),
    ("query_id_invalid", TooOld, {}),
    ("too long", TooLong, {}),
    ("_too_long", TooLong, {}),
    ("file is too big", TooBig, {}),
    ("can't parse", ParseError, {}),
    ("unsupported parse_mode", ParseError, {}),
    ("entity", ParseError, {}),
    ("entities", ParseError, {}),
    ("rich_message", ParseError, {}),
    ("replied not found", NotFound, {"what": "reply"}),
    ("replied message not found", NotFound, {"what": "reply"}),
    ("thread not found", NotFound, {"what": "thread"}),
    ("topic_", NotFound, {"what": "thread"}),
    ("chat not found", NotFound, {"what": "chat"}),
    ("file_id", NotFound, {"what": "file"}),
    ("file is temporarily unavailable", NotFound, {"what": "file"}),
    ("message to edit not found", NotFound, {}),
    ("message to delete not found", NotFound, {}),
    ("message can't be", NotFound, {}),
    ("message_id_invalid", NotFound, {}),
    ("message not found", NotFound, {}),
    ("no rights", Blocked, {}),
    ("not enough rights", Blocked, {}),
    ("chat_write_forbidden", Blocked, {}),
    ("admin_required", Blocked, {}),
    ("user_is_blocked", Blocked, {}),
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
            return ServerDown(text, maybe_done=True, status=code)
        case _:
            return _refusal(code, text)


def _refusal(code: int, text: str) -> Trouble:
    lowered = text.lower()
    for phrase, kind, more in _PHRASES:
        if phrase in lowered:
            return kind(text, **more)
    return Refused(text, code=code)


def _wait_s(value: object) -> float:
    usable = isinstance(value, int | float) and not isinstance(value, bool) and value > 0
    return float(value) if usable else DEFAULT_WAIT_S
