"""The policy's values and ports: rules, modes, rulings, tool classes. The package `policy` implements them.

A rule is one short line that allows, denies or asks about tool calls:

    allow command git status          deny path ~/.ssh/**          allow domain docs.python.org
    deny glob npm publish*            ask tool deploy              allow mcp github search_*
    allow read /usr/include/**        allow skill pdf

A line is `OUTCOME KIND WHAT`, and printing a rule gives the line that it was read from. docs/rules.md
describes what a rule covers. Deny and ask rules are matched generously, allow rules strictly.
"""

from __future__ import annotations

import difflib
import re
import shlex
import unicodedata
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Literal, Protocol, get_args

from msgspec import Struct

from pilothouse.core.ask import Ask, RuleOffer
from pilothouse.core.call import Call
from pilothouse.core.errors import ConfigError
from pilothouse.core.ids import RuleId, SessionId
from pilothouse.core.isolation import Isolation

PolicyOutcome = Literal["allow", "deny", "ask"]
RuleKind = Literal["tool", "command", "glob", "path", "read", "domain", "mcp", "skill"]

OUTCOMES: tuple[PolicyOutcome, ...] = get_args(PolicyOutcome)
KINDS: tuple[RuleKind, ...] = get_args(RuleKind)
MAX_CHARS = 500

_PLAIN_WORD = re.compile(r"[A-Za-z0-9_@%+=:,./~^!*?\[\]{}\-]+")
_DOMAIN = re.compile(r"(\*\.)?[a-z0-9]([a-z0-9\-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9\-]*[a-z0-9])?)*")


class RuleRow(Struct, frozen=True):
    """A saved rule. Without a session it is permanent; without a workspace it applies everywhere.

    `mark` identifies the folder: an allow rule does not apply to a folder that replaced it."""

    id: RuleId
    workspace: str
    mark: str
    rule: str
    by: str
    created_at: float
    session_id: SessionId | None = None


class Rules(Protocol):
    def add(self, row: RuleRow) -> bool:
        """Save a rule; return False if the same rule exists for the same folder and session."""
        ...

    def remove(self, id: RuleId) -> RuleRow | None:
        """Remove a rule and return it."""
        ...

    def of(self, workspace: str, session_id: SessionId | None = None) -> list[RuleRow]:
        """Return the rules of a workspace and a session, and those that apply everywhere; oldest first."""
        ...

    def list(self) -> list[RuleRow]:
        """Return every rule, oldest first."""
        ...


class Rule(Struct, frozen=True, cache_hash=True):
    """A rule. `words` are a command's words, or one pattern; for `mcp` a server and optionally a tool."""

    outcome: PolicyOutcome
    kind: RuleKind
    words: tuple[str, ...]

    @property
    def pattern(self) -> str:
        return self.words[0]

    def __str__(self) -> str:
        what = self.pattern if self.kind == "glob" else " ".join(map(_quote, self.words))
        return f"{self.outcome} {self.kind} {what}"


