"""The section `[engines.claude]`, its environment variables, and the models that Claude Code offers.

A key with an environment variable is None until it is set: the file wins over the variable, and the variable over the
default. `resolve` applies this order. The models come from the greeting of a process that runs, because they depend on
the login; until one has run, they are the names that every `claude` takes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct, field

from pilothouse.core.engine import Model
from pilothouse.core.errors import ConfigError
from pilothouse.core.ids import EngineId

ENGINE_ID = EngineId("claude")
ALIASES = (Model("opus", "Opus"), Model("sonnet", "Sonnet"), Model("haiku", "Haiku"))
OWN_CHOICE = "default"
"""Lets Claude choose; not offered, because `/model default` means the same for every engine."""
MAX_MODELS = 100
MAX_COMMANDS = 100

PermissionMode = Literal["default", "acceptEdits", "auto", "bypassPermissions", "manual", "dontAsk", "plan"]
OutputFormat = Literal["stream-json", "text"]
Positive = Annotated[float, Meta(gt=0, description="a number above 0")]
Count = Annotated[int, Meta(ge=1, description="a whole number of at least 1")]
OwnFile = Annotated[str, Meta(pattern=r"^[~/]", description="a path that begins with / or ~")]
ShortPrompt = Annotated[str, Meta(max_length=4000, description="a text of at most 4000 characters")]

FILE_TOOLS = ("Bash", "Read", "Write", "Edit", "Glob", "Grep", "WebSearch", "WebFetch")
HELPER_TOOLS = ("AskUserQuestion", "ExitPlanMode", "Task", "TaskCreate", "TaskUpdate", "TaskList")
"""Needed for questions, plans and sub-agents."""
REFUSED_TOOLS = ("SendMessage", "ListAgents", "CronCreate", "CronDelete", "CronList", "ScheduleWakeup")
"""Claude's own messages between sessions, and its own schedules: both start turns that nobody here asked for."""


class _Offered(Struct, frozen=True):
    value: str
    resolved: str = field(default="", name="resolvedModel")
    title: str = field(default="", name="displayName")


class _Named(Struct, frozen=True):
    name: str


class _Greeting(Struct, frozen=True):
    models: list[_Offered] = field(default_factory=list)


class _Commands(Struct, frozen=True):
    commands: list[_Named] = field(default_factory=list)


def read_commands(greeting: Any) -> tuple[str, ...]:
    """Return the names of the commands in the answer to `initialize`; empty if it cannot be read."""
    try:
        return tuple(one.name for one in msgspec.convert(greeting, _Commands).commands)[:MAX_COMMANDS]
    except msgspec.ValidationError:
        return ()


def read_models(greeting: Any, given: str | None) -> tuple[Model, ...]:
    """Return the models in the answer to `initialize`; empty if it cannot be read.

    A full model name that the process was `given` is left out: Claude lists it right or wrong.
    """
    try:
        offered = msgspec.convert(greeting, _Greeting).models
    except msgspec.ValidationError:
        return ()
    return tuple(
        Model(one.value, one.title)
        for one in offered[:MAX_MODELS]
        if one.value not in ("", OWN_CHOICE) and not (one.value == given == one.resolved)
    )


class ClaudeConfig(Struct, frozen=True, forbid_unknown_fields=True):
    command: str = "claude"
    """The program: a name on PATH, or a path."""
    model: str | None = None
    fallback_model: str | None = None
    max_budget_usd: Positive | None = None
    """Per process: in a pool it lasts for the life of a process, not for a turn."""
    max_turns: Count | None = None
    append_system_prompt: ShortPrompt | None = None
    system_prompt: str | None = None
    system_prompt_snapshot: bool = True
    """Claude freezes the system prompt into a session; False lets a changed one reach sessions that exist."""
    context_files: list[OwnFile] = field(default_factory=list)
    """Read in every session, after the workspace's own files (SOUL.md and so on)."""
    tools: list[str] | None = None
    allowed_tools: list[str] = field(default_factory=list)
    disallowed_tools: list[str] = field(default_factory=list)
    add_dirs: list[str] = field(default_factory=list)
    mcp_config: list[str] = field(default_factory=list)
    """Files, or JSON."""
    strict_mcp_config: bool | None = None
    debug_file: str | None = None
    permission_mode: PermissionMode | None = None
    dangerously_skip_permissions: bool | None = None
    sandboxed: bool = False
    """A container is the boundary. Without this, root may not skip permissions."""
    extra_args: list[str] = field(default_factory=list)
    group_dirs: bool = False
    """Give each conversation a folder of its own, and add the workspace to it."""
    output: OutputFormat | None = None
    pool: bool | None = None
    max_processes: Count | None = None
    """None: as many as the free memory allows."""
    idle_timeout_s: Positive | None = None
    hang_after_s: Positive | None = None
    session_scanning: bool | None = None
    tool_aware_streaming: bool | None = None
    background_tasks: bool = False
    resume_line: bool = False
    """Close each answer with the line that resumes its session."""
    owner_commands: bool = False
    """Let an owner's `/commands` and `@files` work."""
    max_retries: Annotated[int, Meta(ge=0, description="a whole number of at least 0")] = 3
    api_timeout_s: Positive = 600.0
    environment: list[str] = field(default_factory=list)
    """Names of variables that Claude may see, such as ANTHROPIC_API_KEY."""


