"""Telegram's published limits: one message a second in a chat, 20 a minute in a group, 30 a second in all.

A new message may follow an edit in the same second: Telegram allows short bursts, and a burst of two is the smallest.

`report` writes violations down, `enforce` also answers 429. A little early is not a violation: a request's way to the
server takes more or less time.
"""

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from tests.channels.telegram.server.refusal import too_many

COUNTED = ("send", "edit", "copy", "forward")
NOT_COUNTED = ("sendchataction", "sendmessagedraft", "sendrichmessagedraft")
SLACK_S = 0.1


@dataclass(frozen=True)
class Rule:
    name: str
    times: int
    within_s: float


PRIVATE = Rule("1 a second in a private chat", 1, 1.0)
GROUP = Rule("20 a minute in a group", 20, 60.0)
ALL = Rule("30 a second in all", 30, 1.0)


@dataclass(frozen=True)
class Violation:
    rule: Rule
    method: str
    chat_id: int
    at: float


@dataclass
class Flood:
    now: Callable[[], float]
    mode: Literal["off", "report", "enforce"] = "report"
    violations: list[Violation] = field(default_factory=list)
    _sent: dict[object, deque[float]] = field(default_factory=dict)

    def count(self, method: str, chat_id: int) -> None:
        """Raises a refusal where the mode is to enforce, and then counts nothing."""
        lowered = method.lower()
        if self.mode == "off" or lowered in NOT_COUNTED or not lowered.startswith(COUNTED):
            return
        now = self.now()
        is_edit = lowered.startswith("edit")
        own = (PRIVATE, (chat_id, "any" if is_edit else "new")) if chat_id > 0 else (GROUP, chat_id)
        pairs = (own, (ALL, "all"))
        for rule, key in pairs:
            if wait_s := self._early_s(rule, key, now):
                self.violations.append(Violation(rule, method, chat_id, now))
                if self.mode == "enforce":
                    raise too_many(max(1, math.ceil(wait_s)))
        for _, key in (*pairs, (PRIVATE, (chat_id, "any"))):
            self._sent.setdefault(key, deque()).append(now)

    def _early_s(self, rule: Rule, key: object, now: float) -> float:
        sent = self._sent.setdefault(key, deque())
        while sent and sent[0] <= now - rule.within_s + SLACK_S:
            sent.popleft()
        return sent[-rule.times] + rule.within_s - now if len(sent) >= rule.times else 0.0
