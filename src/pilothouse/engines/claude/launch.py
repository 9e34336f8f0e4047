"""Configuration and brief -> the command line and the environment of a `claude` process. Pure.

Rules: a prompt stands in argv in text mode only, behind `--`: `ps` shows it there, and it can read `@files`. An untrusted
workspace brings no settings, hooks or servers. No other session of Claude reaches ours. The environment passes by an allowlist. If the program does not know a
flag, one that can be spared is left out, with a notice, and any other ends the turn; nothing is left out that narrows
what Claude may do or spend.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec
from msgspec import Struct

from pilothouse.core.engine import Brief, ProcessStart
from pilothouse.core.errors import EngineError
from pilothouse.core.event import Notice, ResumeToken
from pilothouse.core.outcome import Failure
from pilothouse.engines.claude.config import REFUSED_TOOLS, ClaudeConfig, split_settings
from pilothouse.engines.claude.turns import ENGINE_ID
from pilothouse.processes import BASE_NAMES, allowed_environment

ROOT_MAY_NOT = (
    "engines.claude.dangerously_skip_permissions is on and Pilothouse runs as root; Claude Code refuses that. "
    "Run it as another user, or set engines.claude.sandboxed = true if a container is the boundary."
)
SKIPS = "Claude Code runs WITHOUT asking for any permission (engines.claude.dangerously_skip_permissions)."

TURN_CAP = "--max-budget-usd="
"""The cap of the budget, which changes with every turn; the equals form tells it from the configured one."""
MODEL = "--model"
_STREAMS = ("--output-format", "stream-json", "--verbose", "--include-partial-messages")
_SETTINGS = {"crossSessionInbound": "refuse"}
"""Any other session of the same OS user could send ours a message, which starts a turn (Claude Code since 2.1.224)."""
_ENVIRONMENT = {
    "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS": "1",
    "CLAUDE_CODE_STARTUP_FAILURE_RESULTS": "1",
    "DISABLE_AUTOUPDATER": "1",
}

INSTALL = "npm install -g @anthropic-ai/claude-code"
_UNKNOWN = re.compile(r"unknown option '?(--[\w-]+)")

WITHOUT: Mapping[str, str] = {
    "--include-partial-messages": "answers appear block by block, not word by word",
    "--fallback-model": "engines.claude.fallback_model is off",
    "--system-prompt-snapshot": "a changed system prompt, or context file, reaches new sessions only",
    "--debug-file": "engines.claude.debug_file is off",
}
"""Flags that can be left out, and the effect of that."""
_SWITCHES = frozenset({"--include-partial-messages"})

_SESSION_FLAGS = ("--session-id=", "--resume=")
A_CENT = 0.01
CLOSE_ENOUGH = 0.05
"""Share of the cap by which a warm process may stop earlier than a new one; it may stop a cent later."""


TEXT_CONTEXT_BYTES = 100_000
"""The system takes 128 KiB for one argument, and `append_system_prompt` is part of it."""
TEXT_TOOLS = ("Read", "Glob", "Grep", "TaskCreate", "TaskUpdate", "TaskList")
"""Tools that change nothing: the only ones where people cannot be asked."""


def pooled_argv(
    config: ClaudeConfig, brief: Brief, session_id: str, tools: Sequence[str] | None = None
) -> list[str]:
    """Return the command line of a process that asks its host. `tools` is what PERMISSIONS.json leaves."""
    asks = ["--permission-prompt-tool", "stdio"]
    return [
        *_head(config),
        "--input-format",
        "stream-json",
        *_STREAMS,
        *asks,
        *_tail(config, brief, session_id, tools),
    ]


def text_argv(
    config: ClaudeConfig, brief: Brief, session_id: str, prompt: str, tools: Sequence[str] | None = None
) -> list[str]:
    """Return the command line for text mode. The prompt is in it, so this is for owners only."""
    return [*_head(config), "--output-format", "text", *_tail(config, brief, session_id, tools), "--", prompt]


def skip_problem(config: ClaudeConfig, *, is_root: bool) -> str:
    """Return why permissions cannot be skipped here; empty if they can, or need not be."""
    refused = config.dangerously_skip_permissions and is_root and not config.sandboxed
    return ROOT_MAY_NOT if refused else ""


def child_environment(
    config: ClaudeConfig, source: Mapping[str, str], brief: Brief, extra: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the environment. `ANTHROPIC_*` and tokens pass only if `environment` names them. HOME must be set: otherwise
    Claude takes the one of the user database, and with it another login."""
    own = {
        **_ENVIRONMENT,
        "CLAUDE_CODE_MAX_RETRIES": str(config.max_retries),
        "API_TIMEOUT_MS": str(round(config.api_timeout_s * 1000)),
    }
    if not config.background_tasks:
        own["CLAUDE_CODE_DISABLE_BACKGROUND_TASKS"] = "1"
    if config.sandboxed:
        own["IS_SANDBOX"] = "1"
    names = [*BASE_NAMES, "CLAUDE_CONFIG_DIR", *config.environment]
    return allowed_environment(source, names, {**own, **brief.environment, **(extra or {})})


