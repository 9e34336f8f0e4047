"""What we write to the CLI's stdin, one JSON object per line.

A line that is no JSON kills the process (2.1.325), so every line is made here and by the encoder.
"""

from __future__ import annotations

from typing import Any

import msgspec

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
