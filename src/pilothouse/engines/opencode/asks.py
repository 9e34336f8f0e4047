"""Permissions and questions of OpenCode as asks, and decisions as replies. Pure.

Rules: the payload of an ask is the call's whole input, and holds nothing that is new each time. `always` is never replied:
Pilothouse remembers, and OpenCode would let later calls pass unseen. A question that nobody answers is answered with
nothing: OpenCode would end the turn if it were rejected.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from pilothouse.core.ask import Ask, Decision
from pilothouse.core.call import Call, Change
from pilothouse.core.ids import AskId
from pilothouse.engines.opencode import wire
from pilothouse.engines.opencode.calls import DOOM_LOOP, PERMISSIONS, call_of, rule_name
from pilothouse.engines.opencode.texts import title_of
from pilothouse.engines.opencode.wire_parts import ToolPart
from pilothouse.engines.requests import (
    PendingAsks,
    chosen_words,
    is_no,
    make_approval,
    make_question,
    numbered_id,
    numbered_options,
    option_label,
)

Payload = dict[str, Any]
Request = wire.PermissionAsked | wire.QuestionAsked

REPEATS = "OpenCode made the same call three times in a row. Let it go on?"


class Reply(Struct, frozen=True):
    """A request to the server."""

    path: str
    body: Payload


class Pending(PendingAsks):
    """A permission or questions that wait for a decision. `call_id` is the call that waits for a permission."""

    def __init__(self, request: Request, asks: list[Ask]) -> None:
        super().__init__(asks)
        self.request = request
        self.call_id = call_id(request)

    def decide(self, ask_id: AskId, decision: Decision) -> Reply | None:
        """Return the reply once it is settled; None before, and for an ask that is already decided."""
        decisions = self.settle(ask_id, decision)
        if not decisions:
            return None
        if isinstance(self.request, wire.QuestionAsked):
            return _answer(self.request, decisions)
        allowed = decisions[0].verdict == "allow"
        return allow(self.request) if allowed else refuse(self.request, decisions[0].text)


def call_id(request: Request) -> str:
    tool = request.tool if isinstance(request, wire.PermissionAsked) else None
    return tool.call_id if tool is not None else ""


def allow(request: wire.PermissionAsked) -> Reply:
    return Reply(f"/permission/{request.id}/reply", {"reply": "once"})


def refuse(request: Request, words: str = "") -> Reply:
    """Return the "no"; without words it ends the turn, with words the model reads them and goes on."""
    if isinstance(request, wire.QuestionAsked):
        return Reply(f"/question/{request.id}/reject", {})
    told = {"message": words} if words else {}
    return Reply(f"/permission/{request.id}/reply", {"reply": "reject", **told})


def _answer(request: wire.QuestionAsked, decisions: list[Decision]) -> Reply:
    if any(map(is_no, decisions)):
        said = [decision.text for decision in decisions if decision.text]
        answers = [said] + [[] for _ in request.questions[1:]]
    else:
        pairs = zip(request.questions, decisions, strict=True)
        answers = [chosen_words([one.label for one in question.options], said) for question, said in pairs]
    return Reply(f"/question/{request.id}/reply", {"answers": answers})


def read_request(
    request: Request, calls: Mapping[str, ToolPart], cwd: str, servers: Collection[str] = ()
) -> Pending | None:
    """Read a request, with the calls that run now; None if it has nothing to ask, or its call is not known yet."""
    if isinstance(request, wire.QuestionAsked):
        asks = [_question(numbered_id(AskId(request.id), n), one) for n, one in enumerate(request.questions)]
        return Pending(request, asks) if asks else None
    part = calls.get(call_id(request))
    if part is None and request.tool is not None:
        return None
    return Pending(request, [_approval(request, part, cwd, servers)])


def _approval(
    request: wire.PermissionAsked, part: ToolPart | None, cwd: str, servers: Collection[str]
) -> Ask:
    id, tool = AskId(request.id), part.tool if part is not None else ""
    given = part.state.input if part is not None else {}
    if request.permission == DOOM_LOOP:
        payload: Payload = {"tool": DOOM_LOOP, "input": request.metadata, "cwd": cwd}
        return make_approval(id, REPEATS, payload, call_of(payload))
    if part is None or PERMISSIONS.get(tool, tool) != request.permission:
        asked: Payload = {"patterns": request.patterns, "metadata": request.metadata}
        payload = {"tool": request.permission, "input": {**asked, "tool": tool, "input": given}, "cwd": cwd}
        return make_approval(id, f"permission: {request.permission}", payload, _unread(payload))
    name = rule_name(tool, servers)
    payload = {"tool": name, "input": given, "cwd": cwd}
    title = title_of(tool, given, cwd) if name == tool else f"tool: {name}"
    return make_approval(id, title, payload, _shown(call_of(payload), request.metadata))


def _unread(payload: Payload) -> Call:
    return Call("unreadable", payload["tool"], payload["cwd"])


def _shown(call: Call | None, metadata: Mapping[str, Any]) -> Call | None:
    """Put in the diff that OpenCode made: its editing tool finds the old text also where it is not quite the same."""
    diff = metadata.get("diff")
    if call is None or call.kind != "change" or not isinstance(diff, str) or not diff:
        return call
    path, shown = (call.change.path, call.change.shown) if call.change else (call.paths[0], ())
    return msgspec.structs.replace(call, change=Change(path, diff=diff, shown=shown))


def _question(id: AskId, question: wire.Question) -> Ask:
    payload = msgspec.to_builtins(question)
    labels = [option_label(one.label, one.description) for one in question.options]
    return make_question(id, question.question, payload, numbered_options(labels), many=question.multiple)
