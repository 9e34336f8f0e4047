"""Discord's rate limits: a bucket per route and major id in fixed windows, told in headers, and 50 a second in all.

`generous` tells limits that nobody reaches; `published` holds a client to 5 messages and 5 edits per channel in 5 s and
to 50 requests a second. A window begins with the first request after the last one ended, as Discord's do: a client that waits
for what `X-RateLimit-Reset-After` says is never refused.
"""

import math
import re
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.channels.discord.server.faults import EDIT, SEND, Refusal, matches, too_many


@dataclass(frozen=True)
class Rule:
    calls: str
    times: int
    window_s: float


GENEROUS = Rule("*", 1000, 1.0)
PUBLISHED = (Rule(SEND, 5, 5.0), Rule(EDIT, 5, 5.0), GENEROUS)
EVERYWHERE = Rule("all", 50, 1.0)
NOT_COUNTED = ("/interactions/", "/webhooks/")
"""What is outside the limit on all requests."""


@dataclass
class Window:
    started_at: float
    taken: int = 0


@dataclass
class Limits:
    now: Callable[[], float]
    rules: tuple[Rule, ...] = (GENEROUS,)
    everywhere: Rule | None = None
    refused: int = 0
    """How many 429 were given because of these limits."""
    fullest: Counter[str] = field(default_factory=Counter)
    """Bucket → the most that was taken in one window."""
    _windows: dict[str, Window] = field(default_factory=dict)

    def publish(self) -> None:
        self.rules, self.everywhere = PUBLISHED, EVERYWHERE

    def set(self, calls: str, times: int, window_s: float) -> None:
        self.rules = (Rule(calls, times, window_s), *self.rules)

    def take(self, method: str, path: str) -> dict[str, str]:
        """The headers of the answer; raises a refusal where too much was asked."""
        if self.everywhere and not path.startswith(NOT_COUNTED):
            window = self._window(self.everywhere.calls, self.everywhere)
            if window.taken >= self.everywhere.times:
                raise self._refuse(self.everywhere, window, {}, everywhere=True)
            window.taken += 1
        if path.startswith("/interactions/"):
            return {}
        rule = next(rule for rule in self.rules if matches(rule.calls, method, path))
        name = bucket(method, path)
        window = self._window(name, rule)
        if window.taken >= rule.times:
            raise self._refuse(rule, window, self._headers(name, rule, window))
        window.taken += 1
        self.fullest[name] = max(self.fullest[name], window.taken)
        return self._headers(name, rule, window)

    def _window(self, name: str, rule: Rule) -> Window:
        window = self._windows.get(name)
        if window is None or self._left_s(rule, window) <= 0:
            window = self._windows[name] = Window(self.now())
        return window

    def _left_s(self, rule: Rule, window: Window) -> float:
        return window.started_at + rule.window_s - self.now()

    def _headers(self, name: str, rule: Rule, window: Window) -> dict[str, str]:
        left_s = math.ceil(self._left_s(rule, window) * 1000) / 1000
        return {
            "X-RateLimit-Limit": str(rule.times),
            "X-RateLimit-Remaining": str(rule.times - window.taken),
            "X-RateLimit-Reset-After": f"{left_s:.3f}",
            "X-RateLimit-Bucket": f"{zlib.crc32(_route(name).encode()):08x}",
        }

    def _refuse(
        self, rule: Rule, window: Window, headers: dict[str, str], *, everywhere: bool = False
    ) -> Refusal:
        self.refused += 1
        wait_s = math.ceil(max(self._left_s(rule, window), 0.001) * 1000) / 1000
        refusal = too_many(wait_s, everywhere=everywhere)
        refusal.headers = {**headers, **refusal.headers}
        return refusal


def bucket(method: str, path: str) -> str:
    """The route with its major id: a channel's, a guild's or a webhook's; an interaction's token is one of its own."""
    head, major, *rest = [*path.strip("/").split("/"), ""][:99]
    parts = [re.sub(r"^\d{5,}$", "*", part) for part in rest if part]
    if "reactions" in parts:
        parts = parts[: parts.index("reactions") + 1]
    return f"{method} /{'/'.join([head, major, *parts])}"


def _route(name: str) -> str:
    """The hash that Discord tells is the same for all channels: the major id stands beside it."""
    return re.sub(r"\d{5,}", "*", name)
