"""An editor's prompt with a permission in it, with our own engine and the real Claude Code behind `pilothouse acp`."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.channels.acp.client_rig import Client, selected
from tests.channels.rpc.engine_houses import open_house
from tests.engines.acp.schema_judge import definition, is_valid, load_schema

PERMISSION = "session/request_permission"


@pytest.mark.parametrize("engine", ["native", "claude"])
def test_a_permission_is_about_the_call_that_the_editor_shows(engine: str, tmp_path: Path) -> None:
    schema = load_schema()
    with open_house(engine, tmp_path) as house, Client(house.home, **house.environ) as client:
        client.initialize()
        session = client.new()
        client.answers[PERMISSION] = selected("allow")
        assert client.say(session, "approve this") == {"stopReason": "end_turn"}
        assert client.text() == "Let me look." + "Done."
        asked = next(frame["params"] for frame in client.frames if frame.get("method") == PERMISSION)
        shown = client.updates("tool_call")
        assert [one["toolCallId"] for one in shown] == [asked["toolCall"]["toolCallId"]]
        assert (shown[0]["kind"], shown[0]["rawInput"]["command"]) == ("execute", "touch made")
        assert client.updates("tool_call_update")[-1]["status"] == "completed"
        assert (tmp_path / "work" / "made").exists()
        client.answers[PERMISSION] = selected("deny")
        assert client.say(session, "approve that")["stopReason"] in ("cancelled", "end_turn")
        assert client.say(session, "hello") == {"stopReason": "end_turn"}
        for frame in client.frames:
            if "method" in frame:
                assert is_valid(schema, definition(schema, frame["method"], reply=False), frame["params"])
        window = client.updates("usage_update")[-1]
        assert 0 < window["used"] < window["size"]
