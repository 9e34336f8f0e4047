"""The requests of one turn: judged, asked, answered. No I/O but the judge's.

Rules: what the policy allows is accepted, what it denies is declined and the model is told why, and everything else becomes
an ask. A plain "no" of a person stops the turn; one with words lets the model go on with them. Each request gets one reply.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from pilothouse.core.ask import Ask, Decision, ends_turn
from pilothouse.core.engine import Brief, Judge, Step
from pilothouse.core.event import Asked
from pilothouse.core.ids import AskId
from pilothouse.core.isolation import Isolation
from pilothouse.core.policy import Ruling, Site
from pilothouse.engines.jsonrpc import Request, RequestId
from pilothouse.engines.requests import SAID_NO, PendingAsks, is_no, plain_decision

Payload = dict[str, Any]


class Pending(PendingAsks, ABC):
    """A request that waits for a decision about each of its asks."""

    def __init__(self, request: Request, asks: Sequence[Ask], item_id: str) -> None:
        super().__init__(asks)
        self.request = request
        self.item_id = item_id
        """The item that waits for it."""

    def decide(self, ask_id: AskId, decision: Decision) -> Payload | None:
        """Return the reply once it is settled; None before, and for an ask that is already decided."""
        decisions = self.settle(ask_id, decision)
        if not decisions:
            return None
        if any(map(is_no, decisions)) or (self.judged and decisions[0].verdict != "allow"):
            return self.decline()
        return self.accept(decisions)

    @abstractmethod
    def accept(self, decisions: Sequence[Decision]) -> Payload:
        """Return the reply that says yes, or gives the answers."""

    @abstractmethod
    def decline(self) -> Payload:
        """Return the reply that says no, and lets the turn go on."""

    def stop(self) -> Payload:
        """Return the reply that says no and ends the turn, where there is one."""
        return self.decline()


class Turn(Protocol):
    """The part of a turn's translator that a dialogue uses."""

    denials: dict[str, str]
    """Why items were denied, by the item's id."""

    def emit(self, steps: Iterable[Step]) -> list[Step]: ...

    def withdraw(self, ask_ids: Iterable[AskId]) -> list[Step]: ...


class Considered(Struct, frozen=True):
    """The reply to send now, words for the model, and events. Without a reply, people were asked."""

    reply: Payload | None = None
    words: str = ""
    steps: Sequence[Step] = ()


class Answer(Struct, frozen=True):
    """The reply to a request (None for a question that came as a message), words for the model, and whether to stop."""

    request: Request | None
    reply: Payload = {}
    words: str = ""
    stops: bool = False


def judge_in(judge: Judge, isolation: Isolation) -> Judge:
    """Judge the calls of a process that was started with this isolation, whatever the settings say by now."""

    async def judged(ask: Ask, site: Site) -> Ruling:
        return await judge(ask, msgspec.structs.replace(site, isolation=isolation))

    return judged


class Requests:
    """The requests that are open in one turn."""

    def __init__(self, turn: Turn, judge: Judge, brief: Brief) -> None:
        self._turn = turn
        self._judge = judge
        self._brief = brief
        self._pending: dict[RequestId, Pending] = {}
        self.judged: set[str] = set()
        """Items that were judged. One that ran without is a hole."""

    @property
    def pending(self) -> tuple[Pending, ...]:
        return tuple(self._pending.values())

    async def consider(self, pending: Pending) -> Considered:
        """Judge a request: its reply, or its asks."""
        if pending.judged:
            self.judged.add(pending.item_id)
            ruling = await self._judge(pending.asks[0], self._brief.site)
            if ruling.outcome == "allow":
                return Considered(pending.decide(pending.asks[0].id, Decision("allow")))
            if ruling.outcome == "deny":
                self._turn.denials[pending.item_id] = ruling.rule
                return Considered(pending.decline(), SAID_NO.format(words=ruling.rule))
        self._pending[pending.request.id] = pending
        return Considered(steps=self._turn.emit(Asked(ask) for ask in pending.asks))

    def answer(self, ask_id: AskId, decision: Decision) -> Answer | None:
        """Return what to send; None if nothing has to be sent yet, or the ask is not open."""
        pending = next((one for one in self._pending.values() if ask_id in one.left), None)
        if pending is None:
            return None
        ask = next(one for one in pending.asks if one.id == ask_id)
        decision = plain_decision(ask, decision)
        reply = pending.decide(ask_id, decision)
        if reply is None:
            return None
        if ends_turn(ask, decision):
            return Answer(pending.request, pending.stop(), stops=True)
        words = SAID_NO.format(words=decision.text) if pending.judged and decision.text else ""
        return Answer(pending.request, reply, words)

    def settle(self, request_id: RequestId) -> Sequence[Step]:
        """Withdraw what is left of a request that was settled elsewhere, or with its turn."""
        pending = self._pending.pop(request_id, None)
        return self._turn.withdraw(pending.left) if pending else ()
