"""The flags of a process: every key of the configuration, in any order."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from pilothouse.core.engine import Brief
from pilothouse.core.errors import ConfigError
from pilothouse.core.event import ResumeToken
from pilothouse.core.ids import EngineId, SessionId
from pilothouse.engines.claude.config import FALLBACKS, FILE_TOOLS, HELPER_TOOLS, ClaudeConfig, resolve
from pilothouse.engines.claude.launch import child_environment, pooled_argv, skip_problem, text_argv

ID = "01941f2a-3b4c-7d8e-9f0a-1b2c3d4e5f6a"
BRIEF = Brief(SessionId("s"), "/srv/app", trusted=True)
PLAIN = ClaudeConfig()
REFUSED = "SendMessage,ListAgents,CronCreate,CronDelete,CronList,ScheduleWakeup"
SWITCHES = {
    "-p",
    "--verbose",
    "--include-partial-messages",
    "--strict-mcp-config",
    "--dangerously-skip-permissions",
}


def parsed(argv: list[str]) -> list[tuple[str, ...]]:
    """Flags with their values, sorted: the order of flags means nothing."""
    words, found = argv[1:], list[tuple[str, ...]]()
    while words:
        flag = words.pop(0)
        takes = 0 if flag in SWITCHES or "=" in flag or not flag.startswith("-") else 1
        found.append((flag, *words[:takes]))
        del words[:takes]
    return sorted(found)


def added(brief: Brief = BRIEF, **keys: Any) -> list[tuple[str, ...]]:
    """What these keys add to a plain command line."""
    plain = parsed(pooled_argv(PLAIN, BRIEF, ID))
    return [row for row in parsed(pooled_argv(ClaudeConfig(**keys), brief, ID)) if row not in plain]


def test_a_pooled_process_reads_and_writes_json_and_asks_its_host() -> None:
    assert parsed(pooled_argv(PLAIN, BRIEF, ID)) == sorted(
        [
            ("-p",),
            ("--input-format", "stream-json"),
            ("--output-format", "stream-json"),
            ("--verbose",),
            ("--include-partial-messages",),
            ("--permission-prompt-tool", "stdio"),
            (f"--session-id={ID}",),
            ("--settings", '{"crossSessionInbound": "refuse"}'),
            ("--disallowedTools", REFUSED),
        ]
    )


def settings_of(argv: list[str]) -> list[Any]:
    return [json.loads(argv[at + 1]) for at, word in enumerate(argv) if word == "--settings"]


@pytest.mark.parametrize(
    "extra", [["--settings", '{"a": 1, "crossSessionInbound": "allow"}'], ['--settings={"a": 1}']]
)
def test_no_other_session_reaches_ours_whatever_settings_are_added(extra: list[str]) -> None:
    wanted = {"a": 1, "crossSessionInbound": "refuse"}
    config = ClaudeConfig(extra_args=["--foo", *extra, "--bar"], tools=["default"])
    for argv in (pooled_argv(config, BRIEF, ID), text_argv(config, BRIEF, ID, "hello")):
        assert settings_of(argv) == [wanted]
        assert {"--foo", "--bar"} < set(argv)
        assert not any(word.startswith("--settings=") for word in argv)
        assert argv[argv.index("--disallowedTools") + 1] == REFUSED


@pytest.mark.parametrize("extra", [["--settings", "my.json"], ["--settings=[]"], ["--settings"]])
def test_settings_that_cannot_be_joined_with_ours_are_refused(extra: list[str]) -> None:
    with pytest.raises(ConfigError, match=r"engines\.claude\.extra_args.*settings\.json"):
        resolve(ClaudeConfig(extra_args=extra), {})


def test_text_mode_has_its_prompt_behind_a_terminator() -> None:
    argv = text_argv(ClaudeConfig(add_dirs=["/x"], extra_args=["--foo"]), BRIEF, ID, "-rf @/etc/passwd")
    assert argv[-2:] == ["--", "-rf @/etc/passwd"]
    assert argv[argv.index("--output-format") + 1] == "text"
    assert "--verbose" not in argv


def test_no_prompt_is_in_argv_but_in_text_mode() -> None:
    assert "--" not in pooled_argv(PLAIN, BRIEF, ID)


@pytest.mark.parametrize(
    ("key", "value", "flags"),
    [
        ("model", "opus", [("--model", "opus")]),
        ("fallback_model", "sonnet", [("--fallback-model", "sonnet")]),
        ("max_budget_usd", 2.5, [("--max-budget-usd", "2.5")]),
        ("max_turns", 7, [("--max-turns", "7")]),
        ("append_system_prompt", "- be kind", [("--append-system-prompt", "- be kind")]),
        ("system_prompt", "You are x", [("--system-prompt", "You are x")]),
        ("system_prompt_snapshot", False, [("--system-prompt-snapshot", "off")]),
        ("tools", ["Bash", "Read"], [("--tools", "Bash,Read")]),
        ("tools", [], [("--tools", "")]),
        ("allowed_tools", ["Bash(git log:*)", "Read"], [("--allowedTools", "Bash(git log:*),Read")]),
        ("disallowed_tools", ["Bash(rm:*)"], [("--disallowedTools", f"{REFUSED},Bash(rm:*)")]),
        ("add_dirs", ["/a", "/b"], [("--add-dir", "/a"), ("--add-dir", "/b")]),
        ("mcp_config", ["a.json", "b.json"], [("--mcp-config", "a.json"), ("--mcp-config", "b.json")]),
        ("strict_mcp_config", True, [("--strict-mcp-config",)]),
        ("debug_file", "/tmp/d", [("--debug-file", "/tmp/d")]),
        ("permission_mode", "plan", [("--permission-mode", "plan")]),
        ("dangerously_skip_permissions", True, [("--dangerously-skip-permissions",)]),
        ("extra_args", ["--verbose-x", "1"], [("--verbose-x", "1")]),
        ("group_dirs", True, [("--add-dir", "/srv/app")]),
    ],
)
def test_a_key_becomes_its_flag(key: str, value: Any, flags: list[tuple[str, ...]]) -> None:
    assert added(**{key: value}) == flags


def test_the_brief_brings_its_model_its_servers_and_its_words() -> None:
    brief = msgspec.structs.replace(
        BRIEF, model="haiku", mcp_servers={"x": {"command": "y"}}, system_prompt="ours"
    )
    rows = {row[0]: row[-1] for row in added(brief, model="opus", append_system_prompt="theirs")}
    assert rows["--model"] == "haiku"
    assert json.loads(rows["--mcp-config"]) == {"mcpServers": {"x": {"command": "y"}}}
    assert rows["--append-system-prompt"] == "theirs\n\nours"


def test_a_session_that_exists_is_resumed_by_its_own_id() -> None:
    brief = msgspec.structs.replace(BRIEF, resume=ResumeToken(EngineId("claude"), "abc-1", "/srv/app"))
    argv = pooled_argv(PLAIN, brief, ID)
    assert "--resume=abc-1" in argv
    assert not any(word.startswith(("--session-id", "--continue", "-c")) for word in argv)


def test_an_untrusted_workspace_brings_no_settings_and_no_servers() -> None:
    brief = msgspec.structs.replace(BRIEF, trusted=False)
    assert added(brief) == [("--setting-sources", "user"), ("--strict-mcp-config",)]


def test_what_permissions_leave_is_the_tool_surface() -> None:
    argv = pooled_argv(ClaudeConfig(tools=["Bash", "Read"]), BRIEF, ID, ("Read",))
    assert argv[argv.index("--tools") + 1] == "Read"
    argv = pooled_argv(PLAIN, BRIEF, ID, ())
    assert argv[argv.index("--tools") + 1] == ""


@pytest.mark.parametrize(
    ("skip", "root", "sandboxed", "refused"),
    [
        (True, True, False, True),
        (True, True, True, False),
        (True, False, False, False),
        (False, True, False, False),
    ],
)
def test_root_skips_no_permissions_unless_a_container_is_the_boundary(
    skip: bool, root: bool, sandboxed: bool, refused: bool
) -> None:
    config = ClaudeConfig(dangerously_skip_permissions=skip, sandboxed=sandboxed)
    assert bool(skip_problem(config, is_root=root)) == refused


SOURCE = {
    "HOME": "/home/x",
    "PATH": "/bin",
    "CLAUDE_CONFIG_DIR": "/home/x/c",
    "HTTPS_PROXY": "p",
    "ANTHROPIC_API_KEY": "sk-1",
    "CLAUDE_CODE_OAUTH_TOKEN": "o",
    "TELEGRAM_TOKEN": "t",
    "CLAUDECODE": "1",
}


def environment(brief_has: Mapping[str, str] | None = None, **keys: Any) -> dict[str, str]:
    brief = msgspec.structs.replace(BRIEF, environment=brief_has or {})
    return child_environment(ClaudeConfig(**keys), SOURCE, brief)


def test_a_child_sees_what_is_on_the_list_and_nothing_else() -> None:
    assert environment() == {
        "HOME": "/home/x",
        "PATH": "/bin",
        "CLAUDE_CONFIG_DIR": "/home/x/c",
        "HTTPS_PROXY": "p",
        "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS": "1",
        "CLAUDE_CODE_STARTUP_FAILURE_RESULTS": "1",
        "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CODE_MAX_RETRIES": "3",
        "API_TIMEOUT_MS": "600000",
        "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
    }


def test_a_key_passes_only_where_it_is_configured() -> None:
    assert environment(environment=["ANTHROPIC_*"])["ANTHROPIC_API_KEY"] == "sk-1"
    assert "CLAUDE_CODE_OAUTH_TOKEN" not in environment(environment=["ANTHROPIC_*"])


def test_settings_of_the_environment_follow_their_keys() -> None:
    given = environment({"X": "1"}, background_tasks=True, sandboxed=True, max_retries=0, api_timeout_s=1.5)
    assert "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS" not in given
    assert (given["IS_SANDBOX"], given["CLAUDE_CODE_MAX_RETRIES"]) == ("1", "0")
    assert (given["API_TIMEOUT_MS"], given["X"]) == ("1500", "1")


TEXTS: dict[str, tuple[str, object]] = {
    "RUNTIME_FALLBACK_MODEL": ("sonnet", "sonnet"),
    "RUNTIME_MAX_BUDGET_USD": ("5", 5.0),
    "RUNTIME_TOOLS": ("Bash, Read", ["Bash", "Read"]),
    "CLAUDE_APPEND_SYSTEM_PROMPT": ("be kind", "be kind"),
    "CLAUDE_STRICT_MCP_CONFIG": ("1", True),
    "CLAUDE_DEBUG_FILE": ("/tmp/d", "/tmp/d"),
    "CLAUDE_DANGEROUSLY_SKIP_PERMISSIONS": ("1", True),
    "CLAUDE_OUTPUT_FORMAT": ("text", "text"),
    "DISCOCLAW_MULTI_TURN": ("0", False),
    "DISCOCLAW_MULTI_TURN_HANG_TIMEOUT_MS": ("60000", 60.0),
    "DISCOCLAW_MULTI_TURN_IDLE_TIMEOUT_MS": ("1500", 1.5),
    "DISCOCLAW_MULTI_TURN_MAX_PROCESSES": ("2", 2),
    "DISCOCLAW_SESSION_SCANNING": ("1", True),
    "DISCOCLAW_TOOL_AWARE_STREAMING": ("0", False),
}


@pytest.mark.parametrize("fallback", FALLBACKS, ids=lambda fallback: fallback.variable)
def test_a_variable_stands_in_for_a_key_that_nobody_set(fallback: Any) -> None:
    given, value = TEXTS[fallback.variable]
    assert getattr(resolve(PLAIN, {fallback.variable: given}), fallback.key) == value
    assert getattr(resolve(PLAIN, {}), fallback.key) == fallback.default


def test_what_the_file_says_wins_even_if_it_is_the_default() -> None:
    assert resolve(ClaudeConfig(pool=True), {"DISCOCLAW_MULTI_TURN": "0"}).pool is True


def test_the_default_tools_are_the_eight_and_what_helpers_need() -> None:
    assert resolve(PLAIN, {}).tools == [*FILE_TOOLS, *HELPER_TOOLS]


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("RUNTIME_MAX_BUDGET_USD", "a lot"),
        ("RUNTIME_MAX_BUDGET_USD", "-1"),
        ("DISCOCLAW_MULTI_TURN", "maybe"),
        ("CLAUDE_OUTPUT_FORMAT", "xml"),
        ("CLAUDE_APPEND_SYSTEM_PROMPT", "x" * 4001),
        ("DISCOCLAW_MULTI_TURN_MAX_PROCESSES", "0"),
    ],
)
def test_a_variable_that_makes_no_sense_is_named(variable: str, value: str) -> None:
    with pytest.raises(ConfigError, match=variable):
        resolve(PLAIN, {variable: value})