class Fallback(Struct, frozen=True):
    """`read` turns the variable's text into the key's value, or raises `ValueError`."""

    key: str
    variable: str
    read: Callable[[str], Any]
    default: Any = None


def _flag(text: str) -> bool:
    words = {
        "1": True,
        "true": True,
        "yes": True,
        "on": True,
        "0": False,
        "false": False,
        "no": False,
        "off": False,
    }
    if text.lower() not in words:
        raise ValueError("1 or 0")
    return words[text.lower()]


def _milliseconds(text: str) -> float:
    return float(text) / 1000


def _list(text: str) -> list[str]:
    return [word for word in text.replace(",", " ").split() if word]


FALLBACKS: tuple[Fallback, ...] = (
    Fallback("fallback_model", "RUNTIME_FALLBACK_MODEL", str),
    Fallback("max_budget_usd", "RUNTIME_MAX_BUDGET_USD", float),
    Fallback("tools", "RUNTIME_TOOLS", _list, [*FILE_TOOLS, *HELPER_TOOLS]),
    Fallback("append_system_prompt", "CLAUDE_APPEND_SYSTEM_PROMPT", str),
    Fallback("strict_mcp_config", "CLAUDE_STRICT_MCP_CONFIG", _flag, False),
    Fallback("debug_file", "CLAUDE_DEBUG_FILE", str),
    Fallback("dangerously_skip_permissions", "CLAUDE_DANGEROUSLY_SKIP_PERMISSIONS", _flag, False),
    Fallback("output", "CLAUDE_OUTPUT_FORMAT", str, "stream-json"),
    Fallback("pool", "DISCOCLAW_MULTI_TURN", _flag, True),
    Fallback("hang_after_s", "DISCOCLAW_MULTI_TURN_HANG_TIMEOUT_MS", _milliseconds),
    Fallback("idle_timeout_s", "DISCOCLAW_MULTI_TURN_IDLE_TIMEOUT_MS", _milliseconds, 300.0),
    Fallback("max_processes", "DISCOCLAW_MULTI_TURN_MAX_PROCESSES", int),
    Fallback("session_scanning", "DISCOCLAW_SESSION_SCANNING", _flag, False),
    Fallback("tool_aware_streaming", "DISCOCLAW_TOOL_AWARE_STREAMING", _flag, False),
)


def resolve(config: ClaudeConfig, environment: Mapping[str, str]) -> ClaudeConfig:
    """Return the configuration with every gap filled. Raises `ConfigError` for an invalid variable."""
    filled = msgspec.to_builtins(config)
    for fallback in FALLBACKS:
        text = environment.get(fallback.variable, "").strip()
        if filled[fallback.key] is None:
            filled[fallback.key] = _read(fallback, text) if text else fallback.default
    split_settings(config.extra_args)
    return msgspec.convert(filled, ClaudeConfig)


def split_settings(args: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """Take `--settings` out of `extra_args`: Claude reads only one, and we need ours. Raise `ConfigError` if it is no JSON object."""
    settings, rest = dict[str, Any](), list[str]()
    words = iter(args)
    for word in words:
        flag, equals, value = word.partition("=")
        if flag == "--settings":
            settings |= _parse_settings(value if equals else next(words, ""))
        else:
            rest.append(word)
    return settings, rest


def _parse_settings(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise ConfigError(
            f"engines.claude.extra_args has --settings with {text[:80]!r}, which is no JSON object. Pilothouse adds settings of "
            "its own to it, so write the JSON itself there, or move a file's settings to ~/.claude/settings.json."
        )
    return value


def _read(fallback: Fallback, text: str) -> Any:
    """Read the variable, checked as the key itself would be."""
    try:
        value = fallback.read(text)
        msgspec.convert({fallback.key: value}, ClaudeConfig)
    except ValueError as error:  # msgspec's own is one
        key = f"engines.claude.{fallback.key}"
        raise ConfigError(
            f"{fallback.variable} is {text!r}, which is not valid for {key}: {error}"
        ) from error
    return value
