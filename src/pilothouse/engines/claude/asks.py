"""What the CLI asks a person, as asks: may a tool run, which option, is the plan right.

The payload holds what was asked and nothing that is new each time, so that the same question has the same hash.
"""

from __future__ import annotations

from typing import Any

from pilothouse.core.ask import Ask, AskKind, Option, hash_payload
from pilothouse.core.ids import AskId
from pilothouse.engines.claude.control import CanUseTool
from pilothouse.engines.claude.titles import describe_call

QUESTION = "AskUserQuestion"
PLAN = "ExitPlanMode"


def asks_of(request_id: str, request: CanUseTool, workspace: str, plan: str = "", cwd: str = "") -> list[Ask]:
    """One ask; for several questions in one request, one each, with the ids `ask_ids` gives.

    `plan` is what the call said: CLI 2.1.325 sends the request to approve it with an empty input. `cwd` is where the
    call would run.
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
    return Ask(id, kind, title, payload, hash_payload(payload), options, free_text, many=many)