def _head(config: ClaudeConfig) -> list[str]:
    return [config.command, "-p"]


def _tail(config: ClaudeConfig, brief: Brief, session_id: str, tools: Sequence[str] | None) -> list[str]:
    # The equals form: the value of --resume is optional, so one that begins with a dash would be another flag.
    session = f"--resume={brief.resume.value}" if brief.resume else f"--session-id={session_id}"
    surface = tools if tools is not None else config.tools
    settings, extra_args = split_settings(config.extra_args)
    return [
        session,
        *([] if (cap := turn_cap(config, brief)) is None else [f"{TURN_CAP}{cap:g}"]),
        *_values(config, brief),
        *([] if surface is None else ["--tools", ",".join(surface)]),
        *_lists(config, brief),
        *_switches(config, brief),
        "--settings",
        json.dumps(settings | _SETTINGS),
        *extra_args,
    ]


def turn_cap(config: ClaudeConfig, brief: Brief) -> float | None:
    """Return what the budget leaves for this turn, if that is less than the configured cap of a process."""
    left, fixed = brief.budget_usd, config.max_budget_usd
    return None if left is None or (fixed is not None and fixed <= left) else left


def appended_prompt(config: ClaudeConfig, brief: Brief) -> str:
    return "\n\n".join(filter(None, (config.append_system_prompt, brief.system_prompt)))


def _values(config: ClaudeConfig, brief: Brief) -> list[str]:
    fixed = config.max_budget_usd if turn_cap(config, brief) is None else None
    values = {
        MODEL: brief.model or config.model,
        "--fallback-model": config.fallback_model,
        "--max-budget-usd": None if fixed is None else f"{fixed:g}",
        "--max-turns": None if config.max_turns is None else str(config.max_turns),
        "--system-prompt": config.system_prompt,
        "--append-system-prompt": appended_prompt(config, brief) or None,
        "--system-prompt-snapshot": None if config.system_prompt_snapshot else "off",
        "--debug-file": config.debug_file,
        "--permission-mode": config.permission_mode,
        "--setting-sources": None if brief.trusted else "user",
    }
    return [word for flag, value in values.items() if value is not None for word in (flag, value)]


def _lists(config: ClaudeConfig, brief: Brief) -> list[str]:
    servers = [json.dumps({"mcpServers": dict(brief.mcp_servers)})] if brief.mcp_servers else []
    lists = {
        "--allowedTools": [",".join(config.allowed_tools)] if config.allowed_tools else [],
        "--disallowedTools": [",".join(dict.fromkeys([*REFUSED_TOOLS, *config.disallowed_tools]))],
        "--add-dir": [*config.add_dirs, *([brief.workspace] if config.group_dirs else [])],
        "--mcp-config": [*config.mcp_config, *servers],
    }
    return [word for flag, values in lists.items() for value in values for word in (flag, value)]


def _switches(config: ClaudeConfig, brief: Brief) -> list[str]:
    switches = {
        "--strict-mcp-config": config.strict_mcp_config or not brief.trusted,
        "--dangerously-skip-permissions": config.dangerously_skip_permissions,
    }
    return [flag for flag, on in switches.items() if on]


def unknown_flag(failure: Failure) -> str:
    """Return the flag that the program did not know; empty if that is not what happened."""
    found = _UNKNOWN.search(f"{failure.text}\n{failure.detail}")
    return found[1] if found else ""


def leave_out(argv: Sequence[str], flags: Iterable[str]) -> list[str]:
    """Return `argv` without these flags and their values."""
    missing, kept = set(flags), list[str]()
    words = iter(argv)
    for word in words:
        if word not in missing:
            kept.append(word)
        elif word not in _SWITCHES:
            next(words, None)
    return kept


def say_missing(flags: Iterable[str]) -> list[Notice]:
    return [
        Notice(
            "warning",
            "old_program",
            f"This Claude Code does not know {flag}: {WITHOUT[flag]}. Update it: {INSTALL}",
        )
        for flag in sorted(flags)
    ]


def explain_unknown(flag: str, failure: Failure) -> Failure:
    text = f"This Claude Code does not know {flag}, which its settings need. Update it: {INSTALL}"
    return Failure("bad_request", text, detail=failure.detail or failure.text)


