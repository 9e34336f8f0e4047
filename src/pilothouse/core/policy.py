"""The policy's values and ports: modes, rulings, tool classes. The package `policy` implements them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal, Protocol

from msgspec import Struct

from pilothouse.core.ask import Ask, RuleOffer
from pilothouse.core.call import Call
from pilothouse.core.errors import ConfigError
from pilothouse.core.ids import SessionId
from pilothouse.core.rules import PolicyOutcome, Rule

__all__ = [
    "MODES",
    "NO_RULE",
    "ApprovalMode",
    "AskAlways",
    "Classify",
    "Judge",
    "Policy",
    "PolicyOutcome",
    "Ruling",
    "Site",
    "ToolClass",
    "all_destructive",
    "narrower",
    "parse_mode",
    "strongest",
]

ApprovalMode = Literal["minimal", "trusted", "full-access"]
MODES: tuple[ApprovalMode, ...] = ("minimal", "trusted", "full-access")
"""From the narrowest to the widest."""

_STRENGTH: dict[PolicyOutcome, int] = {"deny": 2, "ask": 1, "allow": 0}


class Ruling(Struct, frozen=True):
    """An outcome, the rule or reason behind it, and the rules that an answer may save."""

    outcome: PolicyOutcome
    rule: str = ""
    offers: tuple[RuleOffer, ...] = ()


NO_RULE = Ruling("ask", "no rule matches")


class Site(Struct, frozen=True):
    """The workspace, session and mode that a call is made in. `folders` count as inside the workspace, too."""

    workspace: str
    session_id: SessionId = SessionId("")
    mode: ApprovalMode = "minimal"
    folders: tuple[str, ...] = ()


class Policy(Protocol):
    async def judge(self, ask: Ask, site: Site) -> Ruling: ...


class AskAlways:
    """Asks a person about everything. The default where no policy is configured."""

    async def judge(self, ask: Ask, site: Site) -> Ruling:
        return NO_RULE


Judge = Callable[[Ask, Sequence[Rule], Site], Ruling]
"""Decides about one call by the rules that hold there. Reads files at most; never raises."""

ToolClass = Literal["ordinary", "destructive"]
"""Which people may answer an ask: `destructive` calls cannot be undone, or reach beyond the workspace."""

Classify = Callable[[Call | None], ToolClass]
"""Takes an ask's call."""


def all_destructive(call: Call | None) -> ToolClass:
    """Classify every call as destructive. The default where no classifier is configured."""
    return "destructive"


def strongest(rulings: Iterable[Ruling]) -> Ruling:
    """Return the strongest ruling: deny, then ask, then allow; the first of equals."""
    return max(rulings, key=lambda ruling: _STRENGTH[ruling.outcome], default=NO_RULE)


def parse_mode(text: str) -> ApprovalMode:
    """Parse a mode; raise `ConfigError` for an unknown one."""
    for mode in MODES:
        if mode == text:
            return mode
    raise ConfigError(f"There is no approval mode {text!r}. There are: {', '.join(MODES)}.")


def narrower(one: ApprovalMode, other: ApprovalMode) -> ApprovalMode:
    return min(one, other, key=MODES.index)
