"""Permission requests of Claude Code as asks, and decisions as replies. Pure.

Rules: the payload of an ask holds nothing that is new each time, so the same question has the same hash. A "no" with a
reason lets the turn go on; one without stops it, unless it was a question. Words in answer to a yes-or-no ask are a "no"
with these words. Several questions in one request are several asks with one reply: a "no" to one is the "no" to all.
Nothing is remembered here: Pilothouse does that, and Claude's own suggestions would also switch its permission mode.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pilothouse.core.ask import Ask, AskKind, Decision, Option, hash_payload
from pilothouse.core.ids import AskId
from pilothouse.engines.claude.calls import call_of
from pilothouse.engines.claude.control import CanUseTool
from pilothouse.engines.claude.texts import describe_call

QUESTION = "AskUserQuestion"
PLAN = "ExitPlanMode"

NO = "The user said no."
NOBODY = "The user did not answer."


def asks_of(request_id: str, request: CanUseTool, workspace: str, plan: str = "", cwd: str = "") -> list[Ask]:
    """Return one ask, or one for each question of the request, with the ids of `ask_ids`.

    `plan` comes from the call: 2.1.325 sends the request to approve it with an empty input. The call would run in `cwd`.
    """
    if questions := questions_of(request):
        ids = ask_ids(request_id, len(questions))
        return [_question(id, question) for id, question in zip(ids, questions, strict=True)]
    id = AskId(request_id)
    payload: dict[str, Any] = {"tool": request.tool_name, "input": request.input}
    if request.tool_name != PLAN:
        payload["cwd"] = cwd or workspace
        return [_ask(id, "approval", _title(request, workspace), payload)]
    payload["input"] = {"plan": plan} | request.input
    return [_ask(id, "plan", str(payload["input"]["plan"]) or "The plan", payload)]


def ask_ids(request_id: str, count: int) -> list[AskId]:
    return [AskId(request_id if not n else f"{request_id}:{n}") for n in range(count)]


def _title(request: CanUseTool, workspace: str) -> str:
    title = describe_call("", request.tool_name, request.input, workspace).title
    return f"{title}\n{request.decision_reason}" if request.decision_reason else title


def questions_of(request: CanUseTool) -> list[dict[str, Any]]:
    asked = request.input.get("questions") if request.tool_name == QUESTION else None
    return [one for one in asked if isinstance(one, dict)] if isinstance(asked, list) else []


def _question(id: AskId, question: dict[str, Any]) -> Ask:
    given = question.get("options")
    labels = [_label(option) for option in given] if isinstance(given, list) else []
    options = tuple(Option(str(n), label) for n, label in enumerate(labels, 1) if label)
    title, many = str(question.get("question") or ""), question.get("multiSelect") is True
    return _ask(id, "question", title, question, options, free_text=True, many=many)


def _label(option: Any) -> str:
    if not isinstance(option, dict):
        return str(option)
    label, more = str(option.get("label") or ""), option.get("description")
    return f"{label}: {more}" if label and isinstance(more, str) and more else label


def _ask(
    id: AskId,
    kind: AskKind,
    title: str,
    payload: dict[str, Any],
    options: tuple[Option, ...] = (),
    *,
    free_text: bool = False,
    many: bool = False,
) -> Ask:
    call = None if kind == "question" else call_of(payload)
    return Ask(id, kind, title, payload, hash_payload(payload), options, free_text, many=many, call=call)


def answer_request(request: CanUseTool, decisions: Sequence[Decision]) -> dict[str, Any]:
    """Return the `response` of a control response. `decisions` are in the order of `asks_of`; one "no" is enough."""
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
    """Deny the call; without a reason, stop the turn too."""
    denied = {"behavior": "deny", "message": reason or NO}
    return denied if reason else {**denied, "interrupt": True}


def _answered(question: dict[str, Any], decision: Decision) -> tuple[str, str]:
    labels = [_answer_label(question, key) for key in decision.options]
    words = [*filter(None, labels), *([decision.text] if decision.text else [])]
    return str(question.get("question") or ""), ", ".join(words)


def _answer_label(question: dict[str, Any], key: str) -> str:
    """Return an option's label, by which Claude knows it, without the description that people saw beside it."""
    options = question.get("options")
    if not isinstance(options, list) or not key.isdecimal() or not 0 < int(key) <= len(options):
        return key
    option = options[int(key) - 1]
    return str(option.get("label") or "") if isinstance(option, dict) else str(option)


class PendingAsk:
    """A permission request that waits for people."""

    def __init__(self, request_id: str, request: CanUseTool) -> None:
        self.request_id = request_id
        self.request = request
        self.ids: tuple[AskId, ...] = tuple(ask_ids(request_id, max(1, len(questions_of(request)))))
        self._given: dict[AskId, Decision] = {}

    def decide(self, ask_id: AskId, decision: Decision) -> dict[str, Any] | None:
        """Return the reply once it is settled; None before, and for an ask that is already decided."""
        if ask_id not in self.ids or ask_id in self._given:
            return None
        self._given[ask_id] = decision
        if self.left and not is_no(decision, question=bool(questions_of(self.request))):
            return None
        return answer_request(self.request, [self._given[id] for id in self.ids if id in self._given])

    @property
    def left(self) -> tuple[AskId, ...]:
        """Asks that are not decided yet."""
        return tuple(id for id in self.ids if id not in self._given)