class Launch(Struct, frozen=True):
    argv: tuple[str, ...]
    cwd: str
    environment: Mapping[str, str]
    session: str
    """The session's id: the one to resume, or a new one."""
    resumed: bool
    once: bool = False
    """The process ends with its turn, and is not pooled."""
    budget_usd: float | None = None
    """Money that the budget left at its start. Claude counts it for the process, not for the turn."""
    model: str | None = None
    mode: str = ""
    """The permission mode at the start; empty for Claude's own choice."""
    system_prompt: str = ""
    """Sent on stdin instead of `--append-system-prompt`: it may be long, and `ps` must not show it."""
    workspace: str = ""

    @property
    def key(self) -> tuple[object, ...]:
        """Everything that changes how a process behaves, except how it came to its session, and the model, which can be
        changed while it runs."""
        told = leave_out(self.argv, [MODEL])
        words = tuple(word for word in told if not word.startswith((*_SESSION_FLAGS, TURN_CAP)))
        return self.session, words, self.cwd, tuple(sorted(self.environment.items())), self.system_prompt

    @property
    def start(self) -> ProcessStart:
        return ProcessStart("claude session", self.argv, self.cwd, self.environment, self.workspace)


def plan_launch(
    config: ClaudeConfig,
    brief: Brief,
    source: Mapping[str, str],
    *,
    cwd: str,
    new_session: str,
    extra: Mapping[str, str],
    tools: Sequence[str] | None = None,
    once: bool = False,
    context: str = "",
    missing: Collection[str] = (),
) -> Launch:
    """`extra` is added to the environment: the node's marker, the folder of temporary files. `missing` are flags that the
    program does not know.

    A process for one turn reads stdin too, until the result: the gate and its asks use it like the prompt. With a
    `context`, Claude is told not to freeze it into the session, so that an owner's edit counts from the next turn on.
    """
    if context:
        config = msgspec.structs.replace(config, system_prompt_snapshot=False)
    session = brief.resume.value if brief.resume else new_session
    return Launch(
        tuple(leave_out(pooled_argv(config, brief, session, tools), missing)),
        cwd,
        child_environment(config, source, brief, extra),
        session,
        brief.resume is not None,
        once,
        budget_usd=turn_cap(config, brief),
        model=brief.model or config.model,
        mode=config.permission_mode or "",
        system_prompt="\n\n".join(filter(None, (appended_prompt(config, brief), context))) if context else "",
        workspace=brief.workspace,
    )


def plan_text_launch(
    config: ClaudeConfig,
    brief: Brief,
    source: Mapping[str, str],
    *,
    cwd: str,
    session: str,
    extra: Mapping[str, str],
    tools: Sequence[str],
    prompt: str,
    full_access: bool,
    context: str = "",
) -> Launch:
    """No call can be held back in text mode: full access allows everything, and every other mode only reading, without
    MCP servers. The `context` is in the command line too, cut to what the system takes."""
    if context:
        cut = context.encode("utf-8", "replace")[:TEXT_CONTEXT_BYTES].decode("utf-8", "ignore")
        told = "\n\n".join(filter(None, (brief.system_prompt, cut)))
        brief = msgspec.structs.replace(brief, system_prompt=told)
        config = msgspec.structs.replace(config, system_prompt_snapshot=False)
    if full_access:
        config = msgspec.structs.replace(
            config, allowed_tools=[*dict.fromkeys([*config.allowed_tools, *tools])]
        )
    else:
        config, brief = without_servers(msgspec.structs.replace(config, allowed_tools=[]), brief)
        tools = [tool for tool in tools if tool in TEXT_TOOLS]
    argv = text_argv(config, brief, session, prompt, tools)
    environment = child_environment(config, source, brief, extra)
    resumed = brief.resume is not None
    return Launch(tuple(argv), cwd, environment, session, resumed, once=True, workspace=brief.workspace)


def without_servers(config: ClaudeConfig, brief: Brief) -> tuple[ClaudeConfig, Brief]:
    """Name no MCP server, and ignore those that Claude would find by itself."""
    config = msgspec.structs.replace(config, mcp_config=[], strict_mcp_config=True)
    return config, msgspec.structs.replace(brief, mcp_servers={})


def has_same_cap(running: Launch, spent_usd: float, wanted: Launch) -> bool:
    """Return whether a process that has spent so much would stop about where a new one would."""
    if running.budget_usd is None or wanted.budget_usd is None:
        return running.budget_usd == wanted.budget_usd
    left = running.budget_usd - spent_usd
    return -max(A_CENT, CLOSE_ENOUGH * wanted.budget_usd) <= left - wanted.budget_usd <= A_CENT


def check_token(brief: Brief) -> None:
    """Raise `EngineError` for a token that is not one of this engine's: it must reach no command line."""
    token = brief.resume
    if token is None:
        return
    if token.engine != ENGINE_ID:
        text = (
            f"This session belongs to the engine {token.engine!r}, not to {ENGINE_ID!r}. Start a new session."
        )
        raise EngineError(Failure("stale_session", text))
    if not is_session_id(token.value):
        raise EngineError(Failure("stale_session", f"{token.value[:80]!r} is not a session of Claude Code."))


def is_session_id(value: str) -> bool:
    try:
        return str(uuid.UUID(value)) == value
    except ValueError:
        return False


def resuming(brief: Brief, session: str, cwd: str) -> Brief:
    return msgspec.structs.replace(brief, resume=ResumeToken(ENGINE_ID, session, cwd))
