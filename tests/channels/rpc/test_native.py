"""What the native engine gives a client beside its runs: its tools, its logins, and the figures of its model calls."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.channels.rpc.client_rig import Client
from tests.channels.rpc.engine_houses import House, open_house
from tests.channels.rpc.rules import rule

CONFIRM = "ui.confirm.request"
MODE = ("--approval-mode", "minimal")


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with open_house("native", tmp_path) as house:
        yield house


@rule("R21")
def test_a_tool_is_called_by_the_rules_of_the_folder_and_no_model_is_asked(house: House) -> None:
    work = house.home / "work"
    (work / "notes.txt").write_text("one\ntwo\n")
    with (house.home / "config.toml").open("a") as config:
        config.write('[policy]\nrules = ["deny command curl"]\n')
    with Client(house.home, *MODE, **house.environ) as client:
        client.initialize()

        def call(name: str, **arguments: object) -> tuple[bool, str]:
            told = client.call("tool.call", name=name, arguments=arguments)["result"]
            return told["ok"], told["result"]

        ok, text = call("read", file_path="notes.txt")
        assert ok and "two" in text
        assert not any(frame.get("method") == CONFIRM for frame in client.frames)
        client.answers[CONFIRM] = {"ok": True}
        assert call("bash", command="touch made")[0] and (work / "made").exists()
        assert any(frame.get("method") == CONFIRM for frame in client.frames)
        client.answers[CONFIRM] = {"ok": False}
        refused = client.call("tool.call", name="bash", arguments={"command": "touch never"})
        assert refused["error"]["code"] == -32003
        client.answers[CONFIRM] = {"ok": False, "reason": "not today"}
        assert "not today" in call("bash", command="touch never")[1] and not (work / "never").exists()
        denied = call("bash", command="curl http://127.0.0.1:9/")
        assert not denied[0] and "command curl" in denied[1]
        assert "There is no tool" in call("no_such")[1]
        assert "is wrong" in call("read", file_path=7)[1]
        assert client.call("tool.call", name="a b")["error"]["code"] == -32602
        del client.answers[CONFIRM]
        client.send("tool.call", {"name": "bash", "arguments": {"command": "touch later"}}, "slow")
        asked = client.until(lambda frame: frame.get("method") == CONFIRM)
        run_id = asked["params"]["run_id"]
        assert client.call("run.cancel", run_id=run_id)["result"]["ok"]
        assert client.until(lambda frame: frame.get("id") == "slow")["error"]["code"] == -32003
        assert call("read", file_path="notes.txt")[0]
        assert [row["message_count"] for row in client.call("session.list")["result"]["sessions"]] == [9]
    assert house.model is not None and house.model.requests == []


@rule("R21", "R23")
def test_a_tool_of_a_session_is_not_in_what_its_model_reads(house: House) -> None:
    """The call sees the session's folder, and a busy session is refused."""
    with Client(house.home, *MODE, PILOTHOUSE_DIAGNOSTICS="1", **house.environ) as client:
        client.initialize()
        client.answers[CONFIRM] = {"ok": True}
        run = client.start("approve")
        assert client.end_of(run["run_id"]) == "completed"
        told = [frame["params"] for frame in client.frames if frame.get("method") == "run.diagnostics"]
        assert [one["kind"] for one in told] == ["llm_call", "llm_call", "run_summary"]
        assert [one["call"]["seq"] for one in told[:2]] == [1, 2]
        first, sums = told[0]["call"], told[2]["summary"]
        assert (first["provider"], first["model"]) == ("anthropic", "scripted")
        assert first["usage"]["total_tokens"] and first["request_ts"] <= first["response_ts"]
        assert sums["total_calls"] == 2 and sums["by_model"]["anthropic/scripted"]["calls"] == 2
        assert sums["total_tokens"] == sum(one["call"]["usage"]["total_tokens"] for one in told[:2])
        arguments = {"command": "echo unheard"}
        call = client.call("tool.call", name="bash", arguments=arguments, session_id=run["session_id"])
        assert call["result"]["result"].startswith("unheard")
        assert call["result"]["session_id"] == run["session_id"]
        again = client.start("hello", session_id=run["session_id"])
        assert client.end_of(again["run_id"]) == "completed"
        busy = client.start("wait", session_id=run["session_id"])
        client.until(lambda frame: frame.get("method") == "agent.event")
        refused = client.call("tool.call", name="read", session_id=run["session_id"])
        assert refused["error"]["code"] == -32001
        assert client.call("auth.logout")["error"]["code"] == -32001
        client.call("run.cancel", run_id=busy["run_id"])
        client.end_of(busy["run_id"])
    assert house.model is not None
    assert "unheard" not in json.dumps(house.model.requests[-1].messages)


@rule("R22")
def test_a_logout_removes_kept_keys_after_a_confirm(house: House) -> None:
    with Client(house.home, *MODE, **house.environ) as client:
        client.initialize(supports_confirm=False)
        assert client.call("auth.logout")["error"]["code"] == -32000
        client.initialize()
        client.answers[CONFIRM] = {"ok": True}
        nothing = client.call("auth.logout")["result"]
        assert (nothing["ok"], nothing["auth_cleared"]) == (True, False)
        client.end_of(client.start("hello")["run_id"])
        keys = next(house.home.rglob("engines/native")) / "keys.json"
        keys.write_text(json.dumps({"keys": {"openai": "no-key-at-all"}, "provider": "openai"}))
        keys.chmod(0o600)
        client.answers[CONFIRM] = {"ok": False}
        refused = client.call("auth.logout")["result"]
        assert refused["cancelled"] and not refused["ok"] and "no-key-at-all" in keys.read_text()
        client.answers[CONFIRM] = {"ok": True}
        done = client.call("auth.logout", clear_session=False)["result"]
        assert (done["ok"], done["auth_cleared"], done["session_cleared"]) == (True, True, False)
        assert "openai" in done["message"] and "still used" in done["message"]
        assert keys.read_text() == "{}" and stat.S_IMODE(keys.stat().st_mode) == 0o600
