"""The gate, which judges every call before it runs, and the control protocol with one process. No I/O but the judge's.

Rules: what the policy allows runs, what it denies does not, and everything else becomes a permission request, which is the
ask. A question or a plan is never allowed without a person. The gate remembers nothing. Every request of Claude Code gets
exactly one reply. A hook never gets an error, because that counts as no opinion: a hook or permission request that cannot
be read is denied. An answer to an ask that is not open does nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

from pilothouse.core.ask import Ask, Decision
from pilothouse.core.ids import AskId
from pilothouse.core.policy import NO_RULE, Ruling
from pilothouse.engines.claude.asks import PLAN, QUESTION, PendingAsk, deny
from pilothouse.engines.claude.calls import call_of
from pilothouse.engines.claude.control import (
    CanUseTool,
    ControlCancel,
    ControlRequest,
    ControlResponse,
    HookCallback,
    McpMessage,
    Reply,
    UnknownControlRequest,
    refusal_line,
    reply_line,
    request_line,
)
from pilothouse.engines.claude.wire import Heard

INTERACTIVE = (QUESTION, PLAN, "EnterPlanMode")

NO_CALL = Ruling("deny", "Pilothouse could not read what this call would do.")

When = Callable[[Reply], None]


class Gate:
    """The gate of one session, whose program was started in `cwd`."""

    def __init__(self, judge: Callable[[Ask], Awaitable[Ruling]], cwd: str) -> None:
        self.judge = judge
        self._cwd = cwd
        self.seen: set[str] = set()
        """Ids of the judged calls. A call that ran without being judged is a hole in the gate."""
        self.denials: dict[str, str] = {}
        """Why calls of this turn were denied, by the call's id: only the gate knows it."""

    async def rule_on(self, hook: HookCallback) -> Ruling:
        id = hook.tool_use_id or str(hook.input.get("tool_use_id"))
        self.seen.add(id)
        ruling = await self._judge_call(hook)
        if ruling.outcome == "deny":
            self.denials[id] = ruling.rule
        return ruling

    async def _judge_call(self, hook: HookCallback) -> Ruling:
        tool, given = hook.input.get("tool_name"), hook.input.get("tool_input")
        if not isinstance(tool, str) or not isinstance(given, dict):
            return NO_CALL
        payload = {"tool": tool, "input": given, "cwd": hook.cwd or self._cwd}
        ruling = await self.judge(Ask(AskId(""), "approval", tool, payload, call=call_of(payload)))
        return NO_RULE if tool in INTERACTIVE and ruling.outcome == "allow" else ruling


async def ask_about_every_call(ask: Ask) -> Ruling:
    """Judge for a gate that no session uses yet."""
    return NO_RULE


def hook_reply(ruling: Ruling) -> dict[str, Any]:
    """Return the hook's output. The model is told the rule that decided; to ask needs no reason."""
    output = {"hookEventName": "PreToolUse", "permissionDecision": ruling.outcome}
    if ruling.outcome != "ask":
        output["permissionDecisionReason"] = ruling.rule
    return {"hookSpecificOutput": output}


class Dialogue:
    """`take` gets every decoded line, and returns the lines to write."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self.hooks = 0
        self._numbers = count(1)
        self._awaited: dict[str, When] = {}
        self._asks: dict[AskId, PendingAsk] = {}

    @property
    def asking(self) -> bool:
        return bool(self._asks)

    async def take(self, heard: Heard) -> list[bytes]:
        match heard:
            case ControlRequest(request_id=id, request=HookCallback() as hook):
                self.hooks += 1
                return [reply_line(id, hook_reply(await self.gate.rule_on(hook)))]
            case ControlRequest(request_id=id, request=CanUseTool() as request):
                self._open(PendingAsk(id, request))
            case ControlRequest(request_id=id, request=McpMessage(server_name=name)):
                return [refusal_line(id, f"there is no server {name} here")]
            case UnknownControlRequest(request_id=id, request=request):
                return [_refuse(id, request.subtype)]
            case ControlCancel(request_id=id):
                self._close(id)
            case ControlResponse(response=reply):
                if when := self._awaited.pop(reply.request_id, None):
                    when(reply)
            case _:
                pass
        return []

    def request(self, request: dict[str, Any], when: When | None = None) -> bytes:
        """Return the line of a request to Claude Code; `when` is called with the reply."""
        id = f"pilothouse-{next(self._numbers)}"
        if when is not None:
            self._awaited[id] = when
        return request_line(id, request)

    def answer(self, ask_id: AskId, decision: Decision) -> list[bytes]:
        pending = self._asks.get(ask_id)
        reply = pending.decide(ask_id, decision) if pending else None
        if pending is None or reply is None:
            return []
        self._close(pending.request_id)
        return [reply_line(pending.request_id, reply)]

    def other_asks(self, ask_id: AskId) -> tuple[AskId, ...]:
        """Return the other undecided asks of the same request."""
        pending = self._asks.get(ask_id)
        return tuple(id for id in pending.left if id != ask_id) if pending else ()

    def abandon(self) -> None:
        """Fail all requests that wait for a reply, because the process has ended."""
        awaited = list(self._awaited.values())
        self._awaited.clear()
        for when in awaited:
            when(Reply("error", error="the process has ended"))

    def forget_asks(self) -> None:
        """Close the asks of a turn that is over."""
        self._asks.clear()

    def _open(self, pending: PendingAsk) -> None:
        for ask_id in pending.ids:
            self._asks[ask_id] = pending

    def _close(self, request_id: str) -> None:
        self._asks = {id: one for id, one in self._asks.items() if one.request_id != request_id}


def _refuse(id: str, subtype: str) -> bytes:
    """Refuse a request that cannot be read; if it asks whether a call may run, deny the call."""
    match subtype:
        case HookCallback.__struct_config__.tag:
            return reply_line(id, hook_reply(NO_CALL))
        case CanUseTool.__struct_config__.tag:
            return reply_line(id, deny(NO_CALL.rule))
        case _:
            return refusal_line(id, f"unsupported: {subtype}")
