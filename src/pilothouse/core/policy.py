"""What a rule may say about a tool call. A deny wins over an ask, an ask over an allow; no rule means ask."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, Protocol

from msgspec import Struct

from pilothouse.core.ask import Ask

PolicyOutcome = Literal["allow", "deny", "ask"]
ApprovalMode = Literal["minimal", "trusted", "full-access"]

_STRENGTH: dict[PolicyOutcome, int] = {"deny": 2, "ask": 1, "allow": 0}


class Ruling(Struct, frozen=True):
    """An outcome, and the rule that gave it: people may always ask why."""

    outcome: PolicyOutcome
    rule: str = ""


NO_RULE = Ruling("ask", "no rule matches")


class Policy(Protocol):
    def judge(self, ask: Ask) -> Ruling: ...


class AskAlways:
    """The policy where none is configured: a person decides everything."""

    def judge(self, ask: Ask) -> Ruling:
        return NO_RULE


def strongest(rulings: Iterable[Ruling]) -> Ruling:
    """The ruling that wins; the first of equals, so that the answer is stable."""
    return max(rulings, key=lambda ruling: _STRENGTH[ruling.outcome], default=NO_RULE)
