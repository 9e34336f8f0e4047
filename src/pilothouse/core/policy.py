"""What a rule may say about a tool call. A deny wins over an ask, an ask over an allow; no rule means ask."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any, Literal, Protocol

from msgspec import Struct

from pilothouse.core.ask import Ask
from pilothouse.core.tool_class import ToolClass, tool_class

__all__ = [
    "NO_RULE",
    "ApprovalMode",
    "AskAlways",
    "DefaultPolicy",
    "Policy",
    "PolicyOutcome",
    "Ruling",
    "ToolClass",
    "strongest",
    "tool_class",
]

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


READING: Mapping[str, tuple[str, ...]] = {
    "Read": ("file_path",),
    "NotebookRead": ("notebook_path",),
    "LS": ("path",),
    "Glob": ("path", "pattern"),
    "Grep": ("path",),
}
"""Tools that change nothing, and what of their input is a path."""
HARMLESS = frozenset(
    {"TaskCreate", "TaskUpdate", "TaskList", "TaskGet", "TodoRead", "TodoWrite", "ToolSearch"}
)
"""Tools that touch nothing but the engine's own notes."""


class DefaultPolicy:
    """The policy where no rules are configured: reading inside the workspace needs nobody, all else asks.

    An ask's payload has `tool`, `input` and `cwd`; one without them was made for a person, and goes to one. The paths
    are looked at as they are written: whoever hands them in has resolved links where links may lead out.
    """

    def __init__(self, mode: ApprovalMode = "minimal") -> None:
        self._mode: ApprovalMode = mode

    def judge(self, ask: Ask) -> Ruling:
        if ask.kind != "approval":
            return Ruling("ask", "it is a question")
        if self._mode == "full-access":
            return Ruling("allow", "full access")
        tool, given, cwd = (ask.payload.get(key) for key in ("tool", "input", "cwd"))
        if tool in HARMLESS:
            return Ruling("allow", "it touches nothing")
        if tool not in READING or not isinstance(given, dict) or not isinstance(cwd, str):
            return NO_RULE
        named = [given[key] for key in READING[tool] if given.get(key) is not None]
        if all(is_inside(path, cwd) for path in named):
            return Ruling("allow", "it reads inside the workspace")
        return Ruling("ask", "it reads outside the workspace")


def is_inside(path: Any, folder: str) -> bool:
    """Whether a path, or a pattern of paths, can mean only what is in the folder."""
    if not isinstance(path, str) or not folder.startswith("/") or path.startswith("~") or "\0" in path:
        return False
    whole = PurePosixPath(folder, path)
    return ".." not in whole.parts and whole.is_relative_to(folder)


class AskAlways:
    """The policy where none is configured: a person decides everything."""

    def judge(self, ask: Ask) -> Ruling:
        return NO_RULE


def strongest(rulings: Iterable[Ruling]) -> Ruling:
    """The ruling that wins; the first of equals, so that the answer is stable."""
    return max(rulings, key=lambda ruling: _STRENGTH[ruling.outcome], default=NO_RULE)
