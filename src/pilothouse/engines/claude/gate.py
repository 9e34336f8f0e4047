"""The gate: every call, before it runs, against the house's policy.

Rules: what the policy allows runs, what it denies does not, and all else becomes a permission request, which is the
ask; a question or a plan is never allowed without a person; whatever cannot be understood is denied. The gate remembers
nothing: what people chose to keep is the house's to know.

The control protocol with one process: what must be answered, and what we wait for. No I/O but the judge's.

Rules: every request of the CLI gets exactly one reply, also one of a kind that we do not know; a hook never gets an
error, for that counts as no opinion: one of a shape that we do not know is a "no", and so is a permission request; an
answer to an ask that is not open does nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

from pilothouse.core.ask import Ask, Decision
from pilothouse.core.ids import AskId
from pilothouse.core.policy import NO_RULE, Ruling
from pilothouse.engines.claude.asks import PLAN, QUESTION, PendingAsk, deny
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


class Dialogue:
    """`take` is fed every decoded line, and gives the lines to write."""

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
                return [reply_line(id, hook_reply(await self.gate.pass_by(hook)))]
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
        """A request of ours; `when` hears the reply."""
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

    def beside(self, ask_id: AskId) -> tuple[AskId, ...]:
        """What else the same request asks, and nobody has decided."""
        pending = self._asks.get(ask_id)
        return tuple(id for id in pending.left if id != ask_id) if pending else ()

    def abandon(self) -> None:
        """The process is gone: nobody will answer."""
        awaited = list(self._awaited.values())
        self._awaited.clear()
        for when in awaited:
            when(Reply("error", error="the process is gone"))

    def forget_asks(self) -> None:
        """The turn is over, and with it what it asked."""
        self._asks.clear()

    def _open(self, pending: PendingAsk) -> None:
        for ask_id in pending.ids:
            self._asks[ask_id] = pending

    def _close(self, request_id: str) -> None:
        self._asks = {id: one for id, one in self._asks.items() if one.request_id != request_id}


def _refuse(id: str, subtype: str) -> bytes:
    """What the CLI asks before a call runs is denied where we cannot read it."""
    match subtype:
        case HookCallback.__struct_config__.tag:
            return reply_line(id, hook_reply(NO_CALL))
        case CanUseTool.__struct_config__.tag:
            return reply_line(id, deny(NO_CALL.rule))
        case _:
            return refusal_line(id, f"unsupported: {subtype}")
