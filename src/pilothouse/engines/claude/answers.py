"""What a person decided -> what the CLI is told. Pure; the other half of `asks.py`.

Rules: a "no" with a reason lets the turn go on, one without stops it, unless it was a question; words where a yes or a
no was asked for are a "no" with these words; nothing is remembered here, for the house does that, and the CLI's own
suggestions would also switch its permission mode.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pilothouse.core.ask import Decision
from pilothouse.engines.claude.asks import questions_of
from pilothouse.engines.claude.control import CanUseTool

NO = "The user said no."
NOBODY = "The user did not answer."


def answer_request(request: CanUseTool, decisions: Sequence[Decision]) -> dict[str, Any]:
    """The `response` of a control response. `decisions` are in the order of `asks_of`; any "no" is a "no"."""
    questions = questions_of(request)
    denial = next((decision for decision in decisions if is_no(decision, question=bool(questions))), None)
    if denial is not None or not decisions:
        return deny((denial.text if denial else "") or (NOBODY if questions else ""))
    if questions:
        answers = dict(map(_answered, questions, decisions))
        return {"behavior": "allow", "updatedInput": {**request.input, "answers": answers}}
    return {"behavior": "allow", "updatedInput": decisions[0].input or request.input}


def is_no(decision: Decision, *, question: bool) -> bool:
    return decision.verdict == "deny" or (decision.verdict == "answer" and not question)


def deny(reason: str) -> dict[str, Any]:
    """Without a reason the turn stops."""
    denied = {"behavior": "deny", "message": reason or NO}
    return denied if reason else {**denied, "interrupt": True}


def _answered(question: dict[str, Any], decision: Decision) -> tuple[str, str]:
    labels = [_label(question, key) for key in decision.options]
    words = [*filter(None, labels), *([decision.text] if decision.text else [])]
    return str(question.get("question") or ""), ", ".join(words)


def _label(question: dict[str, Any], key: str) -> str:
    """The CLI knows an option by its label alone, without the description that people saw beside it."""
    options = question.get("options")
    if not isinstance(options, list) or not key.isdecimal() or not 0 < int(key) <= len(options):
        return key
    option = options[int(key) - 1]
    return str(option.get("label") or "") if isinstance(option, dict) else str(option)
