"""The control protocol: lines to Claude Code's stdin, and its requests and replies as values.

A line that is not JSON kills the process (2.1.325), so every line is encoded here.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct, field

GATE = "gate"
INTERRUPT: dict[str, Any] = {"subtype": "interrupt", "cancel_queued": True}

_encoder = msgspec.json.Encoder()


def initialize(system_prompt: str = "") -> dict[str, Any]:
    """Hold every call at the gate, also those that Claude Code would allow by itself. A `system_prompt` replaces
    `--append-system-prompt`, which is not read then (2.1.325)."""
    gate = {"PreToolUse": [{"matcher": "*", "hookCallbackIds": [GATE]}]}
    appended = {"appendSystemPrompt": system_prompt} if system_prompt else {}
    return {"subtype": "initialize", "hooks": gate, **appended}


def user_line(content: str | list[dict[str, Any]], uuid: str, *, composed: bool = True) -> bytes:
    """`composed` disables `@files` and `/commands` in the text."""
    return _line(
        {
            "type": "user",
            "message": {"role": "user", "content": content},
            "parent_tool_use_id": None,
            "session_id": "",
            "uuid": uuid,
            "client_composed": composed,
        }
    )


def request_line(request_id: str, request: dict[str, Any]) -> bytes:
    return _line({"type": "control_request", "request_id": request_id, "request": request})


def reply_line(request_id: str, response: dict[str, Any]) -> bytes:
    told = {"subtype": "success", "request_id": request_id, "response": response}
    return _line({"type": "control_response", "response": told})


def refusal_line(request_id: str, error: str) -> bytes:
    """Refuse a request. Never for a hook: there, an error counts as no opinion (2.1.325), and the call may run."""
    told = {"subtype": "error", "request_id": request_id, "error": error}
    return _line({"type": "control_response", "response": told})


def set_model(model: str) -> dict[str, Any]:
    return {"subtype": "set_model", "model": model}


def set_permission_mode(mode: str) -> dict[str, Any]:
    return {"subtype": "set_permission_mode", "mode": mode}


def _line(value: dict[str, Any]) -> bytes:
    """Encode the value; a lone surrogate, which JSON cannot hold, becomes a question mark."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        return _encoder.encode(_clean(value))


def _clean(value: Any) -> Any:
    match value:
        case str():
            return value.encode("utf-8", "replace").decode("utf-8")
        case dict():
            return {key: _clean(item) for key, item in value.items()}
        case list():
            return [_clean(item) for item in value]
        case _:
            return value


class _Request(Struct, frozen=True, tag_field="subtype"):
    pass


class CanUseTool(_Request, frozen=True, tag="can_use_tool"):
    """Asks whether a call may run. `permission_suggestions` are possible meanings of "always"."""

    tool_name: str
    input: dict[str, Any] = field(default_factory=dict)
    tool_use_id: str = ""
    display_name: str | None = None
    description: str | None = None
    decision_reason: str | None = None
    blocked_path: str | None = None
    agent_id: str | None = None
    requires_user_interaction: bool = False
    permission_suggestions: list[dict[str, Any]] | None = None


class HookCallback(_Request, frozen=True, tag="hook_callback"):
    callback_id: str
    input: dict[str, Any] = field(default_factory=dict)
    tool_use_id: str | None = None

    @property
    def cwd(self) -> str:
        """The folder at which relative paths begin; empty if the program does not say."""
        here = self.input.get("cwd")
        return here if isinstance(here, str) else ""


class McpMessage(_Request, frozen=True, tag="mcp_message"):
    server_name: str
    message: dict[str, Any] = field(default_factory=dict)


class UnknownRequest(Struct, frozen=True):
    """A request of an unknown kind. Claude Code waits for an answer all the same."""

    subtype: str = ""


Request = CanUseTool | HookCallback | McpMessage


class ControlRequest(Struct, frozen=True, tag_field="type", tag="control_request"):
    request_id: str
    request: Request


class UnknownControlRequest(Struct, frozen=True):
    request_id: str
    request: UnknownRequest


class Reply(Struct, frozen=True):
    """`subtype` is `success` or `error`."""

    subtype: str
    request_id: str = ""
    response: Any = None
    error: str = ""
    error_code: str = ""


class ControlResponse(Struct, frozen=True, tag_field="type", tag="control_response"):
    response: Reply


class ControlCancel(Struct, frozen=True, tag_field="type", tag="control_cancel_request"):
    """Claude Code withdraws a request."""

    request_id: str


def read_unknown_request(line: dict[str, Any]) -> UnknownControlRequest | None:
    """Return a request of an unknown kind; None if the line is not a request."""
    try:
        return msgspec.convert(line, UnknownControlRequest)
    except msgspec.ValidationError:
        return None
