"""What we write to the CLI's stdin, one JSON object per line.

A line that is no JSON kills the process (2.1.325), so every line is made here and by the encoder.

The control protocol's lines, as values: what the CLI asks of its host, and how it answers.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct, field

GATE = "gate"
INTERRUPT: dict[str, Any] = {"subtype": "interrupt", "cancel_queued": True}

_encoder = msgspec.json.Encoder()


def initialize(system_prompt: str = "") -> dict[str, Any]:
    """Every call is held at our gate, also those that the CLI would let pass by itself. The `system_prompt` stands in
    the place of what `--append-system-prompt` says, which is not read then (2.1.325)."""
    gate = {"PreToolUse": [{"matcher": "*", "hookCallbackIds": [GATE]}]}
    appended = {"appendSystemPrompt": system_prompt} if system_prompt else {}
    return {"subtype": "initialize", "hooks": gate, **appended}


def user_line(content: str | list[dict[str, Any]], uuid: str, *, composed: bool = True) -> bytes:
    """`composed` keeps `@files` and `/commands` in the text from doing anything."""
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
    """Never for a hook: there, an error counts as no opinion (2.1.325), and the call may run."""
    told = {"subtype": "error", "request_id": request_id, "error": error}
    return _line({"type": "control_response", "response": told})


def set_model(model: str) -> dict[str, Any]:
    return {"subtype": "set_model", "model": model}


def set_permission_mode(mode: str) -> dict[str, Any]:
    return {"subtype": "set_permission_mode", "mode": mode}


def _line(value: dict[str, Any]) -> bytes:
    """A lone surrogate, which no JSON can hold, becomes a question mark."""
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
    """May this call run? `permission_suggestions` are what "always" could mean."""

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
        """Where the program is now: that is where its relative paths begin. Empty if it does not say."""
        here = self.input.get("cwd")
        return here if isinstance(here, str) else ""


class McpMessage(_Request, frozen=True, tag="mcp_message"):
    server_name: str
    message: dict[str, Any] = field(default_factory=dict)


class UnknownRequest(Struct, frozen=True):
    """The CLI waits for an answer all the same: say that it is not supported."""

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
    """The CLI withdraws what it asked."""

    request_id: str


def read_unknown_request(line: dict[str, Any]) -> UnknownControlRequest | None:
    """A request of a kind that we do not know, out of plain values; None if it is not even a request."""
    try:
        return msgspec.convert(line, UnknownControlRequest)
    except msgspec.ValidationError:
        return None
