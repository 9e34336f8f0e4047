"""Permission requests that wait for people. Several questions in one request are several asks, and have one answer: a no
to one of them is the no to all."""

from __future__ import annotations

from typing import Any

from pilothouse.core.ask import Decision
from pilothouse.core.ids import AskId
from pilothouse.engines.claude.answers import answer_request, is_no
from pilothouse.engines.claude.asks import ask_ids, questions_of
from pilothouse.engines.claude.control import CanUseTool


class PendingAsk:
    def __init__(self, request_id: str, request: CanUseTool) -> None:
        self.request_id = request_id
        self.request = request
        self.ids: tuple[AskId, ...] = tuple(ask_ids(request_id, max(1, len(questions_of(request)))))
        self._given: dict[AskId, Decision] = {}

    def decide(self, ask_id: AskId, decision: Decision) -> dict[str, Any] | None:
        """The answer, once it is settled; None before, and for an ask that is decided already."""
        if ask_id not in self.ids or ask_id in self._given:
            return None
        self._given[ask_id] = decision
        if self.left and not is_no(decision, question=bool(questions_of(self.request))):
            return None
        return answer_request(self.request, [self._given[id] for id in self.ids if id in self._given])

    @property
    def left(self) -> tuple[AskId, ...]:
        """Those that nobody has decided."""
        return tuple(id for id in self.ids if id not in self._given)
