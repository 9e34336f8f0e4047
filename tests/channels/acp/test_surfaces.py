"""One session on two surfaces: an editor and a program with its own interface see the same turns and share their asks."""

from __future__ import annotations

import json
from pathlib import Path

from tests.channels.acp.client_rig import SCRIPT, Client, write_home
from tests.channels.rpc.client_rig import Client as RpcClient


def test_the_first_answer_closes_an_ask_everywhere_and_turns_show_live_on_both(tmp_path: Path) -> None:
    write_home(tmp_path, SCRIPT)
    with Client(tmp_path) as editor:
        editor.initialize()
        session = editor.new()
        prompt = editor.prompt(session, "approve this")
        asked = editor.until(lambda frame: frame.get("method") == "session/request_permission")
        with RpcClient(tmp_path) as program:
            program.initialize()
            listed = program.call("session.list")["result"]["sessions"]
            assert [(row["session_id"], row["channel"]) for row in listed] == [(session, "acp")]
            program.ask("session.history", session_id=session)
            shown = program.until(lambda frame: frame.get("method") == "ui.confirm.request")
            answer = {"jsonrpc": "2.0", "id": shown["id"], "result": {"ok": True}}
            program.write(json.dumps(answer).encode() + b"\n")
            closed = editor.until(lambda frame: frame.get("method") == "$/cancel_request")
            assert closed["params"] == {"requestId": asked["id"]}
            assert editor.until_answer(prompt)["result"] == {"stopReason": "end_turn"}
            run = program.until(lambda frame: frame.get("method") == "run.status")["params"]["run_id"]
            assert program.end_of(run) == "completed"
            other = program.start("hello", session_id=session)
            assert program.end_of(other["run_id"]) == "completed"
            editor.until(lambda frame: "heard: hello" in str(frame))
            assert editor.text("user_message_chunk") == "hello"
