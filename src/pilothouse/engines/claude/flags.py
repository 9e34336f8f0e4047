"""Configuration and brief -> the command line and the environment of a `claude` process. Pure.

Rules: a prompt stands in argv in text mode alone, behind `--`, for there it can neither be hidden from `ps` nor kept
from reading `@files`; an untrusted workspace brings neither settings nor hooks nor servers; no other session of Claude
reaches ours; what the environment may hold is a list of what it may, never of what it may not.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from pilothouse.core.engine import Brief
from pilothouse.engines.claude.config import REFUSED_TOOLS, ClaudeConfig, split_settings
from pilothouse.processes import BASE_NAMES, allowed_environment

ROOT_MAY_NOT = (
    "engines.claude.dangerously_skip_permissions is on and Pilothouse runs as root; Claude Code refuses that. "
    "Run it as another user, or set engines.claude.sandboxed = true if a container is the boundary."
)
SKIPS = "Claude Code runs WITHOUT asking for any permission (engines.claude.dangerously_skip_permissions)."

TURN_CAP = "--max-budget-usd="
"""The house's cap, which changes with every turn; the equals form tells it from the configured one."""
MODEL = "--model"
_STREAMS = ("--output-format", "stream-json", "--verbose", "--include-partial-messages")
_SETTINGS = {"crossSessionInbound": "refuse"}
"""Any other session of the same OS user could send ours a message, which starts a turn (Claude Code since 2.1.224)."""
_ENVIRONMENT = {
    "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS": "1",
    "CLAUDE_CODE_STARTUP_FAILURE_RESULTS": "1",
    "DISABLE_AUTOUPDATER": "1",
}


def pooled_argv(
    config: ClaudeConfig, brief: Brief, session_id: str, tools: Sequence[str] | None = None
) -> list[str]:
    """A process for many turns, or for one, that asks its host. `tools` is what is left after PERMISSIONS.json."""
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
    """For a CLI without stream-json. The prompt is in argv, so this is for owners alone."""
    return [*_head(config), "--output-format", "text", *_tail(config, brief, session_id, tools), "--", prompt]


def skip_problem(config: ClaudeConfig, *, is_root: bool) -> str:
    """Why permissions cannot be skipped here; empty if they can, or need not be."""
    refused = config.dangerously_skip_permissions and is_root and not config.sandboxed
    return ROOT_MAY_NOT if refused else ""


def child_environment(
    config: ClaudeConfig, source: Mapping[str, str], brief: Brief, extra: Mapping[str, str] | None = None
) -> dict[str, str]:
    """`ANTHROPIC_*` and tokens pass only where `environment` names them. HOME must be there: without it the CLI
    takes the one of the user database, and with it another login."""
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
    # The equals form: the value of --resume is optional, so one that began with a dash would be another flag.
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
    """What the house has left for this turn, where that is less than the configured cap of a process."""
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
