"""What Discord may refuse, on demand, besides what goes wrong on the way to any platform.

A call is named by method and path, with `*` for one part of the path: `SEND` is "POST /channels/*/messages".
"""

import re
from typing import Any

from simcord.backend.errors import BackendError
from tests.channels.faulting import ANY, Fault, FaultsOnTheWay
from typing_extensions import override

SEND = "POST /channels/*/messages"
EDIT = "PATCH /channels/*/messages/*"
DELETE = "DELETE /channels/*/messages/*"
HISTORY = "GET /channels/*/messages"
ARCHIVED = "GET /channels/*/threads/archived/public"
ARCHIVED_PRIVATE = "GET /channels/*/threads/archived/private"
ARCHIVED_JOINED = "GET /channels/*/users/@me/threads/archived/private"
REACT = "PUT /channels/*/messages/*/reactions/*/@me"
UNREACT = "DELETE /channels/*/messages/*/reactions/*/@me"
TYPE = "POST /channels/*/typing"
ACKNOWLEDGE = "POST /interactions/*/*/callback"
FOLLOW_UP = "POST /webhooks/*/*"
EDIT_ANSWER = "PATCH /webhooks/*/*/messages/*"
DELETE_ANSWER = "DELETE /webhooks/*/*/messages/*"
COMMANDS = "PUT /applications/*/guilds/*/commands"
DOWNLOAD = "GET /cdn"


def matches(call: str, method: str, path: str) -> bool:
    if call == ANY:
        return True
    wanted, _, pattern = call.partition(" ")
    parts = re.escape(pattern).replace(r"\*", "[^/]+")
    return wanted == method and re.fullmatch(parts, path) is not None


class Refusal(BackendError):
    """An error of Discord's with whatever else stands in its body and its headers."""

    def __init__(
        self, status: int, code: int, message: str, *, headers: dict[str, str] | None = None, **body: Any
    ) -> None:
        super().__init__(status, code, message)
        self.headers = headers or {}
        self.body = body

    @override
    def to_json(self) -> dict[str, Any]:
        return {**super().to_json(), **self.body}


def too_many(retry_after_s: float, *, everywhere: bool = False, code: int = 0, message: str = "") -> Refusal:
    scope = "global" if everywhere else "user"
    headers = {"Retry-After": f"{retry_after_s:.3f}", "X-RateLimit-Scope": scope}
    if everywhere:
        headers["X-RateLimit-Global"] = "true"
    body = {"retry_after": retry_after_s, "global": everywhere}
    return Refusal(429, code, message or "You are being rate limited.", headers=headers, **body)


class Faults(FaultsOnTheWay):
    def take(self, method: str, path: str) -> Fault | None:
        return self.take_first(lambda fault: matches(fault.call, method, path))

    def refuse(
        self, call: str, status: int, code: int, message: str, *, times: int = 1, **body: Any
    ) -> Fault:
        return self._add(Fault(call, times, "refuse", Refusal(status, code, message, **body)))

    def hold_answer(self, call: str) -> Fault:
        """What is asked is done at once, and answered after `release`; `arrived` tells that it is done."""
        fault = self._add(Fault(call, 1, "late"))
        self._held.append(fault)
        return fault

    def too_many(
        self, call: str = ANY, *, after_s: float = 0.3, everywhere: bool = False, times: int = 1
    ) -> Fault:
        return self._add(Fault(call, times, "refuse", too_many(after_s, everywhere=everywhere)))

    def too_old_to_edit(self, *, after_s: float = 0.3, times: int = 1) -> Fault:
        """Messages older than an hour may be changed a few times only."""
        words = "Maximum number of edits to messages older than 1 hour reached. Try again later."
        refusal = too_many(after_s, code=30046, message=words)
        return self._add(Fault(EDIT, times, "refuse", refusal))

    def missing_permission(self, call: str, *, times: int = 1) -> Fault:
        return self.refuse(call, 403, 50013, "Missing Permissions", times=times)

    def unknown_channel(self, call: str, *, times: int = 1) -> Fault:
        return self.refuse(call, 404, 10003, "Unknown Channel", times=times)

    def unknown_message(self, call: str, *, times: int = 1) -> Fault:
        return self.refuse(call, 404, 10008, "Unknown Message", times=times)

    def thread_archived(self, call: str, *, times: int = 1) -> Fault:
        return self.refuse(call, 400, 50083, "Thread is archived", times=times)

    def late(self, *, times: int = 1) -> Fault:
        """An acknowledgement that comes after three seconds."""
        return self.refuse(ACKNOWLEDGE, 404, 10062, "Unknown interaction", times=times)

    def expired(self, call: str = FOLLOW_UP, *, times: int = 1) -> Fault:
        """An answer that comes after fifteen minutes."""
        return self.refuse(call, 404, 10015, "Unknown Webhook", times=times)
