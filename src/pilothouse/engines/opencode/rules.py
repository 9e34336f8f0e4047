"""The permissions of a session in OpenCode's words: everything asks. Pure.

The rules of a session come after those of its agent, and the last one that fits counts. A sub-agent's session inherits
only what is denied, so a sub-agent whose own rules let a call pass is denied itself. So is a tool that neither OpenCode
nor an MCP server brings: plugins' tools run without an ask. In full access both are left.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from pilothouse.engines.opencode.calls import PERMISSIONS, TASK, UNASKED
from pilothouse.engines.opencode.launch import SETTLED

Rule = dict[str, str]

_FREE = frozenset({*SETTLED, *UNASKED})


def session_rules(tools: Any, agents: Any, *, free: bool) -> list[Rule]:
    """`tools` and `agents` are what the server answered about them."""
    asked = [_rule("*", "*", "ask"), *(_rule(name, "*", action) for name, action in SETTLED.items())]
    if free:
        return asked
    foreign = [name for name in _texts(tools) if name not in PERMISSIONS and name not in UNASKED]
    leaking = [name for name, rules in _agents(agents) if not asks_always(rules)]
    return [
        *asked,
        *(_rule(name, "*", "deny") for name in foreign),
        *(_rule(TASK, name, "deny") for name in leaking),
    ]


def asks_always(rules: Sequence[Rule]) -> bool:
    """Tell whether no call passes without an ask by these rules."""
    return all(
        _is_covered(rule.get("permission", ""), rules[at + 1 :])
        for at, rule in enumerate(rules)
        if rule.get("action") == "allow" and rule.get("permission") not in _FREE
    )


def missing_rules(known: Any, wanted: Sequence[Rule]) -> list[Rule]:
    """Return the rules to add to a session that has `known` ones; empty if it ends with them."""
    rules = known if isinstance(known, list) else []
    return [] if rules[-len(wanted) :] == list(wanted) else list(wanted)


def _is_covered(permission: str, later: Iterable[Rule]) -> bool:
    names = ("*", permission)
    return any(
        rule.get("action") != "allow" and rule.get("pattern") == "*" and rule.get("permission") in names
        for rule in later
    )


def _agents(told: Any) -> list[tuple[str, list[Rule]]]:
    found = [one for one in told if isinstance(one, dict)] if isinstance(told, list) else []
    return [
        (str(one.get("name")), [rule for rule in one.get("permission") or () if isinstance(rule, dict)])
        for one in found
        if one.get("mode") != "primary"
    ]


def _texts(told: Any) -> Collection[str]:
    return [one for one in told if isinstance(one, str)] if isinstance(told, list) else []


def _rule(permission: str, pattern: str, action: str) -> Rule:
    return {"permission": permission, "pattern": pattern, "action": action}
