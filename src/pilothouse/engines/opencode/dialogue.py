"""The permissions and questions of one turn: judged, asked, answered. No I/O but the judge's.

Rules: what the policy allows is answered at once, what it denies is refused with the rule's words, and everything else
becomes an ask. A plain "no" of a person stops the turn; one with words lets the model go on with them. A permission is
judged by the input of its call, so it waits until that is known.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec
from msgspec import Struct

from pilothouse.core.ask import Decision, ends_turn
from pilothouse.core.engine import Brief, Judge, Step
from pilothouse.core.event import Asked
from pilothouse.core.ids import AskId
from pilothouse.engines.opencode import wire
from pilothouse.engines.opencode.asks import Pending, Reply, Request, allow, call_id, read_request, refuse
from pilothouse.engines.opencode.calls import DOOM_LOOP, UNASKED, own_call
from pilothouse.engines.opencode.launch import SETTLED
from pilothouse.engines.opencode.translate import TurnTranslator
from pilothouse.engines.opencode.wire_parts import ToolPart
from pilothouse.engines.requests import plain_decision


class Considered(Struct, frozen=True):
    """The reply to send now, and events. Without either, the request waits for its call, or is known already."""

    reply: Reply | None = None
    steps: Sequence[Step] = ()


class Answer(Struct, frozen=True):
    """The reply to a request, and whether the turn is to be stopped instead."""

    reply: Reply
    stops: bool = False


OTHERS_TOOL = "This tool belongs to another session of the folder. Use your own."


class Dialogue:
    def __init__(
        self, turn: TurnTranslator, judge: Judge, brief: Brief, servers: Collection[str], *, guarded: bool
    ) -> None:
        self._turn = turn
        self._judge = judge
        self._brief = brief
        self._servers = servers
        self._guarded = guarded
        self._pending: dict[str, Pending] = {}
        self._waiting: dict[str, wire.PermissionAsked] = {}
        """Permissions whose call is not known yet, by the call's id."""
        self._seen: set[str] = set()
        self._judged: set[str] = set()
        """Calls that were judged. One that ran without is a hole."""

    async def consider(self, request: Request) -> Considered:
        if request.id in self._seen:
            return Considered()
        pending = read_request(request, self._turn.calls, self._brief.workspace, self._servers)
        if pending is None and isinstance(request, wire.PermissionAsked):
            self._waiting[call_id(request)] = request
            return Considered()
        self._seen.add(request.id)
        if pending is None:
            return Considered(refuse(request))
        if isinstance(request, wire.PermissionAsked) and (ruled := await self._rule(request, pending)):
            return Considered(ruled)
        self._pending[request.id] = pending
        return Considered(steps=self._turn.emit(Asked(ask) for ask in pending.asks))

    async def _rule(self, request: wire.PermissionAsked, pending: Pending) -> Reply | None:
        """Return the reply that rules decide; None if a person must."""
        if request.permission not in (DOOM_LOOP, *SETTLED):
            self._judged.add(pending.call_id)
        ask = pending.asks[0]
        own = own_call(ask.call, self._brief.session_id) if ask.call else None
        if ask.call is not None and own is None:
            return refuse(request, OTHERS_TOOL)
        ruling = await self._judge(msgspec.structs.replace(ask, call=own), self._brief.site)
        if ruling.outcome == "allow":
            return allow(request)
        if ruling.outcome == "deny":
            self._turn.denials[pending.call_id] = ruling.rule
            return refuse(request, ruling.rule)
        return None

    def ready(self, heard: wire.Heard) -> wire.PermissionAsked | None:
        """Return the permission that waited for this call, if any."""
        match heard:
            case wire.PartUpdated(part=ToolPart(call_id=id)) if id in self._turn.calls:
                return self._waiting.pop(id, None)
            case _:
                return None

    def answer(self, ask_id: AskId, decision: Decision) -> Answer | None:
        """Return what to send; None if nothing has to be sent yet, or the ask is not open."""
        pending = next((one for one in self._pending.values() if ask_id in one.left), None)
        if pending is None:
            return None
        ask = next(one for one in pending.asks if one.id == ask_id)
        decision = plain_decision(ask, decision)
        reply = pending.decide(ask_id, decision)
        return Answer(reply, ends_turn(ask, decision)) if reply is not None else None

    def settle(self, request_id: str) -> Sequence[Step]:
        """Withdraw what is left of a request that was settled elsewhere, or with its turn."""
        pending = self._pending.pop(request_id, None)
        return self._turn.withdraw(pending.left) if pending else ()

    def keep(self, open_ids: Collection[str]) -> Sequence[Step]:
        """Withdraw every request that is not open any more."""
        gone = [id for id in self._pending if id not in open_ids]
        return [step for id in gone for step in self.settle(id)]

    def leaks(self, heard: wire.Heard) -> bool:
        """Tell whether a call of this turn ran that was not judged."""
        match heard:
            case wire.PartUpdated(part=ToolPart() as part) if (
                self._guarded and part.state.status == "completed"
            ):
                known = part.call_id in self._judged or part.tool in UNASKED
                return not known and self._turn.is_ours(part.message_id)
            case _:
                return False
