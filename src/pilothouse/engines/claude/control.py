"""The control protocol's lines, as values: what the CLI asks of its host, and how it answers."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct, field


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
