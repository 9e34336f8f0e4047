"""Requests of Codex as asks, and decisions as replies. Pure.

Five kinds of request need a person: a command, a file change, more permissions, an MCP server (may its tool run, or a form
of its own), and questions of the model. A sixth comes as a message: questions that the model does not wait for.

Rules: the payload of an ask holds nothing that is new each time, so the same question has the same hash. Codex takes no
reason with a "no" and no changed input: the session tells the model in a message of its own. Nothing is remembered here:
Pilothouse does that, and `acceptForSession` or an amendment would let later calls pass unseen.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pilothouse.core.ask import Ask, Decision
from pilothouse.core.ids import AskId
from pilothouse.engines.codex.calls import (
    MCP_PREFIX,
    NETWORK,
    PATCH,
    PERMISSIONS,
    SHELL,
    STDIN,
    call_of,
    script_of,
)
from pilothouse.engines.codex.texts import describe_item, patch_of
from pilothouse.engines.codex.wire import ServerRequest
from pilothouse.engines.codex.wire_items import AgentMessage, FileChange, Item, McpToolCall
from pilothouse.engines.dialogue import Payload, Pending
from pilothouse.engines.forms import answer_form, ask_form
from pilothouse.engines.jsonrpc import Request
from pilothouse.engines.requests import (
    chosen_words,
    is_no,
    make_approval,
    make_question,
    numbered_id,
    numbered_options,
    option_label,
)

COMMAND = "item/commandExecution/requestApproval"
FILE_CHANGE = "item/fileChange/requestApproval"
MORE_PERMISSIONS = "item/permissions/requestApproval"
ELICITATION = "mcpServer/elicitation/request"
USER_INPUT = "item/tool/requestUserInput"

OUTSIDE = "Outside the sandbox"

_TOOL_NAME = re.compile(r'run tool "(?P<name>[^"]+)"\?$')
_NO_ANSWER: dict[str, dict[str, Any]] = {
    COMMAND: {"decision": "decline"},
    FILE_CHANGE: {"decision": "decline"},
    MORE_PERMISSIONS: {"permissions": {}, "scope": "turn"},
    ELICITATION: {"action": "decline", "content": None, "_meta": None},
    USER_INPUT: {"answers": {}},
}


class CodexRequest(Pending):
    """A request of Codex that waits for decisions."""

    def __init__(self, request: ServerRequest, asks: Sequence[Ask], item_id: str = "") -> None:
        super().__init__(request, asks, item_id or str(request.params.get("itemId") or ""))

    def decline(self) -> Payload:
        return no_answer(self.request)

    def stop(self) -> Payload:  # pyrefly: ignore[missing-override-decorator]
        """The model is not called again then."""
        known = self.request.method in (COMMAND, FILE_CHANGE)
        return {"decision": "cancel"} if known else self.decline()

    def accept(self, decisions: Sequence[Decision]) -> Payload:
        request = self.request
        if request.method in (COMMAND, FILE_CHANGE):
            return {"decision": "accept"}
        if request.method == MORE_PERMISSIONS:
            return {"permissions": request.params.get("permissions") or {}, "scope": "turn"}
        if request.method == USER_INPUT:
            pairs = zip(_questions(request), decisions, strict=True)
            return {"answers": {str(one.get("id")): {"answers": _answers(one, said)} for one, said in pairs}}
        content = Payload() if self.judged else answer_form(request.params, decisions)
        return {"action": "accept", "content": content, "_meta": None}


class AsyncQuestions:
    """Questions that came as a message: an answer goes to the model as another message."""

    def __init__(self, item: AgentMessage) -> None:
        self.asks = tuple(
            make_question(
                AskId(f"{item.id}:{n}"),
                one.title,
                {"title": one.title, "options": one.options or []},
                numbered_options(one.options or ()),
            )
            for n, one in enumerate(item.questions or ())
        )

    def render_answer(self, ask_id: AskId, decision: Decision) -> str:
        """Return the message; empty if the ask is not one of these, or was declined."""
        ask = next((ask for ask in self.asks if ask.id == ask_id), None)
        if ask is None or is_no(decision):
            return ""
        labels = {option.key: option.label for option in ask.options}
        words = [labels.get(key, key) for key in decision.options]
        return f"{ask.title} {', '.join([*words, *filter(None, [decision.text])])}"


def no_answer(request: Request) -> Payload:
    """Return the reply that says no, and lets the turn go on."""
    return _NO_ANSWER[request.method]


def is_known(request: ServerRequest) -> bool:
    return request.method in _NO_ANSWER


def needs_item(request: ServerRequest) -> bool:
    """Tell whether a request is understood only with the item that it is about."""
    meta = request.params.get("_meta")
    return request.method == FILE_CHANGE or (isinstance(meta, dict) and bool(meta.get("codex_approval_kind")))


def read_request(request: ServerRequest, items: Mapping[str, Item], cwd: str) -> CodexRequest | None:
    """Read a request, with the items that run now; None for one that is not understood, which counts as a "no"."""
    params = request.params
    id = AskId(f"{params.get('turnId') or request.thread_id}:{request.id}")
    match request.method:
        case "item/commandExecution/requestApproval":
            return CodexRequest(request, [_approval(id, *_command(params, cwd))])
        case "item/fileChange/requestApproval":
            return CodexRequest(request, [_approval(id, *_file_change(params, items, cwd))])
        case "item/permissions/requestApproval":
            given = {"permissions": params.get("permissions"), **_reason(params)}
            title = "Give Codex more permissions for this turn"
            return CodexRequest(request, [_approval(id, title, PERMISSIONS, given, params.get("cwd") or cwd)])
        case "item/tool/requestUserInput" if questions := _questions(request):
            return CodexRequest(
                request, [_question(numbered_id(id, n), one) for n, one in enumerate(questions)]
            )
        case "mcpServer/elicitation/request":
            return _elicitation(id, request, items, cwd)
        case _:
            return None


def _approval(id: AskId, title: str, tool: str, given: Payload, cwd: str) -> Ask:
    reason = given.get("reason")
    if reason and tool == SHELL:  # a command has a reason only where the model asks to leave the sandbox
        reason = f"{OUTSIDE}: {reason}"
    payload = {"tool": tool, "input": given, "cwd": cwd}
    return make_approval(id, f"{title}\n{reason}" if reason else title, payload, call_of(payload))


def _command(params: Payload, cwd: str) -> tuple[str, str, Payload, str]:
    cwd = str(params.get("cwd") or cwd)
    network, command = params.get("networkApprovalContext"), script_of(str(params.get("command") or ""))
    if isinstance(network, dict):
        host = str(network.get("host") or "")
        url = f"{network.get('protocol') or 'https'}://{host}"
        return f"Connect to {host}", NETWORK, {"host": host, "url": url, **_reason(params)}, cwd
    extra = {"permissions": more} if (more := params.get("additionalPermissions")) else {}
    tool = STDIN if params.get("kind") == "writeStdin" else SHELL
    title = f"Type into the running command {command}" if tool == STDIN else command
    return title, tool, {"command": command, **extra, **_reason(params)}, cwd


def _file_change(params: Payload, items: Mapping[str, Item], cwd: str) -> tuple[str, str, Payload, str]:
    item = items.get(str(params.get("itemId")))
    changes = patch_of(item) if isinstance(item, FileChange) else []
    call = describe_item(item, cwd) if item is not None else None
    root = {"whole_folder": folder} if (folder := params.get("grantRoot")) else {}
    title = call.title if call else "Change files"
    return title, PATCH, {"changes": changes, **root, **_reason(params)}, cwd


def _elicitation(
    id: AskId, request: ServerRequest, items: Mapping[str, Item], cwd: str
) -> CodexRequest | None:
    params, meta = request.params, request.params.get("_meta")
    if isinstance(meta, dict) and meta.get("codex_approval_kind") == "mcp_tool_call":
        given = meta.get("tool_params")
        named = _TOOL_NAME.search(str(params.get("message") or ""))
        server, tool = str(params.get("serverName") or ""), named["name"] if named else ""
        shown = given if isinstance(given, dict) else {}
        running = _running_call(items, server, tool, given)
        if not running:  # then its name cannot be trusted
            server, tool = "", ""
        ask = _approval(id, f"tool: {server}.{tool}", f"{MCP_PREFIX}{server}__{tool}", shown, cwd)
        return CodexRequest(request, [ask], running)
    asks = ask_form(params)
    return (
        CodexRequest(request, [make_question(numbered_id(id, n), *one) for n, one in enumerate(asks)])
        if asks
        else None
    )


def _running_call(items: Mapping[str, Item], server: str, tool: str, given: Any) -> str:
    """Return the id of the running call that a request describes; empty if there is none."""
    for id, item in items.items():
        if not isinstance(item, McpToolCall) or (item.server, item.tool) != (server, tool):
            continue
        if (item.arguments or {}) == (given or {}):
            return id
    return ""


def _reason(params: Payload) -> Payload:
    reason = params.get("reason")
    return {"reason": reason} if isinstance(reason, str) and reason else {}


def _questions(request: Request) -> list[Payload]:
    asked = request.params.get("questions")
    return [one for one in asked if isinstance(one, dict)] if isinstance(asked, list) else []


def _question(id: AskId, question: Payload) -> Ask:
    given = question.get("options")
    options = [one for one in given if isinstance(one, dict)] if isinstance(given, list) else []
    labels = [option_label(str(one.get("label") or ""), one.get("description")) for one in options]
    payload = {key: question.get(key) for key in ("header", "question", "options")}
    return make_question(id, str(question.get("question") or ""), payload, numbered_options(labels))


def _answers(question: Payload, decision: Decision) -> list[str]:
    """Return the labels by which Codex knows the options, then what was typed."""
    options = question.get("options")
    known = options if isinstance(options, list) else []
    return chosen_words(
        [str(one.get("label") or "") if isinstance(one, dict) else "" for one in known], decision
    )
