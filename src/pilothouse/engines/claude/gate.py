"""The gate: every call, before it runs, against the house's policy. Pure over a judge and a look at links.

Rules: what the policy allows runs, what it denies does not, and all else becomes a permission request, which is the
ask; a question or a plan always goes to a person; what a person allowed for the session is allowed again; whatever
cannot be understood is denied.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from pilothouse.core.ask import Ask, hash_payload
from pilothouse.core.ids import AskId
from pilothouse.core.policy import NO_RULE, Ruling
from pilothouse.engines.claude.asks import PLAN, QUESTION
from pilothouse.engines.claude.control import HookCallback

INTERACTIVE = (QUESTION, PLAN, "EnterPlanMode")
_PATHS = ("file_path", "notebook_path", "path")
_FILES: Mapping[str, str] = {"Write": "file_path", "Edit": "file_path", "NotebookEdit": "notebook_path"}
MAX_REMEMBERED = 500

NO_CALL = Ruling("deny", "Pilothouse could not read what this call would do.")
REMEMBERED = Ruling("allow", "allowed for this session")


class Gate:
    """One session's. `resolve` follows links: what lies inside the workspace by name may lie outside in truth."""

    def __init__(self, judge: Callable[[Ask], Ruling], cwd: str, resolve: Callable[[str, str], str]) -> None:
        self.judge = judge
        self._cwd = cwd
        self._resolve = resolve
        self._remembered: dict[str, None] = {}
        self.seen: set[str] = set()
        """Calls that came by. One that ran without is a hole in the gate."""

    def pass_by(self, hook: HookCallback) -> Ruling:
        tool, given = hook.input.get("tool_name"), hook.input.get("tool_input")
        self.seen.add(hook.tool_use_id or str(hook.input.get("tool_use_id")))
        if not isinstance(tool, str) or not isinstance(given, dict):
            return NO_CALL
        if tool in INTERACTIVE:
            return NO_RULE
        if what_is_meant(tool, given) in self._remembered:
            return REMEMBERED
        here = hook.input.get("cwd")
        return self.judge(self._ask(tool, given, here if isinstance(here, str) else self._cwd))

    def remember(self, tool: str, given: Mapping[str, Any]) -> None:
        if len(self._remembered) >= MAX_REMEMBERED:
            self._remembered.pop(next(iter(self._remembered)))
        self._remembered[what_is_meant(tool, given)] = None

    def _ask(self, tool: str, given: Mapping[str, Any], here: str) -> Ask:
        """A relative path begins where the CLI is now; inside is what lies in the folder that it was started in."""
        found = {key: self._resolve(here, path) for key in _PATHS if isinstance(path := given.get(key), str)}
        payload = {"tool": tool, "input": {**given, **found}, "cwd": self._resolve(self._cwd, "")}
        return Ask(AskId(""), "approval", tool, payload)


def hook_reply(ruling: Ruling) -> dict[str, Any]:
    """The rule that decided is told to the model; to ask needs no reason, for a person reads the call itself."""
    output = {"hookEventName": "PreToolUse", "permissionDecision": ruling.outcome}
    if ruling.outcome != "ask":
        output["permissionDecisionReason"] = ruling.rule
    return {"hookSpecificOutput": output}


def what_is_meant(tool: str, given: Mapping[str, Any]) -> str:
    """What an allow for the session covers: this very command, this file, this site; else this very call."""
    if tool == "Bash" and isinstance(command := given.get("command"), str):
        return f"Bash {command}"
    if tool in _FILES and isinstance(path := given.get(_FILES[tool]), str):
        return f"change {path}"
    if tool == "WebFetch" and isinstance(url := given.get("url"), str):
        return f"WebFetch {urlsplit(url).hostname}"
    return f"{tool} {hash_payload(dict(given))}"
