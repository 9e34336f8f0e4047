"""Decides whether a call may run: `decide` judges every call of every engine before a person is asked.

Deny rules win over ask rules, ask rules over allow rules and the approval mode; without any of them a person is asked.
`deny.py` matches rules that deny or ask, generously; `allow.py` checks commands strictly. `Ruling.rule` gives the reason,
and `Ruling.offers` the rules that would allow the call next time.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from pilothouse.core.ask import Ask, RuleOffer
from pilothouse.core.call import ASKED_TOOLS, OWN_SERVER, Call
from pilothouse.core.policy import Rule, RuleKind, Ruling, Site, ToolClass, matches_glob
from pilothouse.core.text import first_line
from pilothouse.policy.allow import Gap, Walk, name_rule, path_rule
from pilothouse.policy.deny import DenyMatcher
from pilothouse.policy.paths import Filesystem, GitProblem, WorkspacePaths
from pilothouse.policy.shell import parse_shell

MAX_REASON = 600  # the ask shows the whole call beside it
MAX_OFFERED = 5
"""Rules that one answer may save. People do not read longer lists."""
_RUNS = re.compile(r"run|exec|eval|shell|bash|command|script|terminal|code|sql|query", re.IGNORECASE)
"""Names of tools, and of their inputs, that may run anything. No rule by name is offered for them."""

NOT_READ = Call("unreadable")
"""The call of an approval whose engine did not say what would run."""


class PolicyEnv(Struct, frozen=True):
    """`own` are Pilothouse's files and folders: a call that names one is asked about in every mode.
    `git_problem` tells what could make git run a program in a folder that is not trusted."""

    filesystem: Filesystem = Filesystem()
    own: tuple[str, ...] = ()
    git_problem: GitProblem = None


def decide(ask: Ask, rules: Sequence[Rule], site: Site, env: PolicyEnv) -> Ruling:
    """Judge an ask by rules and mode. Only approvals are ever allowed without a person."""
    if ask.kind != "approval":
        return Ruling("ask")
    judgement = _Judgement(ask.call or NOT_READ, rules, site, env)
    ruling, gaps = judgement.judge()
    ruling = Ruling(ruling.outcome, first_line(ruling.rule, MAX_REASON))
    if ruling.outcome != "ask":
        return ruling
    wanted = tuple(dict.fromkeys(rule for gap in gaps for rule in gap.rules))
    fits = gaps and len(wanted) <= MAX_OFFERED and all(gap.rules for gap in gaps)
    if not fits or not judgement.would_pass(wanted):
        return ruling
    lines = "\n".join(map(str, wanted))
    return Ruling("ask", ruling.rule, (RuleOffer("session", lines), RuleOffer("always", lines)))


def tool_class(call: Call | None, workspace: str, env: PolicyEnv) -> ToolClass:
    """Classify a call: `ordinary` is what is known to stay in the workspace and can be undone.

    That is what the mode `trusted` allows without a rule. A call that names Pilothouse's own files needs an owner."""
    if call is None:
        return "ordinary"  # a question, or a plan: nothing runs
    judgement = _Judgement(call, (), Site(workspace or call.cwd, mode="trusted"), env)
    if judgement.named_own():
        return "own"
    return "ordinary" if judgement.judge()[0].outcome == "allow" else "destructive"


