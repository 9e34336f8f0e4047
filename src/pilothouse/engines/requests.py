"""A request of an engine's program that waits for people: its asks, their options, and what was decided. Pure.

Most programs take neither a changed input nor a text in answer to a yes-or-no request: `plain_decision` turns both into
a "no" with words for the model.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec

from pilothouse.core.ask import Ask, Decision, Option, hash_payload
from pilothouse.core.call import Call
from pilothouse.core.ids import AskId

SAID_NO = "The call was not allowed: {words}"
CHANGED = "The user did not allow that call as it is. Make it again with this input instead: {given}"


class PendingAsks:
    """The asks of one request, until all are decided or one is denied."""

    def __init__(self, asks: Sequence[Ask]) -> None:
        self.asks = tuple(asks)
        self._given: dict[AskId, Decision] = {}

    @property
    def judged(self) -> bool:
        """True if rules may decide it; only a person answers a question."""
        return self.asks[0].kind == "approval"

    @property
    def left(self) -> tuple[AskId, ...]:
        return tuple(ask.id for ask in self.asks if ask.id not in self._given)

    def settle(self, ask_id: AskId, decision: Decision) -> list[Decision]:
        """Return the decisions once they suffice; empty before, and for an ask that is already decided."""
        if ask_id not in self.left:
            return []
        self._given[ask_id] = decision
        if self.left and not is_no(decision):
            return []
        return [self._given[ask.id] for ask in self.asks if ask.id in self._given]


def is_no(decision: Decision) -> bool:
    return decision.verdict == "deny"


def make_approval(id: AskId, title: str, payload: dict[str, Any], call: Call | None) -> Ask:
    return Ask(id, "approval", title, payload, hash_payload(payload), call=call)


def make_question(
    id: AskId, title: str, payload: dict[str, Any], options: tuple[Option, ...] = (), *, many: bool = False
) -> Ask:
    return Ask(id, "question", title, payload, hash_payload(payload), options, free_text=True, many=many)


def numbered_options(labels: Sequence[str]) -> tuple[Option, ...]:
    return tuple(Option(str(n), label) for n, label in enumerate(labels, 1))


def option_label(label: str, more: object) -> str:
    return f"{label}: {more}" if isinstance(more, str) and more else label


def chosen_words(labels: Sequence[str], decision: Decision) -> list[str]:
    """Return the labels of the chosen options of `numbered_options`, then what was typed."""
    numbers = [int(key) for key in decision.options if key.isdecimal()]
    chosen = [labels[number - 1] for number in numbers if 0 < number <= len(labels)]
    return [*chosen, *([decision.text] if decision.text else [])]


def numbered_id(id: AskId, n: int) -> AskId:
    return id if not n else AskId(f"{id}:{n}")


def plain_decision(ask: Ask, decision: Decision) -> Decision:
    """Turn a yes to another input, and words in answer to a yes-or-no ask, into a "no" with words."""
    if ask.kind == "question":
        return decision
    if decision.verdict == "answer":
        return msgspec.structs.replace(decision, verdict="deny")
    given = ask.payload.get("input")
    if decision.verdict == "allow" and decision.input is not None and decision.input != given:
        words = CHANGED.format(given=json.dumps(decision.input, ensure_ascii=False))
        return msgspec.structs.replace(decision, verdict="deny", text=words)
    return decision
