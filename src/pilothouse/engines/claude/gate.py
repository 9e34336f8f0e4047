"""The gate: every call, before it runs, against the house's policy.

Rules: what the policy allows runs, what it denies does not, and all else becomes a permission request, which is the
ask; a question or a plan is never allowed without a person; whatever cannot be understood is denied. The gate remembers
nothing: what people chose to keep is the house's to know.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from pilothouse.core.ask import Ask
from pilothouse.core.ids import AskId
from pilothouse.core.policy import NO_RULE, Ruling
from pilothouse.engines.claude.asks import PLAN, QUESTION
from pilothouse.engines.claude.control import HookCallback

INTERACTIVE = (QUESTION, PLAN, "EnterPlanMode")

NO_CALL = Ruling("deny", "Pilothouse could not read what this call would do.")


class Gate:
    """One session's. `cwd` is where the program was started."""

    def __init__(self, judge: Callable[[Ask], Awaitable[Ruling]], cwd: str) -> None:
        self.judge = judge
        self._cwd = cwd
        self.seen: set[str] = set()
        """Calls that came by. One that ran without is a hole in the gate."""

    async def pass_by(self, hook: HookCallback) -> Ruling:
        tool, given = hook.input.get("tool_name"), hook.input.get("tool_input")
        self.seen.add(hook.tool_use_id or str(hook.input.get("tool_use_id")))
        if not isinstance(tool, str) or not isinstance(given, dict):
            return NO_CALL
        payload = {"tool": tool, "input": given, "cwd": hook.cwd or self._cwd}
        ruling = await self.judge(Ask(AskId(""), "approval", tool, payload))
        return NO_RULE if tool in INTERACTIVE and ruling.outcome == "allow" else ruling


async def let_nothing_pass(ask: Ask) -> Ruling:
    """The judge of a gate that nobody has taken charge of yet."""
    return NO_RULE


def hook_reply(ruling: Ruling) -> dict[str, Any]:
    """The rule that decided is told to the model; to ask needs no reason, for a person reads the call itself."""
    output = {"hookEventName": "PreToolUse", "permissionDecision": ruling.outcome}
    if ruling.outcome != "ask":
        output["permissionDecisionReason"] = ruling.rule
    return {"hookSpecificOutput": output}
