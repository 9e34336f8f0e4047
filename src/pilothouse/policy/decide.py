"""Decides whether a call may run: `decide` judges every call of every engine before a person is asked.

Deny rules win over ask rules, ask rules over allow rules and the approval mode; without any of them a person is asked.
`deny.py` matches rules that deny or ask, generously; `allow.py` checks commands strictly. `Ruling.rule` gives the reason,
and `Ruling.offers` the rules that would allow the call next time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from pilothouse.core.ask import Ask, RuleOffer
from pilothouse.core.call import Call
from pilothouse.core.policy import Ruling, Site
from pilothouse.core.rules import Rule, matches_glob
from pilothouse.policy.allow import Gap, Walk
from pilothouse.policy.deny import DenyMatcher
from pilothouse.policy.filesystem import BareFilesystem, Filesystem
from pilothouse.policy.offers import name_rule, path_rule
from pilothouse.policy.paths import WorkspacePaths
from pilothouse.policy.script import Parse, no_parser
from pilothouse.policy.tool_class import tool_class

MAX_REASON = 600
MAX_OFFERED = 5
"""Rules that one answer may save. People do not read longer lists."""


NOT_READ = Call("unreadable")
"""The call of an approval whose engine did not say what would run."""


class PolicyEnv(Struct, frozen=True):
    """A parser for commands, and the file system that paths are followed in."""

    parse: Parse = no_parser
    filesystem: Filesystem = BareFilesystem()


def decide(ask: Ask, rules: Sequence[Rule], site: Site, env: PolicyEnv) -> Ruling:
    """Judge an ask by rules and mode. Only approvals are ever allowed without a person."""
    if ask.kind != "approval":
        return Ruling("ask")
    judgement = _Judgement(ask.call or NOT_READ, rules, site, env)
    ruling, gaps = judgement.judge()
    ruling = Ruling(ruling.outcome, _short(ruling.rule))
    if ruling.outcome != "ask":
        return ruling
    wanted = tuple(dict.fromkeys(rule for gap in gaps for rule in gap.rules))
    if not gaps or len(wanted) > MAX_OFFERED or not all(gap.rules for gap in gaps):
        return ruling
    if tool_class(ask.call) == "destructive" or not judgement.would_pass(wanted):
        return ruling
    lines = "\n".join(map(str, wanted))
    return Ruling("ask", ruling.rule, (RuleOffer("session", lines), RuleOffer("always", lines)))


class _Judgement:
    """Judges one call by one set of rules."""

    def __init__(self, call: Call, rules: Sequence[Rule], site: Site, env: PolicyEnv) -> None:
        self._call = call
        self._rules = rules
        self._site = site
        self._places = WorkspacePaths(site.workspace, site.folders, env.filesystem)
        self._allowing = [rule for rule in rules if rule.outcome == "allow"]
        self._script = env.parse(call.command) if self._needs_script() else None
        self._matcher = DenyMatcher(call, self._script, self._places, env.parse)

    def _needs_script(self) -> bool:
        if self._call.kind != "command":
            return False
        return self._site.mode != "full-access" or any(rule.outcome != "allow" for rule in self._rules)

    def judge(self) -> tuple[Ruling, list[Gap]]:
        """Return the ruling, and what is missing where no rule decided."""
        for outcome in ("deny", "ask"):
            for rule in self._rules:
                if rule.outcome == outcome and self._matcher.matches(rule):
                    return Ruling(outcome, f"matches the rule `{rule}`"), []
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
        if call.kind == "notes":
            return Ruling("allow", "changes no files"), []
        if call.kind == "command":
            return self._command(rules)
        if call.kind in ("read", "change"):
            return self._files(rules)
        for rule in rules:
            if _is_named(rule, call):
                return Ruling("allow", f"matches the rule `{rule}`"), []
        return Ruling("ask", f"no rule allows {_what(call)}"), [Gap("", _by_name(call))]

    def _command(self, rules: Sequence[Rule]) -> tuple[Ruling, list[Gap]]:
        for rule in rules:
            if rule.kind == "tool" and _is_named(rule, self._call):
                return Ruling("allow", f"matches the rule `{rule}`"), []
        assert self._script is not None, "parsed in every other mode"
        if self._script.oddities:
            return Ruling("ask", self._script.oddities[0]), []
        walk = Walk(self._places, rules, self._site.mode)
        walk.walk(self._script, self._call.cwd, self._forbidding())
        if walk.gaps:
            return Ruling("ask", walk.gaps[0].why), walk.gaps
        return Ruling("allow", _because(walk.used, "only reads inside the workspace")), []

    def _forbidding(self) -> list[Rule]:
        return [rule for rule in self._rules if rule.outcome != "allow" and rule.kind in ("path", "read")]

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
            return self._passes_over(real) if call.deep else None
        shown = places.shown(real)
        if not inside:
            return Gap(f"changes a file outside the workspace: {real}", path_rule("path", real))
        if places.is_protected(real):
            return Gap(f"edits a file that other tools execute: {shown}", path_rule("path", shown))
        if self._site.mode == "trusted":
            return None
        if rule := next((rule for rule in rules if rule.kind == "tool" and _is_named(rule, call)), None):
            used[rule] = None
            return None
        return Gap(f"changes a file: {shown}", path_rule("path", shown))

    def _passes_over(self, folder: str) -> Gap | None:
        for rule in self._forbidding():
            if self._places.forbids_below(rule, folder):
                return Gap(f"may read files that a rule is about: `{rule}`")
        return None


def _is_named(rule: Rule, call: Call) -> bool:
    """Tell whether an allow rule names the call. Strict: case matters, and a domain does not cover its subdomains."""
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
    """Match a host: `*.example.org` covers every name below it, not `example.org` itself."""
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
    """Shorten a reason. The ask shows the whole call beside it."""
    return why if len(why) <= MAX_REASON else why[: MAX_REASON - 1] + "…"


def _because(used: Mapping[Rule, Any], otherwise: str) -> str:
    return f"matches the rule `{next(iter(used))}`" if used else otherwise
