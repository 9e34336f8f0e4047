"""One line of each kind that the CLI prints, and the events that it becomes in a turn that has begun with `BEFORE`."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAEElEQVR4nGNgYPiPAw0pCQCpcD/BFMrqcwAAAABJRU5ErkJggg=="
SESSION = "11111111-2222-4333-8444-555555555555"
IMAGE: dict[str, Any] = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": PNG},
}


class Sample(NamedTuple):
    line: bytes
    becomes: tuple[str, ...] = ()


def line(kind: str, **fields: Any) -> bytes:
    return json.dumps({**fields, "session_id": SESSION, "uuid": "u", "type": kind}).encode()


def system(subtype: str, **fields: Any) -> bytes:
    return line("system", subtype=subtype, **fields)


def init(**fields: Any) -> bytes:
    given: dict[str, Any] = {"cwd": "/srv/app", "model": "opus", "tools": ["Bash", "Read"], "mcp_servers": []}
    return system("init", **(given | fields))


def assistant(*content: Any, id: str = "m", parent: str | None = None, **fields: Any) -> bytes:
    message = {"id": id, "role": "assistant", "model": "opus", "content": list(content)}
    return line("assistant", message=message, parent_tool_use_id=parent, **fields)


def user(*content: Any, parent: str | None = None, **fields: Any) -> bytes:
    return line(
        "user", message={"role": "user", "content": list(content)}, parent_tool_use_id=parent, **fields
    )


def stream(kind: str, of: str = "m", **fields: Any) -> bytes:
    return line("stream_event", event={"type": kind, **fields}, parent_tool_use_id=None, api_message_id=of)


def delta(place: int = 0, of: str = "m", **fields: Any) -> bytes:
    return stream("content_block_delta", of, index=place, delta=fields)


def result(subtype: str = "success", **fields: Any) -> bytes:
    given: dict[str, Any] = {
        "is_error": False,
        "result": "",
        "num_turns": 1,
        "total_cost_usd": 0.5,
        "permission_denials": [],
    }
    return line("result", subtype=subtype, **(given | fields))


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def tool_use(name: str = "Bash", id: str = "t1", **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": name, "input": given}


def tool_result(content: Any = "done", id: str = "t1", **fields: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id, "content": content, **fields}


def request(subtype: str, id: str = "r1", **fields: Any) -> bytes:
    body = {"type": "control_request", "request_id": id, "request": {"subtype": subtype, **fields}}
    return json.dumps(body).encode()


FINISHED = ("tool_finished",)
STARTED = ("tool_started",)
ENDED = ("turn_ended",)
NOTED = ("notice",)

BEFORE: tuple[bytes, ...] = (
    init(),
    assistant(tool_use(command="make")),
    request("can_use_tool", id="r0", tool_name="Bash", input={"command": "make"}),
    system("task_started", task_id="k0", description="d", is_backgrounded=True),
)

SAMPLES: dict[str, Sample] = {
    "system/init": Sample(init(), ("session_started",)),
    "assistant: text": Sample(assistant(text("hello")), ("text_set",)),
    "assistant: thinking": Sample(assistant({"type": "thinking", "thinking": "hm"}), ("thinking_delta",)),
    "assistant: redacted_thinking": Sample(assistant({"type": "redacted_thinking", "data": "x"})),
    "assistant: tool_use": Sample(assistant(tool_use(id="t2", command="ls")), STARTED),
    "assistant: server_tool_use": Sample(
        assistant({"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "q"}}),
        STARTED,
    ),
    "assistant: web_search_tool_result": Sample(
        assistant({"type": "web_search_tool_result", "tool_use_id": "t1", "content": []}), FINISHED
    ),
    "assistant: image": Sample(assistant(IMAGE), ("media_produced",)),
    "assistant, with an error": Sample(
        assistant(text("API Error: 500"), error="server_error", is_api_error_message=True)
    ),
    "user: tool_result": Sample(user(tool_result()), FINISHED),
    "user: tool_result with an image": Sample(
        user(tool_result([text("caption"), IMAGE]), tool_use_result=[IMAGE]),
        ("media_produced", "tool_finished"),
    ),
    "user: text": Sample(user(text("[Request interrupted by user]"))),
    "user, replayed": Sample(user(text("what a person said"), IMAGE, isReplay=True)),
    "user, synthetic: cut off": Sample(
        user(text("Your response above was cut off mid-stream. Resume"), isSynthetic=True), NOTED
    ),
    "stream_event/message_start": Sample(stream("message_start", message={"id": "m2"})),
    "stream_event/content_block_start": Sample(
        stream("content_block_start", index=0, content_block={"type": "text", "text": ""})
    ),
    "stream_event/content_block_start: image": Sample(
        stream("content_block_start", index=0, content_block=IMAGE), ("media_produced",)
    ),
    "stream_event/content_block_delta: text_delta": Sample(
        delta(type="text_delta", text="he"), ("text_delta",)
    ),
    "stream_event/content_block_delta: thinking_delta": Sample(
        delta(type="thinking_delta", thinking="h"), ("thinking_delta",)
    ),
    "stream_event/content_block_delta: input_json_delta": Sample(
        delta(type="input_json_delta", partial_json="{")
    ),
    "stream_event/content_block_delta: signature_delta": Sample(delta(type="signature_delta", signature="s")),
    "stream_event/content_block_stop": Sample(stream("content_block_stop", index=0)),
    "stream_event/message_delta": Sample(
        stream("message_delta", delta={"stop_reason": "end_turn"}, usage={})
    ),
    "stream_event/message_stop": Sample(stream("message_stop")),
    "result/success": Sample(result(), ENDED),
    "result/error_during_execution": Sample(
        result(
            "error_during_execution",
            is_error=True,
            errors=["[ede_diagnostic] x"],
            terminal_reason="aborted_tools",
        ),
        ENDED,
    ),
    "result/error_max_turns": Sample(result("error_max_turns", is_error=True, errors=["Reached"]), ENDED),
    "result/error_max_budget_usd": Sample(
        result("error_max_budget_usd", is_error=True, errors=["Reached"]), ENDED
    ),
    "result: permission_denials": Sample(
        result(
            permission_denials=[{"tool_name": "Bash", "tool_use_id": "t9", "tool_input": {"command": "rm"}}]
        ),
        ("notice", "turn_ended"),
    ),
    "result: array with an image": Sample(
        result(result=[text("a"), IMAGE]), ("media_produced", "turn_ended")
    ),
    "system/status: requesting": Sample(system("status", status="requesting")),
    "system/status: compacting": Sample(system("status", status="compacting"), NOTED),
    "system/status: permissionMode": Sample(system("status", status=None, permissionMode="plan"), NOTED),
    "system/api_retry": Sample(
        system(
            "api_retry", attempt=1, max_retries=3, retry_delay_ms=518.2, error_status=None, error="unknown"
        ),
        NOTED,
    ),
    "system/model_fallback": Sample(system("model_fallback", original_model="a", fallback_model="b"), NOTED),
    "system/permission_denied": Sample(
        system("permission_denied", tool_name="Bash", tool_use_id="t1", message="no"), NOTED
    ),
    "system/thinking_tokens": Sample(system("thinking_tokens", estimated_tokens=5)),
    "system/compact_boundary": Sample(
        system("compact_boundary", compact_metadata={"trigger": "auto"}), NOTED
    ),
    "system/task_started": Sample(
        system("task_started", task_id="k", description="d", is_backgrounded=False)
    ),
    "system/task_started, in the background": Sample(
        system("task_started", task_id="k", description="d", is_backgrounded=True), NOTED
    ),
    "system/task_progress": Sample(
        system("task_progress", tool_use_id="t1", description="Running"), ("tool_updated",)
    ),
    "system/task_updated": Sample(system("task_updated", task_id="k", patch={"status": "completed"})),
    "system/task_notification": Sample(
        system("task_notification", task_id="k", status="completed", summary="s")
    ),
    "system/task_notification, of one in the background": Sample(
        system("task_notification", task_id="k0", status="completed", summary="s"), NOTED
    ),
    "system/background_tasks_changed": Sample(system("background_tasks_changed", tasks=[{"task_id": "k"}])),
    "system/hook_started": Sample(system("hook_started", hook_id="h", hook_name="n", hook_event="e")),
    "system/hook_response": Sample(system("hook_response", hook_name="n", outcome="success", exit_code=0)),
    "system/hook_response, failed": Sample(
        system("hook_response", hook_name="n", outcome="error", exit_code=2, stderr="no"), NOTED
    ),
    "system/informational": Sample(system("informational", content="stopped", level="notice"), NOTED),
    "system/session_state_changed": Sample(system("session_state_changed", state="idle")),
    "system/session_title_changed": Sample(system("session_title_changed", title="t")),
    "system/ui_invalidate": Sample(system("ui_invalidate", event="e")),
    "tool_progress": Sample(line("tool_progress", tool_use_id="t1-heartbeat-0", parent_tool_use_id="t1")),
    "rate_limit_event: allowed": Sample(line("rate_limit_event", rate_limit_info={"status": "allowed"})),
    "rate_limit_event": Sample(
        line("rate_limit_event", rate_limit_info={"status": "allowed_warning", "utilization": 0.9}), NOTED
    ),
    "command_lifecycle": Sample(line("command_lifecycle", command_uuid="c", state="queued")),
    "conversation_reset": Sample(line("conversation_reset", new_conversation_id="n", trigger="clear")),
    "control_request/can_use_tool": Sample(
        request("can_use_tool", tool_name="Bash", input={"command": "ls"}), ("asked",)
    ),
    "control_request/hook_callback": Sample(request("hook_callback", callback_id="gate", input={})),
    "control_request/mcp_message": Sample(request("mcp_message", server_name="s", message={})),
    "control_response/success": Sample(
        line("control_response", response={"subtype": "success", "request_id": "r"})
    ),
    "control_response/error": Sample(
        line("control_response", response={"subtype": "error", "request_id": "r", "error": "no"})
    ),
    "control_cancel_request": Sample(line("control_cancel_request", request_id="r0"), ("ask_changed",)),
    "keep_alive": Sample(line("keep_alive")),
    "image": Sample(json.dumps(IMAGE).encode(), ("media_produced",)),
    "content_block_start: image": Sample(
        line("content_block_start", content_block=IMAGE), ("media_produced",)
    ),
    "anything else": Sample(line("telepathy", thought=1), NOTED),
    "a block of another kind": Sample(assistant(text("a"), {"type": "hologram"}), ("notice", "text_set")),
    "no JSON": Sample(b"Segmentation fault", NOTED),
}
