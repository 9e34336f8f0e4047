"""What may go wrong on the way, on demand: each fault waits for a call and is used up.

A call is named by method and path, with `*` for one part of the path: `SEND` is "POST /channels/*/messages".
"""

import asyncio
import re
from dataclasses import dataclass, field
from typing import Any, Literal

from simcord.backend.errors import BackendError
from typing_extensions import override

ANY = "*"
SEND = "POST /channels/*/messages"
EDIT = "PATCH /channels/*/messages/*"
DELETE = "DELETE /channels/*/messages/*"
HISTORY = "GET /channels/*/messages"
REACT = "PUT /channels/*/messages/*/reactions/*/@me"
UNREACT = "DELETE /channels/*/messages/*/reactions/*/@me"
TYPE = "POST /channels/*/typing"
ACKNOWLEDGE = "POST /interactions/*/*/callback"
FOLLOW_UP = "POST /webhooks/*/*"
EDIT_ANSWER = "PATCH /webhooks/*/*/messages/*"
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


@dataclass
class Fault:
    call: str
    times: int
    kind: Literal["refuse", "raw", "hold", "lose", "drop"]
    refusal: Refusal | None = None
    status: int = 200
    body: bytes = b""
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    released: asyncio.Event = field(default_factory=asyncio.Event)

    def release(self) -> None:
        self.released.set()


class Faults:
    def __init__(self) -> None:
        self.waiting: list[Fault] = []
        self._held: list[Fault] = []

    def take(self, method: str, path: str) -> Fault | None:
        for fault in self.waiting:
            if matches(fault.call, method, path):
                fault.times -= 1
                if fault.times <= 0:
                    self.waiting.remove(fault)
                fault.arrived.set()
                return fault
        return None

    def clear(self) -> None:
        """Nothing goes wrong any more, and what is held goes on."""
        for fault in self._held:
            fault.release()
        self._held.clear()
        self.waiting.clear()

    # What Discord says.

    def refuse(
        self, call: str, status: int, code: int, message: str, *, times: int = 1, **body: Any
    ) -> Fault:
        return self._add(Fault(call, times, "refuse", Refusal(status, code, message, **body)))

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

    # What a proxy, or the net, says.

    def storm(self, call: str = ANY, *, status: int = 502, times: int = 1) -> Fault:
        """A proxy before Discord answers, with a page."""
        return self._add(Fault(call, times, "raw", status=status, body=b"<html><h1>Bad Gateway</h1></html>"))

    def garble(
        self, call: str = ANY, body: bytes = b"<html>Log in to the wifi</html>", *, times: int = 1
    ) -> Fault:
        return self._add(Fault(call, times, "raw", status=200, body=body))

    def hold(self, call: str = ANY, *, times: int = 1) -> Fault:
        """What is asked is done after `release`; `arrived` tells that the request is there."""
        fault = self._add(Fault(call, times, "hold"))
        self._held.append(fault)
        return fault

    def lose_answer(self, call: str = ANY, *, times: int = 1) -> Fault:
        """What was asked is done, and the connection breaks before the answer."""
        return self._add(Fault(call, times, "lose"))

    def drop(self, call: str = ANY, *, times: int = 1) -> Fault:
        """The connection breaks before anything is done."""
        return self._add(Fault(call, times, "drop"))

    def _add(self, fault: Fault) -> Fault:
        self.waiting.append(fault)
        return fault
