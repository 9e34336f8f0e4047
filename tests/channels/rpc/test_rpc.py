"""`pilothouse rpc` whole, by its table of requirements: those that do not depend on the engine."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.channels.rpc.client_rig import Client, Frame, write_home
from tests.channels.rpc.rules import rule

from pilothouse.channels.stdio_frames import MAX_FRAME_BYTES


@pytest.fixture
def home(tmp_path: Path) -> Path:
    write_home(tmp_path)
    return tmp_path


@pytest.fixture
def client(home: Path) -> Iterator[Client]:
    with Client(home) as client:
        client.initialize()
        yield client


def methods(frames: list[Frame]) -> list[str]:
    return [frame.get("method", "answer") for frame in frames]


def code(answer: Frame) -> int:
    return answer["error"]["code"]


@rule("R01", "R02")
def test_a_client_must_introduce_itself_and_bad_frames_are_answered(home: Path) -> None:
    with Client(home) as client:
        assert code(client.call("session.list")) == -32600
        wrong = client.call("initialize", protocol_version="9")
        assert code(wrong) == -32008 and wrong["error"]["data"] == {"protocol_version": "0"}
        assert code(client.call("initialize")) == -32602
        assert client.initialize()["result"]["protocol_version"] == "0"
        client.write(b'{"broken\n{"jsonrpc":"2.0","id":null,"method":"nope"}\n\xff\n[]\n\n')
        found = [client.until(lambda frame: "error" in frame) for _ in range(4)]
        assert sorted(map(code, found)) == [-32700, -32700, -32601, -32600]
        client.write(b'{"x":"' + b"x" * MAX_FRAME_BYTES + b'"}\n')
        assert "at most 67108864" in client.until(lambda frame: "error" in frame)["error"]["message"]
        client.send("no.such.notification")
        assert code(client.call("run.start", input={"type": "text"})) == -32602
        assert code(client.call("run.cancel", run_id="nope")) == -32002
        assert code(client.call("session.history", session_id="nope")) == -32004
        assert code(client.call("session.history", session_id="x", max_runs=-1)) == -32602
        for id in ("text", 7, -1.5):
            client.send("session.list", {}, id)
            assert client.until(lambda frame, id=id: frame.get("id") == id)["result"]["sessions"] == []


@rule("R25")
def test_frames_of_every_shape_are_answered_and_the_next_one_works(client: Client) -> None:
    def answer_to(frame: bytes) -> Frame:
        client.write(frame + b"\n")
        return client.until(lambda frame: "method" not in frame)

    def request(rest: str) -> Frame:
        return answer_to(f'{{"jsonrpc":"2.0",{rest}}}'.encode())

    listing = '"method":"session.list"'
    for id in ('"a"', "7", "-1.5", "1e3", "null", '""', '"\\u00e9"', "123456789012345678901234567890"):
        told = request(f'"id":{id},{listing}')
        assert told["id"] == json.loads(id) and told["result"]["sessions"] == []
    for id in ("true", "false", "[1]", '{"a":1}'):
        told = request(f'"id":{id},{listing}')
        assert (told["id"], code(told)) == (None, -32600)
    for params in ("[]", "7", '"x"', "true", '{"limit":"x"}', '{"scope":"none"}', '{"limit":1e999}'):
        assert code(request(f'"id":1,{listing},"params":{params}')) in (-32602, -32700)
    assert request(f'"id":1,{listing},"params":null')["result"]["sessions"] == []
    assert code(request('"id":1,"method":7')) == -32600
    assert code(request('"id":1')) == -32600
    assert code(request('"id":1e999,"result":{}')) == -32600
    assert code(answer_to(b'{"id":1,"method":"session.list"}')) == -32600
    assert code(answer_to(b'{"jsonrpc":"2.0","id":1,"method":"\xff"}')) == -32700
    for text in ("a\\ud800b", "\\udc00"):
        told = request(
            f'"id":"half","method":"run.start","params":{{"input":{{"type":"text","text":"{text}"}}}}'
        )
        assert (told["id"], code(told)) == ("half", -32602)
    assert code(request('"id":"ui_1","result":{"value":"\\ud800"}')) == -32700
    deep = "[" * 100_000
    assert code(request(f'"id":1,{listing},"params":{{"limit":{deep}{deep.replace("[", "]")}}}')) <= -32600
    head, tail = b'{"jsonrpc":"2.0","id":"big","method":"session.list","params":{"pad":"', b'"}}'
    told = answer_to(head + b"x" * (MAX_FRAME_BYTES - len(head) - len(tail)) + tail)
    assert told["id"] == "big" and told["result"]["sessions"] == []
    half = b'{"jsonrpc":"2.0","id":"half",'
    client.write(half)
    client.write(b'"method":"session.list"}\n' + half)
    assert client.until(lambda frame: frame.get("id") == "half")["result"]["sessions"] == []
    client.close()
    assert client.program.wait(60) == 0


@rule("R03", "R04", "R05", "R10", "R15")
def test_a_run_with_a_confirm_is_ordered_and_replayed_with_the_same_numbers(client: Client) -> None:
    client.answers["ui.confirm.request"] = {"ok": True}
    began = len(client.frames)
    run = client.start("approve this")
    assert client.end_of(run["run_id"]) == "completed"
    kinds = [kind for _, kind in client.events(run["run_id"])]
    tool = ["step_start", "tool_call", "tool_result", "step_complete"]
    assert kinds == ["text", *tool, "permission.preview", "permission.ready", *tool, "final"]
    assert client.contents(run["run_id"], "final") == ["Done."]
    told = [
        frame["params"].get("status") or frame["params"].get("event", {}).get("type") or frame["method"]
        for frame in client.frames[began + 1 :]
    ]
    ready = told.index("permission.ready")
    assert told[0] == "running" and told[-1] == "completed"
    assert told[ready : ready + 4] == ["permission.ready", "awaiting_ui", "ui.confirm.request", "running"]
    live = client.events(run["run_id"])
    second = client.start("hello", session_id=run["session_id"])
    client.end_of(second["run_id"])
    client.frames.clear()
    history = client.call("session.history", session_id=run["session_id"])["result"]
    assert client.events(run["run_id"]) == [(-1, "hidden_user_message"), *live]
    assert history["run_states"][0] == {"run_id": run["run_id"], "status": "completed"}
    assert (history["runs"], history["truncated"]) == (2, False)
    client.frames.clear()
    tail = client.call("session.history", session_id=run["session_id"], max_events=2)["result"]
    assert (tail["events_sent"], tail["truncated"]) == (2, True)
    assert client.events(second["run_id"]) == [(0, "reasoning"), (1, "final")]
    other = client.start("elsewhere")
    client.end_of(other["run_id"])
    listed = client.call("session.list")["result"]["sessions"]
    assert [row["session_id"] for row in listed] == [other["session_id"], run["session_id"]]
    assert listed[1]["last_user_message"] == "hello" and listed[1]["message_count"] == 2


@rule("R06", "R07")
def test_dialogs_decide(client: Client) -> None:
    client.answers |= {
        "ui.confirm.request": {"ok": False, "reason": "not today"},
        "ui.pick.request": lambda frame: {"ids": [frame["params"]["items"][1]["id"]]},
        "ui.prompt.request": {"value": "Ada"},
    }
    for text, answer in (("approve", "No: not today"), ("colour", "Blue it is"), ("name", "Ada it is")):
        run = client.start(text)
        assert client.end_of(run["run_id"]) == "completed"
        assert client.contents(run["run_id"], "final")[0].endswith(answer)
    client.answers["ui.confirm.request"] = {"ok": False}
    run = client.start("approve")
    assert client.end_of(run["run_id"]) in ("cancelled", "completed")
    assert client.contents(run["run_id"], "final") in ([], [""])


@rule("R08", "R09")
def test_cancel_ends_a_run_wherever_it_is_and_the_next_one_works(client: Client) -> None:
    for text, dialog in (
        ("wait", ""),
        ("approve", "ui.confirm.request"),
        ("colour", "ui.pick.request"),
        ("name", "ui.prompt.request"),
    ):
        run = client.start(text)
        wanted = dialog or "agent.event"
        shown = client.until(lambda frame, wanted=wanted: frame.get("method") == wanted)
        busy = client.call("run.start", input={"type": "text", "text": "x"}, session_id=run["session_id"])
        assert code(busy) == -32001
        client.send("run.cancel", {"run_id": run["run_id"]}, "stop")
        assert client.end_of(run["run_id"]) == "cancelled"
        told = methods(client.frames)
        if dialog:
            closed = [frame for frame in client.frames if frame.get("method") == "ui.request.cancel"]
            assert closed[-1]["params"]["id"] == shown["id"], told
        kinds = [kind for _, kind in client.events(run["run_id"])]
        assert kinds.count("tool_call") == kinds.count("tool_result")
        after = client.start("hello", session_id=run["session_id"])
        assert client.end_of(after["run_id"]) == "completed"


@rule("R13", "R14", "R16", "R19", "R20")
def test_requests_about_the_folder(home: Path) -> None:
    work = home / "work"
    skill = work / ".agents" / "skills" / "tidy"
    skill.mkdir(parents=True)
    (work / ".git").mkdir()
    (work / ".pilothouse.toml").write_text('[mcp.servers.own]\ncommand = "cat"\n')
    with (home / "config.toml").open("a") as config:
        config.write('[mcp.servers.hub]\nurl = "http://127.0.0.1:9/"\n')
    (work / "AGENTS.md").write_text("Be brief.")
    (skill / "SKILL.md").write_text("---\nname: tidy\ndescription: Tidies up.\n---\nDo it.\n")
    (home / "elsewhere").symlink_to(home)
    (work / "link").symlink_to(home)
    with Client(home) as client:
        client.initialize()
        answer = client.call("auth.logout")
        assert code(answer) == -32007 and answer["error"]["data"]["type"] == "unsupported"
        listed = {row["id"]: row["state"] for row in client.call("mcp.list")["result"]["servers"]}
        assert listed == {"hub": "configured", "own": "untrusted"}
        assert code(client.call("tool.call", name="bash")) == -32007
        forced = client.call("run.start", force_compaction=True)
        assert code(forced) == -32007
        told = client.call("shell.exec", command="pwd; echo no >&2; exit 3")["result"]
        assert (told["stdout"], told["stderr"], told["exit_code"]) == (f"{work}\n", "no\n", 3)
        long = client.call("shell.exec", command="seq 1000")["result"]
        assert long["truncated"]["stdout"] and "500" not in long["stdout"].split("\n")
        kept = {"ref": long["stdout_cache_id"], "offset": 499, "limit": 1}
        assert client.call("tool.call", name="tool_output_cache", arguments=kept)["result"]["result"] == "500"
        for outside in ("..", "link", "/"):
            assert code(client.call("shell.exec", command="pwd", cwd=outside)) == -32602
        slow = client.call("shell.exec", command="sleep 600", timeout_seconds=0.05)["result"]
        assert "longer than" in slow["problem"]
        assert client.call("theme.set", name="dark")["result"]["name"] == "dark"
        assert client.initialize()["result"]["tui"] == {"theme": "dark"}
        found = client.call("skills.list")["result"]
        assert [(one["name"], one["scope"]) for one in found["skills"]] == [("tidy", "repo")]
        context = client.call("context.inspect", include_agents=True)["result"]
        agents = context["agents"]
        assert [one["path"] for one in agents["initial_files"]] == [str(work / "AGENTS.md")]
        assert agents["enabled"] and agents["covered_dirs"][-1] == str(work) and not agents["loaded_files"]
        catalog = client.call("context.inspect", include_skills=True)["result"]["skills"]["catalog"]
        assert catalog == found
        tools = [{"name": "mine", "description": "d"}]
        hello = {"type": "text", "text": "hello"}
        assert code(client.call("run.start", input=hello, tools=tools)) == -32007
        assert code(client.call("run.start", input=hello, tool_choice="required")) == -32007
        png = "data:image/png;base64,iVBORw0KGgo="
        for url in ("https://example.com/a.png", "data:text/html;base64,aGk=", "data:image/png;base64,*"):
            parts = [{"type": "image_url", "image_url": {"url": url}}]
            assert code(client.call("run.start", input={"type": "parts", "parts": parts})) == -32602
        parts = [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": png}}]
        run = client.call("run.start", input={"type": "parts", "parts": parts})["result"]
        client.end_of(run["run_id"])
        assert client.contents(run["run_id"], "final")[0].startswith("heard: look")


@rule("R26")
def test_values_that_no_program_can_use_are_refused_and_running_turns_go_on(client: Client) -> None:
    client.answers["ui.confirm.request"] = {"ok": True}
    run = client.start("wait")
    client.until(lambda frame: frame.get("method") == "agent.event")
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVé="}}
    assert code(client.call("run.start", input={"type": "parts", "parts": [image]})) == -32602
    for cwd in ("a\0b", "x" * 5000):
        assert code(client.call("skills.list", cwd=cwd)) == -32602
        assert code(client.call("shell.exec", command="pwd", cwd=cwd)) == -32602
    assert client.call("session.list")["result"]["sessions"]
    client.send("run.cancel", {"run_id": run["run_id"]}, "stop")
    assert client.end_of(run["run_id"]) == "cancelled"


@rule("R24")
def test_the_clipboard_is_asked_for_and_checked(client: Client) -> None:
    asking = {"type": "clipboard"}

    def start(*parts: object) -> Frame:
        return client.call("run.start", input={"type": "parts", "parts": parts})

    assert code(start(asking)) == -32602
    client.initialize(supports_clipboard_read=True)
    png = {"type": "image", "media_type": "image/png", "data_url": "data:image/png;base64,iVBORw0KGgo="}
    held = [{"type": "text", "text": "pasted words", "bytes": 12}, png]
    client.answers["ui.clipboard.read"] = {"ok": True, "items": held}
    run = start({"type": "text", "text": "see:"}, asking)["result"]
    client.end_of(run["run_id"])
    assert client.contents(run["run_id"], "final")[0].startswith("heard: see:\npasted words")
    assert code(start({**asking, "formats": ["text/plain"]})) == -32000
    for answer, wanted in (
        ({"ok": False, "cancelled": True}, -32003),
        ({"ok": False, "error": "no display"}, -32000),
        ({"ok": True}, -32000),
        ({"items": "x"}, -32000),
    ):
        client.answers["ui.clipboard.read"] = answer
        assert code(start(asking)) == wanted


@rule("R17", "R18")
def test_a_client_that_stops_reading_loses_nothing_and_one_that_leaves_is_not_missed(tmp_path: Path) -> None:
    tools = ", ".join(f'{{ tool = "read", title = "{n}", output = "{"x" * 1000}" }}' for n in range(400))
    write_home(
        tmp_path,
        f'[[turn]]\nmatch = "many"\nsteps = [ {tools}, {{ say = "done" }} ]\n[[turn]]\nsteps = [ {{ tool = "command", title = "sleep", for_s = 600 }} ]\n',
    )
    with Client(tmp_path, "--on-disconnect", "cancel", PILOTHOUSE_DIAGNOSTICS="1") as client:
        client.initialize()
        run = client.start("many")
        with closing(sqlite3.connect(tmp_path / "pilothouse.db")) as store:
            while store.execute("SELECT count(*) FROM turns WHERE status = 'done'").fetchone() != (1,):
                time.sleep(0.05)
        assert client.end_of(run["run_id"]) == "completed"
        assert [seq for seq, _ in client.events(run["run_id"])] == list(range(4 * 400 + 1))
        figures = next(frame["params"] for frame in client.frames if frame.get("method") == "run.diagnostics")
        assert figures["summary"]["events"] == 4 * 400 + 1 and figures["kind"] == "run_summary"
        client.start("wait")
        client.until(lambda frame: frame.get("method") == "agent.event")
        client.close()
        assert client.program.wait(60) == 0
        with closing(sqlite3.connect(tmp_path / "pilothouse.db")) as store:
            rows = store.execute("SELECT status FROM turns ORDER BY created_at").fetchall()
        assert rows == [("done",), ("cancelled",)]


@rule("R18")
def test_a_run_that_is_the_last_line_of_the_input_is_stored_and_ends(tmp_path: Path) -> None:
    write_home(tmp_path)
    with Client(tmp_path) as client:
        client.ask("initialize", protocol_version="0", ui_capabilities={})
        client.ask("run.start", input={"type": "text", "text": "hello"})
        client.close()
        assert client.program.wait(60) == 0
    with closing(sqlite3.connect(tmp_path / "pilothouse.db")) as store:
        assert store.execute("SELECT status FROM turns").fetchall() == [("done",)]
