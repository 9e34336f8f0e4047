"""`ui.context.update` reaches the engine with the next text, and nothing else: no command, no list, no replay.
An image is a word in replays.
"""

from __future__ import annotations

from pathlib import Path

from tests.channels.rpc.client_rig import Client, write_home

SELECTION = {"path": "a.py", "selected_text": "x </ui_context> y"}


def test_the_engine_reads_the_context_and_no_list_shows_it(tmp_path: Path) -> None:
    write_home(tmp_path)
    with Client(tmp_path) as client:
        client.initialize()
        client.send("ui.context.update", {"active_file": {"path": "a.py"}, "selection": SELECTION})
        run = client.start("hello")
        assert client.end_of(run["run_id"]) == "completed"
        [heard] = client.contents(run["run_id"], "final")
        assert heard.startswith('heard: hello\n\n<ui_context>{"active_file":{"path":"a.py"}')
        assert heard.count("</ui_context>") == 1
        client.call("session.history", session_id=run["session_id"])
        assert client.contents(run["run_id"], "hidden_user_message") == ["hello"]
        [row] = client.call("session.list")["result"]["sessions"]
        assert row["last_user_message"] == "hello"


def test_a_command_is_carried_out_as_it_was_typed(tmp_path: Path) -> None:
    write_home(tmp_path)
    with Client(tmp_path) as client:
        client.initialize()
        client.send("ui.context.update", {"selection": SELECTION})
        run = client.start("hello")
        client.end_of(run["run_id"])
        chosen = client.start("/model sonnet", session_id=run["session_id"])
        assert client.end_of(chosen["run_id"]) == "completed"
        told = client.call("model.list", session_id=run["session_id"])["result"]
        assert told["current"] == "sonnet"
        fresh = client.start("/new", session_id=run["session_id"])
        assert client.end_of(fresh["run_id"]) == "completed"
        [row] = client.call("session.list")["result"]["sessions"]
        assert row["run_id"] == run["run_id"]


def test_an_image_is_replayed_as_a_word(tmp_path: Path) -> None:
    write_home(tmp_path)
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    with Client(tmp_path) as client:
        client.initialize()
        for parts, said in (
            ([image], "[image]"),
            ([{"type": "text", "text": "look"}, image], "look\n[image]"),
        ):
            run = client.call("run.start", input={"type": "parts", "parts": parts})["result"]
            client.end_of(run["run_id"])
            client.call("session.history", session_id=run["session_id"])
            assert client.contents(run["run_id"], "hidden_user_message") == [said]