class _Judgement:
    """Judges one call by one set of rules."""

    def __init__(self, call: Call, rules: Sequence[Rule], site: Site, env: PolicyEnv) -> None:
        self._call = call
        self._rules = rules
        self._site = site
        git_problem = None if site.trusted else env.git_problem
        self._places = WorkspacePaths(site.workspace, site.folders, env.filesystem, git_problem)
        self._allowing = [rule for rule in rules if rule.outcome == "allow"]
        self._own = [self._places.resolve("/", folder) or folder for folder in env.own]
        self._script = parse_shell(call.command) if call.kind == "command" else None
        self._matcher = DenyMatcher(call, self._script, self._places)

    def named_own(self) -> str:
        """Return a file of Pilothouse itself that the call names. A workspace among those files is none of them."""
        return self._matcher.named_below(self._own) if self._own else ""

    def judge(self) -> tuple[Ruling, list[Gap]]:
        """Return the ruling, and what is missing where no rule decided."""
        for outcome in ("deny", "ask"):
            for rule in self._rules:
                if rule.outcome == outcome and self._matcher.matches(rule):
                    return Ruling(outcome, f"matches the rule `{rule}`"), []
        if own := self.named_own():
            return Ruling("ask", f"names, or may name, a file of Pilothouse itself: {own}"), []
        for rule in self._rules:
            if rule.outcome != "allow" and (why := self._matcher.doubt(rule)):
                return Ruling("ask", f"{why}, so this rule might apply: `{rule}`"), []
        if self._call.kind == "unreadable":
            return Ruling("ask", "the input of this call cannot be read"), []
        if self._site.mode == "full-access":
            return Ruling("allow", "full access"), []
        return self._allowed(self._allowing)

    def would_pass(self, more: Sequence[Rule]) -> bool:
        return self._allowed([*self._allowing, *more])[0].outcome == "allow"

    def _allowed(self, rules: Sequence[Rule]) -> tuple[Ruling, list[Gap]]:
        call = self._call
        if call.kind == "notes" or (call.server == OWN_SERVER and call.server_tool not in ASKED_TOOLS):
            return Ruling("allow", "changes no files"), []
        if call.kind == "command":
            return self._command(rules)
        if call.kind in ("read", "change"):
            return self._files(rules)
        for rule in rules:
            if _is_named(rule, call):
                return Ruling("allow", f"matches the rule `{rule}`"), []
        kind, *names = _names(call)
        offered = () if _may_run_anything(call) else name_rule(kind, *names)
        return Ruling("ask", f"not on your allow list: the {kind} {' '.join(names)}"), [Gap("", offered)]

    def _command(self, rules: Sequence[Rule]) -> tuple[Ruling, list[Gap]]:
        for rule in rules:
            if rule.kind == "tool" and _is_named(rule, self._call):
                return Ruling("allow", f"matches the rule `{rule}`"), []
        assert self._script is not None, "a command"
        if self._script.oddities:
            return Ruling("ask", self._script.oddities[0]), []
        walk = Walk(self._places, rules, self._site.mode, self._forbidding())
        # where a rule forbids commands, or files that a jail may show beside the workspace, any unknown program may be meant
        forbidding = [rule for rule in self._rules if rule.outcome != "allow"]
        forbids = any(
            rule.kind in ("command", "glob") or self._places.leaves_home(rule) for rule in forbidding
        )
        walk.held = self._site.held and self._site.mode == "trusted" and not forbids
        walk.walk(self._script, self._call.cwd)
        if walk.gaps:
            return Ruling("ask", walk.gaps[0].why), walk.gaps
        return Ruling("allow", _because(walk.used, walk.why)), []

    def _forbidding(self) -> list[Rule]:
        own = [Rule("ask", "path", (folder,)) for folder in self._own]
        return own + [
            rule for rule in self._rules if rule.outcome != "allow" and rule.kind in ("path", "read")
        ]

    def _files(self, rules: Sequence[Rule]) -> tuple[Ruling, list[Gap]]:
        call, places = self._call, self._places
        here = places.resolve("/", call.cwd) if call.cwd.startswith("/") else None
        used: dict[Rule, None] = {}
        gaps: list[Gap] = []
        for path in call.paths:
            real = None if here is None else places.resolve(here, path)
            gap = Gap(f"cannot resolve the path {path}") if real is None else self._file(real, rules, used)
            gaps += [gap] if gap else []
        if gaps:
            return Ruling("ask", gaps[0].why), gaps
        deed = "reads" if call.kind == "read" else "changes files"
        return Ruling("allow", _because(used, f"{deed} inside the workspace")), []

    def _file(self, real: str, rules: Sequence[Rule], used: dict[Rule, None]) -> Gap | None:
        """Return what is missing to allow one file."""
        call, places = self._call, self._places
        kinds = ("path", "read") if call.kind == "read" else ("path",)
        inside = places.is_inside(real)
        by_path = [rule for rule in rules if rule.kind in kinds]
        if rule := places.allowed_by(by_path, real, deep=call.deep):
            used[rule] = None
            return None
        if call.kind == "read":
            if not inside:
                return Gap(f"reads outside the workspace: {real}", path_rule("read", real, deep=call.deep))
            below = places.rule_below(self._forbidding(), real) if call.deep else None
            return Gap(f"may read files that this rule is about: `{below}`") if below else None
        shown = places.shown(real)
        if places.is_protected(real):
            return Gap(f"edits a file that other tools execute: {shown}")
        if not inside:
            return Gap(f"changes a file outside the workspace: {real}", path_rule("path", real))
        if self._site.mode == "trusted":
            return None
        if rule := next((rule for rule in rules if rule.kind == "tool" and _is_named(rule, call)), None):
            used[rule] = None
            return None
        return Gap(f"changes a file: {shown}", path_rule("path", shown))


def _is_named(rule: Rule, call: Call) -> bool:
    """Tell whether an allow rule names the call. Strict: case matters, and a domain does not cover its subdomains."""
    if rule.kind == "tool":
        return matches_glob(rule.pattern, call.tool)
    kind, *names = _names(call)
    # `*.example.org` is every name below `example.org`
    return rule.kind == kind and all(map(matches_glob, (*rule.words, "*"), names))


def _may_run_anything(call: Call) -> bool:
    """Tell whether a tool may run what its input says."""
    named = (call.server_tool or call.tool, *call.input)
    return call.kind in ("mcp", "tool") and any(map(_RUNS.search, named))


def _names(call: Call) -> tuple[RuleKind, *tuple[str, ...]]:
    """Return the kind of rule that names a call, and the names in it."""
    if call.kind == "mcp":
        return "mcp", call.server, call.server_tool
    if call.kind == "skill":
        return "skill", call.skill
    return ("domain", call.host) if call.kind == "web" else ("tool", call.tool)


def _because(used: Mapping[Rule, Any], otherwise: str) -> str:
    return f"matches the rule `{next(iter(used))}`" if used else otherwise
