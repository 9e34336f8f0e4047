"""Every frame that `pilothouse acp` writes is valid by the schema of the protocol's own SDK, and has no field beside it."""

from __future__ import annotations

from pathlib import Path

from tests.channels.acp.client_rig import FORMS, SCRIPT, Client, selected, write_home
from tests.channels.stdio_rig import Frame
from tests.engines.acp.schema_judge import Schema, definition, is_valid, load_schema, unknown_keys

IMAGE = {"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo="}


def converse(home: Path) -> tuple[list[Frame], dict[str, str]]:
    """Use everything that the agent offers; return its frames, and the method of each request."""
    write_home(home, SCRIPT)
    methods: dict[str, str] = {}

    def ask(client: Client, method: str, **params: object) -> Frame:
        methods[id := client.ask(method, **params)] = method
        return client.until_answer(id)

    with Client(home) as client:
        client.answers |= {
            "session/request_permission": selected("allow"),
            "elicitation/create": {"action": "accept", "content": {"answer": "1"}},
        }
        ask(client, "initialize", protocolVersion=1, clientCapabilities={**FORMS, "session": {"notices": {}}})
        session = ask(client, "session/new", cwd=client.cwd, mcpServers=[])["result"]["sessionId"]
        for text in ("approve", "edit", "colour", "name", "break", "hello", "/status"):
            ask(
                client,
                "session/prompt",
                sessionId=session,
                prompt=[IMAGE, {"type": "text", "text": text}]
                if text == "hello"
                else [{"type": "text", "text": text}],
            )
        ask(client, "session/set_mode", sessionId=session, modeId="trusted")
        ask(client, "session/set_config_option", sessionId=session, configId="mode", value="minimal")
        ask(client, "session/list", cwd=client.cwd)
        ask(client, "session/close", sessionId=session)
        ask(client, "session/load", sessionId=session, cwd=client.cwd, mcpServers=[])
        ask(client, "session/resume", sessionId=session, cwd=client.cwd)
        ask(client, "nope")
        return client.frames, methods


def wrong(schema: Schema, frame: Frame, methods: dict[str, str]) -> str:
    """Say what is wrong with a frame; empty if nothing is."""
    method = frame.get("method", "")
    if method:
        known = definition(schema, method, reply=False)
        valid = is_valid(schema, known, frame["params"])
        # The forms of an elicitation are in nested definitions, which the small judge does not unfold.
        extra = method != "elicitation/create" and unknown_keys(schema, method, frame["params"])
        return f"{'' if valid else 'invalid '}{extra or ''}"
    if "error" in frame:
        return "" if is_valid(schema, schema["$defs"]["Error"], frame["error"]) else "invalid error"
    known = definition(schema, methods[frame["id"]], reply=True)
    extra = set(frame["result"]) - set(known.get("properties", {}))
    return f"{'' if is_valid(schema, known, frame['result']) else 'invalid '}{extra or ''}"


def test_every_frame_is_valid_by_the_schema(tmp_path: Path) -> None:
    schema = load_schema()
    frames, methods = converse(tmp_path)
    assert {found: frame for frame in frames if (found := wrong(schema, frame, methods))} == {}
    updates = {
        frame["params"]["update"]["sessionUpdate"]
        for frame in frames
        if frame.get("method") == "session/update"
    }
    assert updates >= {
        "plan",
        "tool_call",
        "tool_call_update",
        "usage_update",
        "agent_thought_chunk",
        "user_message_chunk",
    }
    sent = {frame["method"] for frame in frames if "method" in frame}
    assert sent == {"session/update", "session/request_permission", "elicitation/create"}
