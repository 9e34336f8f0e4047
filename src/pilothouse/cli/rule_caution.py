"""What a new rule lets through that its writer may not have meant, in plain words: nobody learns that from a wide star."""

from __future__ import annotations

from pilothouse.core.rules import Rule

WIDE = {
    "glob": "It lets every command without variables or substitutions run unasked, `rm` and `git push` too.",
    "tool": "It lets every tool run unasked: every command, every change of a file in the workspace, every fetch.",
    "mcp": "It lets every tool of every MCP server run unasked.",
    "skill": "It lets every skill run unasked.",
}
FAR = {
    "path": "It lets files be read and changed unasked far outside the workspace: keys, settings, programs.",
    "read": "It lets files be read unasked far outside the workspace: keys and passwords too.",
}
FAR_FOLDERS = ("/**", "~/**")


def caution(rule: Rule) -> str:
    """Empty if the rule is no wider, and no narrower, than it looks."""
    if rule.kind == "command" and any(mark in word for word in rule.words for mark in "*?"):
        words = " ".join(rule.words)
        return (
            f"It is about these very characters and no pattern, so it fits hardly any command: a rule about "
            f"a command names its words as they are. `{rule.outcome} glob {words}` is a pattern."
        )
    if rule.outcome != "allow":
        return ""
    if not rule.pattern.strip("*? "):
        return WIDE.get(rule.kind, "")
    return FAR.get(rule.kind, "") if rule.pattern in FAR_FOLDERS else ""
