"""Requests of an agent as asks, and decisions as replies. Pure.

Two kinds need a person: permission for a call, and a form or page to visit (elicitation). Options are chosen by their kind,
never by their name or order. "Always" is never chosen where calls are judged: later calls would pass unseen, and Pilothouse
remembers by itself. Where a list has no option to reject once, the request is answered as cancelled, which agents take for a no.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pilothouse.core.ask import Ask, Decision, hash_payload
from pilothouse.core.call import OWN_SERVER, Call
from pilothouse.core.ids import AskId
from pilothouse.engines.acp.agents import PLAIN, Agent
from pilothouse.engines.acp.calls import Tool, call_of, describe, payload_of
from pilothouse.engines.acp.wire import ELICITATION, PERMISSION, Update, text_of
from pilothouse.engines.dialogue import Payload, Pending
from pilothouse.engines.forms import answer_form, ask_form
from pilothouse.engines.jsonrpc import Request
from pilothouse.engines.lenient_json import read_fields

CANCELLED: Payload = {"outcome": {"outcome": "cancelled"}}
DECLINED: Payload = {"action": "decline"}


class Permission(Pending):
    """`always`: the session's calls are not judged, so an option for all later calls will do."""

    def __init__(self, request: Request, asks: Sequence[Ask], item_id: str, *, always: bool) -> None:
        super().__init__(request, asks, item_id)
        self._always = always

    def accept(self, decisions: Sequence[Decision]) -> Payload:
        kinds = ("allow_once", "allow_always") if self._always else ("allow_once",)
        return self._select(*kinds)

    def decline(self) -> Payload:
        return self._select("reject_once")

    def stop(self) -> Payload:  # pyrefly: ignore[missing-override-decorator]
        return CANCELLED

    def _select(self, *kinds: str) -> Payload:
        options = self.request.params.get("options")
        found = [one for one in options if isinstance(one, dict)] if isinstance(options, list) else []
        for kind in kinds:
            for option in found:
                if option.get("kind") == kind and isinstance(id := option.get("optionId"), str):
                    return {"outcome": {"outcome": "selected", "optionId": id}}
        return CANCELLED


class Elicitation(Pending):
    def accept(self, decisions: Sequence[Decision]) -> Payload:
        return {"action": "accept", "content": answer_form(self.request.params, decisions)}

    def decline(self) -> Payload:
        return DECLINED


def no_answer(request: Request) -> Payload | None:
    """Return the reply to a request that no turn can answer; None for one that is not understood."""
    return {PERMISSION: CANCELLED, ELICITATION: DECLINED}.get(request.method)


def tool_update(request: Request) -> Update | None:
    """Return the call that a request for permission is about."""
    given = request.params.get("toolCall")
    found = read_fields(given, Update)[0] if isinstance(given, dict) else None
    return found if found is not None and found.tool_call_id else None


def read_permission(
    request: Request,
    tool: Tool,
    id: str,
    cwd: str,
    agent: Agent = PLAIN,
    *,
    always: bool = False,
    own: bool = False,
) -> Permission:
    """Read a request about a call, as far as it is known now.

    `own`: the session was given Pilothouse's server. Else one with its name is somebody else's."""
    payload = payload_of(tool, cwd)
    title = describe(tool, cwd, agent).title
    call = call_of(payload)
    if call is not None and call.server == OWN_SERVER and not own:
        call = Call("tool", call.tool, call.cwd, input=call.input)
    if call is not None and call.kind not in ("command", "change") and (words := text_of(tool.content)):
        title = f"{title}\n{words[:1000]}"
    ask = Ask(AskId(id), "approval", title, payload, hash_payload(payload), call=call)
    return Permission(request, [ask], tool.id, always=always)


def read_elicitation(request: Request, id: str) -> Elicitation | None:
    """Read a form or a page to visit; None for a mode that is not understood, which counts as a no."""
    questions = ask_form(request.params)
    if not questions:
        return None
    return Elicitation(request, [_question(id, n, *one) for n, one in enumerate(questions)], "")


def _question(id: str, n: int, title: str, payload: dict[str, Any], options: Any) -> Ask:
    name = AskId(f"{id}:{n}" if n else id)
    return Ask(name, "question", title, payload, hash_payload(payload), options, True)
