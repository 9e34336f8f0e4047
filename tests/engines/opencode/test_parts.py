"""The pure parts: rules, calls, models, settings, failures, ids, and the page that describes them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from pilothouse.core.ask import Decision
from pilothouse.core.engine import Brief, Model
from pilothouse.core.errors import EngineError
from pilothouse.core.event import ResumeToken
from pilothouse.core.ids import AskId, EngineId, SessionId
from pilothouse.core.outcome import FailureKind
from pilothouse.engines.opencode.asks import read_request
from pilothouse.engines.opencode.calls import call_of, rule_name
from pilothouse.engines.opencode.config import OpenCodeConfig, resolve
from pilothouse.engines.opencode.failures import NAMES, OWN_STATUSES, WORDS, explain_fault, explain_retry
from pilothouse.engines.opencode.jail import server_needs
from pilothouse.engines.opencode.launch import (
    check_folder,
    key_names,
    server_environment,
    user_files,
    write_gate,
)
from pilothouse.engines.opencode.message_ids import MessageIds, is_session_id
from pilothouse.engines.opencode.models import choose_model, default_model, read_models
from pilothouse.engines.opencode.program import find_program, judge_server, look_for
from pilothouse.engines.opencode.rules import asks_always, missing_rules, session_rules
from pilothouse.engines.opencode.spec import ENGINE, resume_lines
from pilothouse.engines.opencode.wire import CallRef, PermissionAsked, QuestionAsked, Status, read_event
from pilothouse.engines.opencode.wire_parts import Fault, FaultData, ToolPart, ToolState
from pilothouse.testing.engine import check_spec
from pilothouse.testing.hosts import engine_host

PAGE = (Path(__file__).parents[3] / "docs" / "engines" / "opencode.md").read_text()
ASK = {"permission": "*", "pattern": "*", "action": "ask"}


def section(title: str) -> str:
    return PAGE.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]


def test_the_page_lists_every_key_with_its_default() -> None:
    found = re.findall(r"^\| `(\w+)` \| (.+?) \|", section("Settings"), flags=re.MULTILINE)
    assert found == [(one.name, _shown(one)) for one in msgspec.structs.fields(OpenCodeConfig)]


def _shown(field: msgspec.structs.FieldInfo) -> str:
    default = field.default_factory() if field.default_factory is not msgspec.NODEFAULT else field.default
    return "–" if default is None else f"`{msgspec.json.encode(default).decode()}`"


def test_the_page_has_every_kind_of_failure() -> None:
    rows = [row.rsplit("|", 2)[-2] for row in section("Failures").splitlines() if row.startswith("|")]
    kinds = {word for last in rows for word in re.findall(r"`(\w+)`", last)}
    assert kinds == set(get_args(FailureKind))
    assert {*NAMES.values(), *OWN_STATUSES.values(), *(kind for _, kind in WORDS)} <= kinds


def test_the_spec_works_without_settings() -> None:
    check_spec(ENGINE)


def test_everything_asks_and_foreign_tools_and_leaking_agents_are_denied() -> None:
    agents: list[dict[str, Any]] = [
        {"name": "build", "mode": "primary", "permission": [{**ASK, "action": "allow"}]},
        {"name": "general", "mode": "subagent", "permission": [{**ASK, "action": "allow"}, ASK]},
        {
            "name": "mine",
            "mode": "all",
            "permission": [ASK, {**ASK, "permission": "bash", "action": "allow"}],
        },
    ]
    rules = session_rules(["bash", "question", "my_tool"], agents, free=False)
    assert rules[0] == ASK
    assert [(one["permission"], one["pattern"]) for one in rules if one["action"] == "deny"][-2:] == [
        ("my_tool", "*"),
        ("task", "mine"),
    ]
    free = session_rules(["bash", "my_tool"], agents, free=True)
    assert "my_tool" not in str(free)
    assert missing_rules(rules, free) == free
    assert missing_rules([*rules, *free], free) == []
    assert missing_rules(None, free) == free


@pytest.mark.parametrize(
    ("rules", "asks"),
    [
        ([], True),
        ([("*", "*", "allow"), ("*", "*", "ask")], True),
        ([("*", "*", "ask"), ("lab_*", "*", "allow")], False),
        ([("bash", "git *", "allow"), ("bash", "*", "ask")], True),
        ([("bash", "git *", "allow"), ("bash", "rm *", "ask")], False),
        ([("*", "*", "ask"), ("question", "*", "allow"), ("external_directory", "*", "allow")], True),
    ],
)
def test_an_agent_asks_always_if_no_rule_lets_a_call_pass(
    rules: list[tuple[str, str, str]], asks: bool
) -> None:
    named = [dict(zip(("permission", "pattern", "action"), rule, strict=True)) for rule in rules]
    assert asks_always(named) == asks


@pytest.mark.parametrize(
    ("tool", "given", "kind", "named"),
    [
        ("bash", {"command": "ls"}, "command", "/w"),
        ("bash", {"command": "ls", "workdir": "/tmp"}, "command", "/tmp"),
        ("bash", {"command": "ls", "workdir": "sub"}, "unreadable", "/w"),
        ("bash", {}, "unreadable", "/w"),
        ("read", {"filePath": "/etc/passwd"}, "read", ("/etc/passwd",)),
        ("grep", {"pattern": "x"}, "read", (".",)),
        ("edit", {"filePath": "a", "oldString": "x", "newString": "y"}, "change", ("a",)),
        ("apply_patch", {"patchText": "*** Update File: a\n*** Move to: b\n"}, "change", ("a", "b")),
        ("apply_patch", {"patchText": "nothing"}, "unreadable", ()),
        ("webfetch", {"url": "https://example.org/x"}, "web", "example.org"),
        ("mcp__lab__echo", {"text": "x"}, "mcp", "lab"),
        ("todowrite", {"todos": []}, "notes", ""),
        ("task", {"prompt": "x"}, "tool", ""),
    ],
)
def test_calls_are_read(tool: str, given: dict[str, Any], kind: str, named: Any) -> None:
    call = call_of({"tool": tool, "input": given, "cwd": "/w"})
    assert call is not None
    assert call.kind == kind
    assert named in ("", call.cwd, call.paths, call.host, call.server)


def test_a_tool_of_a_server_has_the_name_that_rules_know() -> None:
    assert rule_name("my_lab_echo", ["my", "my lab"]) == "mcp__my lab__echo"
    assert rule_name("apply_patch", ["apply"]) == "apply_patch"
    assert rule_name("other_echo", ["lab"]) == "other_echo"


def permission(name: str, call: str, **metadata: Any) -> PermissionAsked:
    return PermissionAsked("s", "per_1", name, ["*"], metadata, CallRef("m", "c") if call else None)


@pytest.mark.parametrize(
    ("name", "tool", "kind"),
    [
        ("bash", "bash", "command"),
        ("edit", "bash", "unreadable"),
        ("apply_patch", "apply_patch", "unreadable"),
    ],
)
def test_a_permission_that_does_not_fit_its_tool_is_unreadable(name: str, tool: str, kind: str) -> None:
    part = ToolPart(tool=tool, call_id="c", state=ToolState("running", {"command": "ls"}))
    pending = read_request(permission(name, tool), {"c": part}, "/w")
    assert pending is not None
    assert pending.asks[0].call is not None
    assert pending.asks[0].call.kind == kind


def test_a_permission_waits_for_its_call_and_one_without_a_call_is_asked() -> None:
    assert read_request(permission("bash", "bash"), {}, "/w") is None
    loop = read_request(permission("doom_loop", "", tool="bash", input={"command": "ls"}), {}, "/w")
    assert loop is not None
    assert "three times" in loop.asks[0].title
    assert loop.asks[0].payload["input"] == {"tool": "bash", "input": {"command": "ls"}}


def test_two_questions_are_answered_together_and_declined_with_nothing() -> None:
    options = [{"label": "Red"}, {"label": "Blue"}]
    asked = read_event(
        "question.asked", {"id": "que_1", "questions": [{"question": "A", "options": options}] * 2}
    )
    assert isinstance(asked, QuestionAsked)
    first, second = (read_request(asked, {}, ""), read_request(asked, {}, ""))
    assert first is not None
    assert second is not None
    assert first.decide(AskId("que_1"), Decision("answer", ("2",))) is None
    reply = first.decide(AskId("que_1:1"), Decision("answer", text="Green"))
    assert reply is not None
    assert reply.body == {"answers": [["Blue"], ["Green"]]}
    declined = second.decide(AskId("que_1"), Decision("deny", text="later"))
    assert declined is not None
    assert declined.body == {"answers": [["later"], []]}


OFFERED = (Model("openrouter/anthropic/claude"), Model("anthropic/claude"), Model("p/m"))


@pytest.mark.parametrize(
    ("name", "provider", "wanted"),
    [
        ("anthropic/claude", "", "anthropic claude"),
        ("anthropic/claude", "openrouter", "anthropic claude"),
        ("openrouter/anthropic/claude", "openrouter", "openrouter anthropic/claude"),
        ("m", "p", "p m"),
        ("unheard-of", "p", "p unheard-of"),
        ("q/unheard-of", "p", "q unheard-of"),
        ("m", "", None),
        ("", "", None),
    ],
)
def test_a_model_is_found_by_its_name(name: str, provider: str, wanted: str | None) -> None:
    chosen = choose_model(name, provider, OFFERED)
    assert (" ".join(chosen.values()) if chosen else None) == wanted


def test_models_are_read_without_keys() -> None:
    told = {
        "providers": [{"id": "p", "options": {"apiKey": "x"}, "models": {"m": {"name": "M"}}}],
        "default": {"p": "m"},
    }
    assert read_models(told) == (Model("p/m", "M"),)
    assert default_model({}, told) == "p/m"
    assert default_model({"model": "a/b"}, told) == "a/b"
    assert (read_models(None), default_model(None, None)) == ((), "")


def test_the_seeds_variables_stand_in_for_settings() -> None:
    given = {"OPENCODE_PROVIDER": "openrouter", "OPENCODE_MODEL": " anthropic/claude "}
    filled = resolve(OpenCodeConfig(), given)
    assert (filled.provider, filled.model) == ("openrouter", "anthropic/claude")
    assert resolve(OpenCodeConfig(model="mine"), given).model == "mine"


@pytest.mark.parametrize(
    ("name", "status", "message", "kind"),
    [
        ("APIError", 401, "bad key", "auth"),
        ("APIError", 429, "slow down", "rate_limit"),
        ("APIError", 429, "insufficient_quota", "quota"),
        ("APIError", 500, "boom", "overloaded"),
        ("APIError", 502, "boom", "transport"),
        ("APIError", 404, "boom", "bad_request"),
        ("ContextOverflowError", None, "too long", "context_overflow"),
        ("ProviderAuthError", None, "", "auth"),
        ("UnknownError", None, '{"message":"rate limit","code":"x"}', "rate_limit"),
        ("UnknownError", None, "socket hang up", "transport"),
        ("UnknownError", None, "", "crash"),
    ],
)
def test_a_fault_has_its_kind(name: str, status: int | None, message: str, kind: str) -> None:
    failure = explain_fault(Fault(name, FaultData(message, status)))
    assert failure.kind == kind
    assert failure.text


def test_a_long_pause_is_a_time_to_try_again() -> None:
    later = explain_retry(Status("retry", 1, "Too Many Requests", 5_000_000.0), now=100.0)
    assert (later.kind, later.retry_at) == ("rate_limit", 5000.0)


def test_ids_grow_and_look_like_opencodes() -> None:
    make = MessageIds(lambda: 1794968783.648)
    first, second = make(), make()
    assert first.startswith("msg_1ec7a0b20")
    assert re.fullmatch(r"msg_[0-9a-f]{12}[0-9A-Za-z]{14}", second)
    assert first < second
    assert [is_session_id(text) for text in ("ses_e1f84e1e4ffecwtFZp2MKEnvko", "ses_", "x")] == [
        True,
        False,
        False,
    ]


def test_a_session_moves_by_a_line_and_keeps_its_case() -> None:
    lines, id = resume_lines(OpenCodeConfig()), "ses_e1f84e1e4ffecwtFZp2MKEnvko"
    token = ResumeToken(EngineId("opencode"), id)
    assert lines.parse(f"go on\nopencode -s {id}") == (token, "go on")
    assert lines.parse(f"`opencode --session {id}`") == (token, "")
    assert lines.parse("opencode -s mine") == (None, "opencode -s mine")
    assert (lines.command(token), lines.line(token)) == (f"opencode -s {id}", f"`opencode -s {id}`")
    assert lines.read(id) == token


@pytest.mark.parametrize(
    ("status", "told", "data", "words"),
    [
        (200, {"version": "1.18.33"}, b"", ""),
        (200, {"version": "2.1.3"}, b"", "This is OpenCode 2.1.3"),
        (200, None, b"<!DOCTYPE html><html>", "answered with a web page"),
        (404, None, b"", "did not answer like a server of OpenCode 1 (HTTP 404)"),
    ],
)
def test_servers_are_told_apart_in_one_sentence(status: int, told: object, data: bytes, words: str) -> None:
    failure = judge_server(status, told, data)
    assert words in (failure.text if failure else "")
    assert bool(failure) == bool(words)


def test_the_program_is_found_behind_npms_script(tmp_path: Path) -> None:
    package = tmp_path / "opencode-ai"
    native = package / "node_modules" / "opencode-linux-x64" / "bin" / "opencode"
    native.parent.mkdir(parents=True)
    native.write_bytes(b"\x7fELF")
    native.chmod(0o755)
    script = package / "bin" / "opencode"
    script.parent.mkdir()
    script.write_text("#!/usr/bin/env node\n")
    script.chmod(0o755)
    assert find_program("opencode", str(script.parent)) == str(native)
    assert find_program(str(native), None) == str(native)
    assert look_for(OpenCodeConfig(), str(tmp_path)).fix == "npm install -g opencode-ai@1"


@pytest.mark.parametrize(("printed", "available"), [("1.18.33", True), ("2.1.3", False), ("hello", False)])
def test_a_probe_knows_the_version(tmp_path: Path, printed: str, available: bool) -> None:
    program = tmp_path / "opencode"
    program.write_text(f"#!/bin/sh\necho {printed}\n")
    program.chmod(0o755)
    status = look_for(OpenCodeConfig(command=str(program)), None)
    assert status.available == available
    assert available or status.problem


def test_a_server_sees_the_users_keys_and_no_others(tmp_path: Path) -> None:
    folder = tmp_path / ".config" / "opencode"
    folder.mkdir(parents=True)
    (folder / "opencode.json").write_text('{"apiKey": "{env:MY_KEY}"}')
    source = {
        "HOME": str(tmp_path),
        "PATH": "/bin",
        "MY_KEY": "k",
        "TELEGRAM_TOKEN": "t",
        "XDG_DATA_HOME": "/d",
    }
    assert key_names(user_files(source)) == ["MY_KEY"]
    host = engine_host(tmp_path, environment=source)
    gate = write_gate(str(tmp_path))
    for trusted in (True, False):
        made = server_environment(OpenCodeConfig(), host, "pw", gate, {"COLOUR": "red"}, trusted=trusted)
        assert (made["MY_KEY"], made["COLOUR"], made["OPENCODE_SERVER_PASSWORD"]) == ("k", "red", "pw")
        assert "TELEGRAM_TOKEN" not in made
        assert ("OPENCODE_DISABLE_PROJECT_CONFIG" in made) == (not trusted)
        assert json.loads(made["OPENCODE_PERMISSION"])["*"] == "ask"
        assert ("lsp" in json.loads(made["OPENCODE_CONFIG_CONTENT"])) == (not trusted)


@pytest.mark.parametrize("name", [".opencode", "opencode.json", "opencode.jsonc", ""])
def test_an_untrusted_folder_with_settings_of_its_own_is_refused(tmp_path: Path, name: str) -> None:
    home, inner = tmp_path / "home", tmp_path / "home" / "repo" / "inner"
    inner.mkdir(parents=True)
    (home / "opencode.json").touch()
    if name:
        (home / "repo" / name).touch()
        with pytest.raises(EngineError, match=re.escape(str(home / "repo" / name))):
            check_folder(str(inner), str(home))
    else:
        check_folder(str(inner), str(home))


@pytest.mark.skipif(shutil.which("node") is None, reason="the plugin is JavaScript")
def test_scripts_that_opencode_would_not_ask_about_get_a_command(tmp_path: Path) -> None:
    gate = write_gate(str(tmp_path))
    scripts = [
        "ls -la",
        "make",
        "./run",
        "> a",
        "cd x > a",
        "A=1 > a",
        "export A=1 > a",
        "if true; then > a; fi",
        "cdx",
    ]
    program = f"""
import {{Pilothouse}} from {json.dumps(gate.as_uri())}
const hooks = await Pilothouse()
for (const command of {json.dumps(scripts)}) {{
  const output = {{args: {{command}}}}
  await hooks["tool.execute.before"]({{tool: "bash"}}, output)
  console.log(JSON.stringify(output.args.command === command))
}}
"""
    (tmp_path / "try.mjs").write_text(program)
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    done = subprocess.run(
        ["node", "--experimental-default-type=module", str(tmp_path / "try.mjs")],
        capture_output=True,
        text=True,
        env=environment,
        check=True,
    )
    kept = [script for script, line in zip(scripts, done.stdout.split(), strict=True) if line == "true"]
    assert kept == ["ls -la", "make", "cdx"]


def test_a_jail_lets_the_server_write_in_added_folders(tmp_path: Path) -> None:
    brief = Brief(SessionId("one"), str(tmp_path))
    needs = server_needs(tmp_path / "gate.js", {"HOME": str(tmp_path)}, brief, {}, ["/srv/shared"])
    assert "/srv/shared" in needs.write
