"""What may go wrong with a call to the Bot API, as values: the caller matches on kinds and never on strings.

    Trouble
    ├── RetryAfter      Telegram wants us to wait `after_s`, exactly
    ├── NotModified     the message already looks like that: as good as done
    ├── TooOld          a button press that waited too long for its toast
    ├── Blocked         we may not write there: blocked, kicked, muted, no rights
    ├── ParseError      the markup or its entities are refused: the text may go as plain text
    ├── TooLong         the text is too long for one message
    ├── TooBig          the file is over a limit, Telegram's or ours
    ├── Gone            a message, topic, chat or file is not there (any more)
    ├── Migrated        the group became a supergroup: `to` is its new id
    ├── Conflict        somebody else polls with this token, or a webhook is set
    ├── Unauthorized    the token is wrong or was revoked
    ├── Unsupported     this server does not know the method: it speaks an older Bot API
    ├── NetworkDown     we could not reach it, or its answer was lost
    ├── ServerDown      it answered with 5xx
    ├── NotTelegram     what answered is no Bot API server, or not one that we can read
    └── Refused         any other refusal

Where `maybe_done` is true the call may have had its effect although we saw no answer: a repeat may double it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

DEFAULT_WAIT_S = 5.0
"""For a 429 that does not say how long."""

TEXT_CHARS = 300
"""Of more nobody reads on. It is cut where the token was taken out: half of one would not be found."""


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


class Gone(Trouble, frozen=True):
    what: Literal["message", "reply", "thread", "chat", "file"] = "message"


class Migrated(Trouble, frozen=True):
    to: int = 0


class Conflict(Trouble, frozen=True):
    webhook: bool = False
    """A webhook is set, and must be deleted before polling; otherwise another process polls."""


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


# What the descriptions of a refusal (400) contain, in lower case; the first that is found decides.
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
    ("replied not found", Gone, {"what": "reply"}),
    ("replied message not found", Gone, {"what": "reply"}),
    ("thread not found", Gone, {"what": "thread"}),
    ("topic_", Gone, {"what": "thread"}),
    ("chat not found", Gone, {"what": "chat"}),
    ("file_id", Gone, {"what": "file"}),
    ("file is temporarily unavailable", Gone, {"what": "file"}),
    ("message to edit not found", Gone, {}),
    ("message to delete not found", Gone, {}),
    ("message can't be", Gone, {}),
    ("message_id_invalid", Gone, {}),
    ("message not found", Gone, {}),
    ("no rights", Blocked, {}),
    ("not enough rights", Blocked, {}),
    ("chat_write_forbidden", Blocked, {}),
    ("admin_required", Blocked, {}),
    ("user_is_blocked", Blocked, {}),
)


def classify(code: int, description: str, parameters: Mapping[str, Any]) -> Trouble:
    """An answer that is not `ok`, as a value. `code` is the body's `error_code`, which is also the HTTP status."""
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
            # A malformed token and a method from the future share this code; only the latter is named.
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
