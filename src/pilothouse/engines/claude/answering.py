"""A decision -> the answer that the CLI gets to its permission request. Pure.

allow                    it runs, with what a person changed in it
allow, for the session   and one rule of the CLI's own for this session; never a settings file
deny with a reason       the model reads it and goes on
deny without             the turn stops
a question               its answers, by the question's own words; nobody's answer is said to be none
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pilothouse.core.ask import Decision
from pilothouse.core.ids import AskId
from pilothouse.engines.claude.asks import PLAN, QUESTION, ask_ids
from pilothouse.engines.claude.control import CanUseTool

STOPPED = "The user does not want this, and stopped."
NO_ANSWER = "The user did not answer."


class PendingAsk:
    """One permission request; several questions in it are several asks, and it is answered with the last of them."""

    def __init__(self, request_id: str, request: CanUseTool) -> None:
        self.request_id = request_id
        self.request = request
        self.questions = _questions(request)
        self.ids: tuple[AskId, ...] = tuple(ask_ids(request_id, max(1, len(self.questions))))
        self._given: dict[AskId, Decision] = {}

    def decide(self, ask_id: AskId, decision: Decision) -> dict[str, Any] | None:
        """The answer, once everything is decided; None before, and for an ask that is decided already."""
        if ask_id not in self.ids or ask_id in self._given:
            return None
        self._given[ask_id] = decision
        if self.questions:
            return self._answers() if len(self._given) == len(self.ids) else None
        return permission_reply(self.request, decision)

    def _answers(self) -> dict[str, Any]:
        given = [self._given[id] for id in self.ids]
        answers = {
            str(question.get("question")): words
            for question, decision in zip(self.questions, given, strict=True)
            if (words := spoken(question, decision))
        }
        if not answers:
            reasons = [decision.text for decision in given if decision.verdict == "deny" and decision.text]
            return {"behavior": "deny", "message": reasons[0] if reasons else NO_ANSWER}
        return {"behavior": "allow", "updatedInput": {**self.request.input, "answers": answers}}


def permission_reply(request: CanUseTool, decision: Decision) -> dict[str, Any]:
    if decision.verdict == "deny":
        return deny(decision.text)
    if decision.verdict == "answer":
        # Somebody typed words where a yes or a no was asked for: the model reads them, and nothing runs.
        return deny(decision.text or NO_ANSWER)
    reply: dict[str, Any] = {"behavior": "allow", "updatedInput": decision.input or request.input}
    if decision.remember != "once" and (rule := for_session(request)) is not None:
        reply["updatedPermissions"] = [rule]
    return reply


def deny(reason: str) -> dict[str, Any]:
    if reason:
        return {"behavior": "deny", "message": reason}
    return {"behavior": "deny", "message": STOPPED, "interrupt": True}


def for_session(request: CanUseTool) -> dict[str, Any] | None:
    """Of the CLI's suggestions the one about this call, turned to the session. All of them together would write the
    user's settings and allow every edit (2.1.325)."""
    rules = [one for one in request.permission_suggestions or () if one.get("type") == "addRules"]
    return {**rules[0], "destination": "session"} if rules else None


def spoken(question: Mapping[str, Any], decision: Decision) -> str:
    """The answer in the question's own words: labels as they were given, or what was typed."""
    if decision.verdict == "deny":
        return ""
    labels = _labels(question.get("options"))
    chosen = [labels[key] for key in decision.options if key in labels]
    return decision.text or ", ".join(chosen)


def _labels(options: Any) -> dict[str, str]:
    """By the keys that the ask gave them: their numbers."""
    listed = options if isinstance(options, Sequence) and not isinstance(options, str) else ()
    return {str(n): _label(option) for n, option in enumerate(listed, 1)}


def _label(option: Any) -> str:
    return str(option.get("label") or "") if isinstance(option, dict) else str(option)


def _questions(request: CanUseTool) -> list[dict[str, Any]]:
    asked = request.input.get("questions") if request.tool_name == QUESTION else None
    return [one for one in asked if isinstance(one, dict)] if isinstance(asked, list) else []


def is_remembered(decision: Decision, request: CanUseTool) -> bool:
    return (
        decision.verdict == "allow"
        and decision.remember != "once"
        and request.tool_name not in (QUESTION, PLAN)
    )