def parse_rule(line: str) -> Rule:
    """Parse a line; raise a `ConfigError` that says what is wrong and how to correct it."""
    if len(line) > MAX_CHARS:
        raise ConfigError(
            f"The rule {line[:40]!r}… is longer than {MAX_CHARS} characters. Write a shorter one."
        )
    if any(unicodedata.category(char) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp") for char in line):
        raise ConfigError(f"The rule {line!r} contains invisible characters. Write it on one plain line.")
    outcome, _, rest = line.strip().partition(" ")
    kind, _, what = rest.strip().partition(" ")
    if outcome not in OUTCOMES:
        raise ConfigError(_wrong(line, f"begins with {outcome!r}", OUTCOMES, outcome))
    if kind not in KINDS:
        raise ConfigError(_wrong(line, f"is about {kind!r}" if kind else "is about nothing", KINDS, kind))
    return _make(line, outcome, kind, what.strip())


def _make(line: str, outcome: PolicyOutcome, kind: RuleKind, what: str) -> Rule:
    if kind == "glob":
        words: tuple[str, ...] = (" ".join(what.split()),)
    else:
        try:
            words = tuple(shlex.split(what))
        except ValueError as error:
            raise ConfigError(f"The rule {line!r} has a quote that is not closed. Close it.") from error
    if not words or not all(words):
        raise ConfigError(f"The rule {line!r} does not say which {kind}. Add it: {outcome} {kind} …")
    most = {"command": len(words), "mcp": 2}.get(kind, 1)
    if len(words) > most:
        raise ConfigError(
            f"The rule {line!r} names too much. A rule about a {kind} has {most} word(s); quote blanks."
        )
    if kind == "domain":
        words = (words[0].lower().rstrip("."),)
        if not _DOMAIN.fullmatch(words[0]):
            raise ConfigError(
                f"The rule {line!r} names no domain. Write one as example.org or *.example.org."
            )
    return Rule(outcome, kind, words)


def _wrong(line: str, what: str, allowed: tuple[str, ...], word: str) -> str:
    near = difflib.get_close_matches(word, allowed, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"The rule {line.strip()!r} {what}; allowed: {', '.join(allowed)}{hint}"


def _quote(word: str) -> str:
    return word if _PLAIN_WORD.fullmatch(word) else shlex.quote(word)


def matches_glob(pattern: str, text: str, *, case: bool = True) -> bool:
    """Match a text: `*` is anything, `?` one character. Takes linear time, however many stars."""
    first, *others = _glob_pieces(pattern, case)
    found = first.match(text)
    if not others:
        return found is not None and found.end() == len(text)
    if found is None:
        return False
    at = found.end()
    for piece in others[:-1]:
        found = piece.search(text, at)
        if found is None:
            return False
        at = found.end()
    last = others[-1]
    start = len(text) - len(pattern.rpartition("*")[2])
    return start >= at and last.fullmatch(text, start) is not None


@lru_cache(maxsize=1024)
def _glob_pieces(pattern: str, case: bool) -> list[re.Pattern[str]]:
    flags = re.DOTALL if case else re.DOTALL | re.IGNORECASE
    texts = ("".join("." if c == "?" else re.escape(c) for c in piece) for piece in pattern.split("*"))
    return [re.compile(text, flags) for text in texts]


@lru_cache(maxsize=1024)
def path_regex(pattern: str) -> re.Pattern[str]:
    """Compile an absolute pattern: `*` and `?` stay within one name, `**` crosses folders, `/**` includes the folder."""
    deep = pattern.endswith("/**")
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", pattern[:-3] if deep else pattern)
    meanings = {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    body = "".join(meanings.get(part, re.escape(part)) for part in parts)
    return re.compile(body + ("(?:/.*)?" if deep else ""), re.DOTALL)


@lru_cache(maxsize=1024)
def literal_prefix(pattern: str) -> str:
    """Return the folder that contains everything that an absolute pattern may match."""
    fixed = re.split(r"[*?]", pattern, maxsplit=1)[0]
    return pattern if fixed == pattern else fixed.rpartition("/")[0] or "/"


ApprovalMode = Literal["minimal", "trusted", "full-access"]
MODES: tuple[ApprovalMode, ...] = ("minimal", "trusted", "full-access")
"""From the narrowest to the widest."""


class Ruling(Struct, frozen=True):
    """An outcome, the rule or reason behind it, and the rules that an answer may save."""

    outcome: PolicyOutcome
    rule: str = ""
    offers: tuple[RuleOffer, ...] = ()


NO_RULE = Ruling("ask", "no rule matches")
MATCHES = "matches the rule "
"""The beginning of the reason of a ruling that a rule made; the rule follows in backticks."""


def denial_text(title: str, why: str) -> str:
    """Return the sentence for people about a call that was denied without asking them."""
    rule = why.removeprefix(MATCHES)
    head = f"Denied: {why}" if rule == why else f"Denied by your rule: {rule.strip('`')}"
    return f"{head} ({title})" if title else head


class Site(Struct, frozen=True):
    """The workspace, session and mode that a call is made in. `folders` count as inside the workspace, too; `trusted`: its git
    repository may run what its settings name; `isolation`: of the process that makes the call, None where that is not known."""

    workspace: str
    session_id: SessionId = SessionId("")
    mode: ApprovalMode = "minimal"
    folders: tuple[str, ...] = ()
    trusted: bool = False
    isolation: Isolation | None = None

    @property
    def held(self) -> bool:
        """True in a jail that shows nothing but the workspace, and reaches nothing but the model and its servers."""
        found = self.isolation
        if found is None or found.kind != "jail" or found.network == "open":
            return False
        return not (found.allow_hosts or found.allow_read or found.allow_write)


class Policy(Protocol):
    async def judge(self, ask: Ask, site: Site) -> Ruling: ...


class AskAlways:
    """Asks a person about everything. The default where no policy is configured."""

    async def judge(self, ask: Ask, site: Site) -> Ruling:
        return NO_RULE


Judge = Callable[[Ask, Sequence[Rule], Site], Ruling]
"""Decides about one call by the rules that hold there. Reads files at most; never raises."""

ToolClass = Literal["ordinary", "destructive", "own"]
"""The class of a call, which decides who may answer an ask: `ordinary` calls are known to stay in the workspace and can be undone, `own` ones name files
of Pilothouse itself, and all others are `destructive`."""

Classify = Callable[[Call | None, str], ToolClass]
"""Takes an ask's call, and its workspace."""


def all_destructive(call: Call | None, workspace: str) -> ToolClass:
    """Classify every call as destructive. The default where no classifier is configured."""
    return "destructive"


def parse_mode(text: str) -> ApprovalMode:
    """Parse a mode; raise `ConfigError` for an unknown one."""
    for mode in MODES:
        if mode == text:
            return mode
    raise ConfigError(f"There is no approval mode {text!r}. There are: {', '.join(MODES)}.")


def narrower(one: ApprovalMode, other: ApprovalMode) -> ApprovalMode:
    return min(one, other, key=MODES.index)
