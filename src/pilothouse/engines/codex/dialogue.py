"""The requests of one turn of Codex: what engines share, questions that came as messages, and calls that nobody judged."""

from __future__ import annotations

from collections.abc import Sequence

from pilothouse.core.ask import Decision
from pilothouse.core.engine import Brief, Judge, Step
from pilothouse.core.ids import AskId
from pilothouse.engines.codex import wire
from pilothouse.engines.codex.asks import read_request
from pilothouse.engines.codex.translate import TurnTranslator
from pilothouse.engines.codex.wire_items import CommandExecution, FileChange, ImageView, McpToolCall
from pilothouse.engines.dialogue import Answer, Considered, Requests

_INTERACTION = "unifiedExecInteraction"
"""The source of an item that only reads more of a running command's output."""


class Dialogue:
    def __init__(self, turn: TurnTranslator, judge: Judge, brief: Brief, *, guarded: bool) -> None:
        self._turn = turn
        self._brief = brief
        self._guarded = guarded
        self._requests = Requests(turn, judge, brief)

    async def consider(self, request: wire.ServerRequest) -> Considered | None:
        """Return None for a request that cannot be read: it counts as a "no"."""
        pending = read_request(request, self._turn.items, self._brief.workspace)
        return None if pending is None else await self._requests.consider(pending)

    def answer(self, ask_id: AskId, decision: Decision) -> Answer | None:
        """Return what to send; None if nothing has to be sent yet, or the ask is not open."""
        if words := self._answer_message(ask_id, decision):
            return Answer(None, words=words)
        return self._requests.answer(ask_id, decision)

    def note(self, heard: wire.Heard) -> Sequence[Step]:
        """Withdraw what is left of a request that was settled elsewhere, or with its turn."""
        if not isinstance(heard, wire.RequestResolved):
            return ()
        return self._requests.settle(heard.request_id)

    def leaks(self, heard: wire.Heard) -> bool:
        """Tell whether a call of this turn ran that was not judged.

        One of an earlier turn was judged then, and one that had begun before we joined the turn, by the gateway before.
        """
        if not self._guarded or not isinstance(heard, wire.ItemCompleted):
            return False
        if heard.item.id in self._requests.judged or self._turn.is_earlier(heard):
            return False
        if self._turn.joined and heard.item.id not in self._turn.items:
            return False
        match heard.item:
            case CommandExecution(status="completed", source=source):
                return source != _INTERACTION
            case FileChange(status="completed") | McpToolCall(status="completed") | ImageView():
                return True
            case _:
                return False

    def _answer_message(self, ask_id: AskId, decision: Decision) -> str:
        for questions in self._turn.questions:
            if ask_id not in self._turn.answered and (words := questions.render_answer(ask_id, decision)):
                self._turn.answered.add(ask_id)
                return words
        return ""
