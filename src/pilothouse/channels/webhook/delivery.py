"""One call of a hook: who may call, whether it came before, and its text for the engine. Pure.

Everything that the caller wrote is quoted or encoded as JSON, so no line of it can pose as the frame, or as an
instruction of the owner.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from pilothouse.channels.webhook.config import HookConfig
from pilothouse.channels.webhook.github import describe
from pilothouse.channels.webhook.pull_requests import PullEvent, read_pull_event

BODY_BYTES = 256 << 10
WINDOW_S = 300
"""Without an id, the same unsigned body within this time is the same call."""
REMEMBERED = 1000
"""Bodies whose first time is kept in memory."""
SHOWN_CHARS = 20_000
VALUE_CHARS = 2_000
SIGNATURE = "x-hub-signature-256"
IDS = ("webhook-id", "idempotency-key", "x-request-id")
_VALUE = re.compile(r"\{([A-Za-z0-9_]+(?:\.[A-Za-z0-9_]+)*)\}")
_OTHER_BREAKS = re.compile("[\x85\u2028\u2029]")
"""Line breaks that JSON leaves as they are."""
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")


class Refused(Struct, frozen=True):
    status: int
    why: str


class Call(Struct, frozen=True):
    """`id` is the same for a repeated call. `source` is `preset/event`."""

    id: str
    event: str
    source: str
    text: str
    pulls: PullEvent | None = None
    """The pull requests that it concerns, with a key under which it counts once."""


def may_call(hook: HookConfig, headers: Mapping[str, str], body: bytes) -> bool:
    """Check the signature of the body, or the token, in constant time."""
    if hook.secret:
        mac = hmac.new(hook.secret.reveal().encode(), body, hashlib.sha256).hexdigest()
        return _same(headers.get(SIGNATURE, ""), f"sha256={mac}")
    return _same(headers.get("authorization", ""), f"Bearer {hook.token.reveal()}")


def _same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), wanted.encode())


def read_call(
    name: str, hook: HookConfig, headers: Mapping[str, str], body: bytes, first_at: float
) -> Call | Refused:
    """Read a call that was let in. `first_at` is when this body came first (`Repeats`)."""
    try:
        document: Any = msgspec.json.decode(body) if body.strip() else {}
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return Refused(400, "The body is not JSON.")
    source = "github" if hook.preset == "github" else name
    header = "x-github-event" if hook.preset == "github" else "x-event"
    event = _UNSAFE.sub("_", headers.get(header, "") or "call")[:64]
    shown = _fill(hook.prompt, document) if hook.prompt else _show(hook, event, document)
    text = f"[WEBHOOK: {source}/{event}]\n{shown}"
    pulls = read_pull_event(event, document) if hook.preset == "github" else None
    return Call(_id(hook, headers, body, first_at), event, f"{source}/{event}", text, pulls)


class Repeats:
    """Remembers when each body came first. After a restart, a repeat is still known by the window that it began in."""

    def __init__(self) -> None:
        self._first: dict[str, float] = {}

    def first_at(self, name: str, body: bytes, now: float) -> float:
        """Return when the hook got this body first, within `WINDOW_S`."""
        key = f"{name} {hashlib.sha256(body).hexdigest()}"
        first = self._first.get(key)
        if first is not None and 0 <= now - first < WINDOW_S:
            return first
        self._first.pop(key, None)
        self._first[key] = now
        if len(self._first) > REMEMBERED:
            del self._first[next(iter(self._first))]
        return now


def _id(hook: HookConfig, headers: Mapping[str, str], body: bytes, first_at: float) -> str:
    """Name the call. A signature covers the body alone, so a signed call is known by its body, whatever its headers say."""
    digest = hashlib.sha256(body).hexdigest()
    if hook.secret:
        return f"body-{digest}"
    given = next((headers[key] for key in IDS if headers.get(key)), "")
    if given:
        return f"id-{hashlib.sha256(given.encode()).hexdigest()}"
    return f"{int(first_at // WINDOW_S)}-{digest}"


def _show(hook: HookConfig, event: str, document: Any) -> str:
    if hook.preset == "github" and (told := describe(event, document)):
        return told
    encoded = msgspec.json.encode(document).decode()
    return encoded if len(encoded) <= SHOWN_CHARS else f"{encoded[:SHOWN_CHARS]} … (shortened)"


def _fill(prompt: str, document: Any) -> str:
    """Put values of the body into the owner's prompt, each as a JSON string, so that it shows where it begins and ends."""
    return _VALUE.sub(lambda found: _encoded(_value(document, found[1])), prompt)


def _encoded(text: str) -> str:
    text = text if len(text) <= VALUE_CHARS else f"{text[:VALUE_CHARS]} … (shortened)"
    return _OTHER_BREAKS.sub(" ", msgspec.json.encode(text).decode())


def _value(document: Any, path: str) -> str:
    for key in path.split("."):
        if isinstance(document, list) and key.isdigit():
            document = document[int(key)] if int(key) < len(document) else None
        else:
            document = document.get(key) if isinstance(document, dict) else None
    if isinstance(document, str):
        return document
    return "" if document is None else msgspec.json.encode(document).decode()


def quoted(text: str, limit: int = VALUE_CHARS) -> str:
    """Return a foreign text as one line, or as a block whose lines are quoted."""
    text = text if len(text) <= limit else f"{text[:limit]} … (shortened)"
    lines = text.splitlines()
    return "\n".join(f"> {line}" for line in ["", *lines]) if len(lines) > 1 else " ".join(lines)
