"""The specs: ready-made agents, an engine of a section, the program that is there or not; and the page that lists them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import msgspec
import pytest

from pilothouse.bootstrap.abilities import abilities_of
from pilothouse.bootstrap.configuration import engine_types
from pilothouse.core.call import Call
from pilothouse.core.event import EngineEvent, ResumeToken, TextDelta, TurnEnded, well_formed
from pilothouse.core.ids import EngineId
from pilothouse.engines.acp.agents import AGENTS, Agent
from pilothouse.engines.acp.asks import read_permission
from pilothouse.engines.acp.calls import call_of, merge
from pilothouse.engines.acp.config import AcpConfig
from pilothouse.engines.acp.failures import explain_error
from pilothouse.engines.acp.spec import ENGINE, is_found, named
from pilothouse.engines.acp.translate import TurnTranslator
from pilothouse.engines.acp.wire import Update
from pilothouse.engines.jsonrpc import Reply, Request, WireError
from pilothouse.plugins import Found, Group, Loaded, Plugins
from pilothouse.runtime.engine_report import EngineReport, state_line
from pilothouse.testing.engine import check_spec

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "engines" / "acp.md").read_text()
OURS = "pilothouse.engines.acp:ENGINE"


def find(group: Group) -> list[Found]:
    return [Found(name, OURS, "pilothouse") for name in ("acp", "gemini")] if group == "engines" else []


def test_every_agent_is_an_entry_point() -> None:
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"][
        "pilothouse.engines"
    ]
    assert {name for name, target in points.items() if target == OURS} == {"acp", *AGENTS}


def test_every_spec_is_one() -> None:
    for name in ("acp", *AGENTS):
        check_spec(named(name))
        assert named(name).id == name


def test_a_section_with_a_type_makes_an_engine_and_lists_a_ready_made_one(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(
        '[engines.mine]\ntype = "acp"\ncommand = ["/bin/cat"]\n[workspaces.x]\npath = "/x"\nengine = "gemini"\n'
    )
    plugins = Plugins(find)
    assert "mine" not in plugins.names("engines")
    plugins.declare(engine_types(file))
    spec = plugins.engine("mine")
    assert (spec.id, spec.title) == ("mine", "mine")
    assert spec.probe(AcpConfig(command=["/bin/cat"])).available
    listed = [row.name for row in plugins.engines() if isinstance(row, Loaded)]
    assert listed == ["gemini", "mine"]
    assert plugins.sections("engines") == dict.fromkeys(("acp", "gemini", "mine"), AcpConfig)


def test_a_ready_made_agent_is_listed_where_its_program_is() -> None:
    assert named("mine").is_found is None
    assert is_found(Agent("A", ("/bin/sh",)))
    assert not is_found(Agent("B", ("no-such-agent",)))


def test_a_missing_program_says_how_to_install_it() -> None:
    status = named("goose").probe(AcpConfig(command=["/nowhere/goose"]))
    assert (status.available, status.fix) == (False, "Correct engines.goose.command")
    assert "Name its program" in ENGINE.probe(AcpConfig()).fix


def test_a_program_for_another_machine_is_not_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in (("copilot", b"\x7fELF\x02\x01\x01" + bytes(60)), ("goose", b"#!/bin/sh\nexit 1\n")):
        (tmp_path / name).write_bytes(text)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    wrong, silent = (named(name).probe(AcpConfig()) for name in ("copilot", "goose"))
    assert (wrong.available, wrong.fix) == (False, "npm install -g @github/copilot")
    assert f"{tmp_path}/copilot does not run: Exec format error" in wrong.problem
    assert (silent.available, silent.note) == (True, "login not checked, full access only")
    report = EngineReport("goose", "goose", silent)
    assert state_line(report) == "ready · login not checked, full access only"
    vouched = named("goose").probe(AcpConfig(command=["/bin/cat"], asks_first=True))
    assert vouched.note == "login not checked"
    assert [abilities_of(named(name))["ask"] for name in ("acp", "gemini", "copilot")] == [
        "some",
        "yes",
        "some",
    ]


@pytest.mark.parametrize(
    ("kind", "given", "wanted"),
    [
        (
            "execute",
            {"command": ["bash", "-lc", "ls -l"]},
            Call("command", "t", "/w", "ls -l", shown=("command",)),
        ),
        ("execute", {"command": ["ls", "a b"]}, Call("command", "t", "/w", "ls 'a b'", shown=("command",))),
        (
            "execute",
            {"command": "ls", "cwd": "sub"},
            Call("command", "t", "/w/sub", "ls", shown=("command",)),
        ),
        ("execute", {"command": "ls", "commands": ["rm x"]}, Call("unreadable", "t", "/w")),
        ("execute", {"command": " "}, Call("unreadable", "t", "/w")),
        (
            "execute",
            {"command": "ls", "stdin": "x"},
            Call("tool", "t", "/w", input={"command": "ls", "stdin": "x"}),
        ),
        ("edit", {"content": "x"}, Call("unreadable", "t", "/w")),
        ("read", {"path": "a", "limit": 5}, Call("read", "t", "/w", paths=("a",))),
        ("read", {"path": "a", "shell": "x"}, Call("tool", "t", "/w", input={"path": "a", "shell": "x"})),
        ("search", {"pattern": "plum"}, Call("read", "t", "/w", paths=(".",), deep=True)),
        ("search", {"pattern": "../*"}, Call("tool", "t", "/w", input={"pattern": "../*"})),
        ("fetch", {"url": "https://a.org/x"}, Call("web", "t", "/w", host="a.org", url="https://a.org/x")),
        ("fetch", {"prompt": "read it"}, Call("tool", "t", "/w", input={"prompt": "read it"})),
        ("think", {}, Call("notes", "t", "/w")),
        ("other", {"x": 1}, Call("tool", "t", "/w", input={"x": 1})),
    ],
)
def test_a_call_is_read_only_where_all_of_it_is_understood(kind: str, given: object, wanted: Call) -> None:
    assert call_of({"tool": "t", "kind": kind, "input": given, "cwd": "/w"}) == wanted


def test_a_change_names_every_path() -> None:
    changes = [
        {"path": "/w/a", "oldText": "1", "newText": "2"},
        {"path": "/w/b", "oldText": None, "newText": "3"},
    ]
    call = call_of(
        {"tool": "t", "kind": "edit", "input": {"changes": changes}, "cwd": "/w", "paths": ["/etc/c"]}
    )
    assert call is not None
    assert call.change is not None
    assert call.paths == ("/w/a", "/w/b", "/etc/c")
    assert call.change.diff == "--- a\n+++ a\n@@ -1 +1 @@\n-1\n+2\n--- b\n+++ b\n@@ -0,0 +1 @@\n+3"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (WireError("Authentication required", -32000), "auth"),
        (WireError("Internal error: bad key", -32603), "auth"),
        (WireError("Internal error", -32603, {"errorKind": "server_error"}), "overloaded"),
        (WireError("Session nope not found", -32603), "stale_session"),
        (WireError("x", 429), "rate_limit"),
        (WireError("x", 500), "transport"),
        (WireError("Internal error", -32603, {"details": "terminated"}), "transport"),
        (WireError("", -32603), "bad_request"),
    ],
)
def test_an_error_has_a_kind_and_words(error: WireError, kind: str) -> None:
    failure = explain_error(error, "Agent", "Log in")
    assert failure.kind == kind
    assert failure.text


@pytest.mark.parametrize(
    ("name", "server"),
    [
        ("mcp__pilothouse__send_message", "pilothouse"),
        ("mcp__pilothouse__x__send_message", ""),
        ("mcp__pilothouse___send_message", ""),
        ("mcp__pilothouse__", ""),
        ("mcp__pilothouse_x__send_message", "pilothouse_x"),
        ("mcp_pilothouse_send_message", ""),
    ],
)
def test_no_other_server_is_taken_for_ours(name: str, server: str) -> None:
    told = Update("tool_call", tool_call_id="1", kind="other", raw_input={"n": 1}, meta={"toolName": name})
    for own in (True, False):
        asked = read_permission(Request(0, "", {}), merge(None, told), "", "/w", own=own)
        call = asked.asks[0].call
        wanted = "" if server == "pilothouse" and not own else server
        assert call is not None
        assert (call.server, call.kind) == (wanted, "mcp" if wanted else "tool")


AGAIN = "Info: Request failed due to a transient API error. Retrying..."
BROKEN = "Info: Response was interrupted due to a server error. Retrying..."
GAVE_UP = "Error: Failed to get response from the AI model; retried 5 times (total retry wait time: 5.00 seconds) Last error: "
NO_KEY = "Error: Authentication failed with provider at http://127.0.0.1:1/v1 (HTTP 401).\n  Check your COPILOT_PROVIDER_API_KEY."
TOO_LONG = "Error: 400 This model's maximum context length is 8192 tokens."
UNEXPECTED_END = (
    f"{GAVE_UP}Failed native model HTTP request: error reading a body from connection: unexpected EOF"
)
CALL = "a call"


def say_all(agent: str, *texts: str) -> TurnEnded:
    """The end of a turn in which the agent sent these texts and calls, and then ended its prompt as always."""
    turn = TurnTranslator(AGENTS[agent], ResumeToken(EngineId(agent), "s", "/w"))
    steps = [*turn.begin()]
    for number, text in enumerate(texts):
        said = Update("agent_message_chunk", content={"type": "text", "text": text})
        called = Update("tool_call", tool_call_id=str(number), title="ls", status="completed")
        steps += turn.take(called if text == CALL else said)
    steps += turn.close(Reply(1, {"stopReason": "end_turn"}))
    events = [step for step in steps if isinstance(step, EngineEvent)]
    assert list(well_formed(events)) == events
    end = events[-1]
    assert isinstance(end, TurnEnded)
    assert end.answer == "".join(event.text for event in events if isinstance(event, TextDelta))
    return end


@pytest.mark.parametrize(
    ("texts", "kind", "answer"),
    [
        ((AGAIN, AGAIN, NO_KEY), "auth", ""),
        ((NO_KEY,), "auth", ""),
        (("Error: 402 Pay first",), "quota", ""),
        ((AGAIN, f"{GAVE_UP}429 Rate limit reached: too many requests"), "rate_limit", ""),
        ((AGAIN, f"{GAVE_UP}500 Internal server error"), "transport", ""),
        ((AGAIN, f"{GAVE_UP}503 Internal server error"), "overloaded", ""),
        ((TOO_LONG,), "context_overflow", ""),
        (("Once upon", BROKEN, "Once upon", UNEXPECTED_END), "transport", "Once uponOnce upon"),
        ((CALL, NO_KEY), "auth", ""),
        ((AGAIN, "Here I am."), None, "Here I am."),
        (("The log says: ", NO_KEY), None, f"The log says: {NO_KEY}"),
        ((NO_KEY, " That is what it says."), None, f"{NO_KEY} That is what it says."),
        ((f"It says: {AGAIN}{NO_KEY}",), None, f"It says: {AGAIN}{NO_KEY}"),
        ((AGAIN, CALL, "It says: ", NO_KEY), None, f"It says: {NO_KEY}"),
        (("Error: ", "I cannot do that."), None, "Error: I cannot do that."),
    ],
)
def test_a_failure_that_copilot_says_as_its_only_text_fails_the_turn(
    texts: tuple[str, ...], kind: str | None, answer: str
) -> None:
    end = say_all("copilot", *texts)
    assert (end.failure and end.failure.kind, end.answer) == (kind, answer)
    assert end.outcome == ("failed" if kind else "completed")


def test_the_same_text_of_another_agent_is_an_answer() -> None:
    assert say_all("gemini", NO_KEY).answer == NO_KEY


def test_the_page_lists_every_agent_and_every_key_with_its_default() -> None:
    rows = dict(re.findall(r"^\| `([\w-]+)` \| (.+?) \|", PAGE, flags=re.MULTILINE))
    assert [name for name in AGENTS if f"`{' '.join(AGENTS[name].command)}`" not in rows.get(name, "")] == []
    for field in msgspec.structs.fields(AcpConfig):
        default = field.default_factory() if field.default_factory is not msgspec.NODEFAULT else field.default
        assert rows[field.name] == ("–" if default is None else f"`{msgspec.json.encode(default).decode()}`")


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("gemini", "gemini --resume {id}"),
        ("qwen", "qwen --resume {id}"),
        ("copilot", "copilot --session-id {id}"),
    ],
)
def test_a_session_moves_between_chat_and_terminal_by_a_line(name: str, line: str) -> None:
    id = "7092074d-19f1-4008-b35c-80e31418c4ad"
    spec = named(name)
    assert spec.resume_lines is not None
    lines, token = spec.resume_lines(AcpConfig(resume_line=True)), ResumeToken(EngineId(name), id, "")
    assert lines.command(token) == line.format(id=id)
    assert lines.shown
    for said in (lines.line(token), f"$ {name} --resume={id}", f"{name} -r {id}"):
        assert lines.parse(f"{said}\nGo on.") == (token, "Go on.")
    assert lines.parse(f"claude --resume {id}") == (None, f"claude --resume {id}")
    assert lines.read(id) == token
    assert lines.read("ses_x") is None


def test_only_some_agents_have_such_a_line() -> None:
    assert named("goose").resume_lines is None
    assert [abilities_of(named(name))["terminal"] for name in ("acp", "gemini", "goose")] == [
        "some",
        "yes",
        "no",
    ]
