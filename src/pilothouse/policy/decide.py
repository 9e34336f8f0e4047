"""The decision: one pure function judges every call, of whichever engine, before a person is bothered.

A rule that denies beats one that asks, that one beats one that allows, and no rule at all means ask; the mode allows
like a rule does. To forbid, a rule is read generously: it looks through wrappers, nested commands and links. To allow,
strictly: every part must be known. `Ruling.rule` says why, and `offers` which rule would spare the next question.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from pilothouse.core.ask import Ask, RuleOffer
from pilothouse.core.call import Call, read_call
from pilothouse.core.policy import Ruling, Site
from pilothouse.core.rules import Rule, matches_glob
from pilothouse.policy.allow import Gap, Walk
from pilothouse.policy.deny import DenyMatcher
from pilothouse.policy.filesystem import BareFilesystem, Filesystem
from pilothouse.policy.offers import name_rule, path_rule
from pilothouse.policy.paths import Places
from pilothouse.policy.script import Parse, no_parser
from pilothouse.policy.tool_class import tool_class

MAX_REASON = 600
MAX_OFFERED = 5
"""Rules that one answer may save; more than that nobody reads."""


class PolicyEnv(Struct, frozen=True):
    """A parser for commands, and the file system that paths are followed in."""

    parse: Parse = no_parser
    filesystem: Filesystem = BareFilesystem()


def decide(ask: Ask, rules: Sequence[Rule], site: Site, env: PolicyEnv) -> Ruling:
    """What rules and mode say about an ask. Only an approval is ever allowed without a person."""
    if ask.kind != "approval":
        return Ruling("ask")
    judging = _Judging(read_call(ask.payload), rules, site, env)
    ruling, gaps = judging.judge()
    ruling = Ruling(ruling.outcome, _short(ruling.rule))
    if ruling.outcome != "ask":
        return ruling
    wanted = tuple(dict.fromkeys(rule for gap in gaps for rule in gap.rules))
    if not gaps or len(wanted) > MAX_OFFERED or not all(gap.rules for gap in gaps):
        return ruling
    if tool_class(ask.payload) == "destructive" or not judging.would_pass(wanted):
        return ruling
    lines = "\n".join(map(str, wanted))
    return Ruling("ask", ruling.rule, (RuleOffer("session", lines), RuleOffer("always", lines)))


class _Judging:
    """One call, against one set of rules."""

    def __init__(self, call: Call, rules: Sequence[Rule], site: Site, env: PolicyEnv) -> None:
        self._call = call
        self._rules = rules
        self._site = site
        self._places = Places(site.workspace, site.folders, env.filesystem)
        self._allowing = [rule for rule in rules if rule.outcome == "allow"]
        self._script = env.parse(call.command) if self._needs_script() else None
        self._matcher = DenyMatcher(call, self._script, self._places, env.parse)

    def _needs_script(self) -> bool:
        if self._call.kind != "command":
            return False
        return self._site.mode != "full-access" or any(rule.outcome != "allow" for rule in self._rules)

    def judge(self) -> tuple[Ruling, list[Gap]]:
        """The ruling; for an ask that no rule wants, also what is missing."""
        for outcome in ("deny", "ask"):
            for rule in self._rules:
                if rule.outcome == outcome and self._matcher.matches(rule):
                    return Ruling(outcome, f"the rule says so: {rule}"), []
        for rule in self._rules:
            if rule.outcome != "allow" and (why := self._matcher.doubt(rule)):
                return Ruling("ask", f"{why}, so this rule might apply: `{rule}`"), []
        if self._call.kind == "unreadable":
            return Ruling("ask", "what it would do cannot be read"), []
        if self._site.mode == "full-access":
            return Ruling("allow", "full access"), []
        return self._allowed(self._allowing)

    def would_pass(self, more: Sequence[Rule]) -> bool:
        return self._allowed([*self._allowing, *more])[0].outcome == "allow"

    def _allowed(self, rules: Sequence[Rule]) -> tuple[Ruling, list[Gap]]:
        call = self._call
        if call.kind == "notes":
            return Ruling("allow", "it touches nothing"), []
        if call.kind == "command":
            return self._command(rules)
        if call.kind in ("read", "change"):
            return self._files(rules)
        for rule in rules:
            if _is_named(rule, call):
                return Ruling("allow", f"the rule says so: {rule}"), []
        return Ruling("ask", f"no rule allows {_what(call)}"), [Gap("", _by_name(call))]

    def _command(self, rules: Sequence[Rule]) -> tuple[Ruling, list[Gap]]:
        for rule in rules:
            if rule.kind == "tool" and _is_named(rule, self._call):
                return Ruling("allow", f"the rule says so: {rule}"), []
        assert self._script is not None, "only full access does without"
        if self._script.oddities:
            return Ruling("ask", self._script.oddities[0]), []
        walk = Walk(self._places, rules, self._site.mode)
        walk.walk(self._script, self._call.cwd, self._forbidding())
        if walk.gaps:
            return Ruling("ask", walk.gaps[0].why), walk.gaps
        return Ruling("allow", _because(walk.used, "it only reads inside the workspace")), []

    def _forbidding(self) -> list[Rule]:
        return [rule for rule in self._rules if rule.outcome != "allow" and rule.kind in ("path", "read")]

    def _files(self, rules: Sequence[Rule]) -> tuple[Ruling, list[Gap]]:
        call, places = self._call, self._places
        here = places.resolve("/", call.cwd) if call.cwd.startswith("/") else None
        used: dict[Rule, None] = {}
        gaps: list[Gap] = []
        for path in call.paths:
            real = None if here is None else places.resolve(here, path)
            gap = Gap(f"where {path} leads cannot be told") if real is None else self._file(real, rules, used)
            gaps += [gap] if gap else []
        if gaps:
            return Ruling("ask", gaps[0].why), gaps
        deed = "reads" if call.kind == "read" else "works"
        return Ruling("allow", _because(used, f"it {deed} inside the workspace")), []

    def _file(self, real: str, rules: Sequence[Rule], used: dict[Rule, None]) -> Gap | None:
        """What is missing for one file."""
        call, places = self._call, self._places
        kinds = ("path", "read") if call.kind == "read" else ("path",)
        inside = places.is_inside(real)
        by_path = [rule for rule in rules if rule.kind in kinds]
        if rule := places.allowed_by(by_path, real, deep=call.deep):
            used[rule] = None
            return None
        if call.kind == "read":
            if not inside:
                return Gap(f"it reads outside the workspace: {real}", path_rule("read", real, deep=call.deep))
            return self._passes_over(real) if call.deep else None
        shown = places.shown(real)
        if not inside:
            return Gap(f"it changes a file outside the workspace: {real}", path_rule("path", real))
        if places.is_protected(real):
            return Gap(f"it changes a file that others obey: {shown}", path_rule("path", shown))
        if self._site.mode == "trusted":
            return None
        if rule := next((rule for rule in rules if rule.kind == "tool" and _is_named(rule, call)), None):
            used[rule] = None
            return None
        return Gap(f"it changes a file: {shown}", name_rule("tool", call.tool))

    def _passes_over(self, folder: str) -> Gap | None:
        for rule in self._forbidding():
            if self._places.forbids_below(rule, folder):
                return Gap(f"what it reads may be covered by the rule: {rule}")
        return None


def _is_named(rule: Rule, call: Call) -> bool:
    """Strictly: for what a rule allows by name."""
    match rule.kind:
        case "tool":
            return matches_glob(rule.pattern, call.tool)
        case "domain":
            return call.kind == "web" and is_domain(rule.pattern, call.host)
        case "mcp":
            tool = rule.words[1] if len(rule.words) > 1 else "*"
            server = call.kind == "mcp" and matches_glob(rule.pattern, call.server)
            return bool(server) and matches_glob(tool, call.server_tool)
        case "skill":
            return call.kind == "skill" and matches_glob(rule.pattern, call.skill)
        case _:
            return False


def is_domain(pattern: str, host: str) -> bool:
    """`*.example.org` is every name below it, and not itself."""
    return host.endswith(pattern[1:]) if pattern.startswith("*.") else host == pattern


def _by_name(call: Call) -> tuple[Rule, ...]:
    match call.kind:
        case "web":
            return name_rule("domain", call.host)
        case "mcp":
            return name_rule("mcp", call.server, call.server_tool)
        case "skill":
            return name_rule("skill", call.skill)
        case _:
            return name_rule("tool", call.tool)


def _what(call: Call) -> str:
    match call.kind:
        case "web":
            return f"{call.host}"
        case "mcp":
            return f"{call.server_tool} of {call.server}"
        case "skill":
            return f"the skill {call.skill}"
        case _:
            return f"the tool {call.tool}"


def _short(why: str) -> str:
    """What a person can read at a glance; what was asked stands beside it, whole."""
    return why if len(why) <= MAX_REASON else why[: MAX_REASON - 1] + "…"


def _because(used: Mapping[Rule, Any], otherwise: str) -> str:
    return f"the rule says so: {next(iter(used))}" if used else otherwise
