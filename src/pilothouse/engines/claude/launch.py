"""Configuration and brief -> the command line and the environment of a `claude` process. Pure, but for `use_scratch`.

Rules: a prompt stands in argv in text mode only, behind `--`: `ps` shows it there, and it can read `@files`. An untrusted
workspace brings no settings, hooks or servers. No other session of Claude reaches ours. The environment passes by an allowlist. If the program does not know a
flag, one that can be spared is left out, with a notice, and any other ends the turn; nothing is left out that narrows
what Claude may do or spend.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from pilothouse.core.engine import Brief, ProcessStart
from pilothouse.core.errors import EngineError
from pilothouse.core.event import ResumeToken
from pilothouse.core.isolation import OPEN, Isolation, Needs
from pilothouse.core.outcome import Failure
from pilothouse.engines.claude.config import ENGINE_ID, REFUSED_TOOLS, ClaudeConfig, split_settings
from pilothouse.engines.claude.jail import session_needs
from pilothouse.engines.claude.old_program import leave_out
from pilothouse.engines.resume_lines import is_uuid
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

_KEYS = re.compile(
    r"(?:ANTHROPIC|CLAUDE|OPENAI|CODEX|TELEGRAM|DISCORD|PILOTHOUSE)_\w*(?:KEY|TOKEN|SECRET|PASSWORD|HEADERS)|AWS_BEARER_TOKEN_\w+"
)

_SERVER_SECRET = "PILOTHOUSE_MCP_{number}_SECRET"  # noqa: S105 - the name of a variable
"""A variable with one header, or one variable, of an MCP server."""
_UNSET_SECRETS = """\
for name in $(env | sed -n 's/^\\(PILOTHOUSE_MCP_[0-9]*_SECRET\\)=.*/\\1/p'); do unset -v "$name"; done
"""
_SECRET_PARTS = ("headers", "env")
_SESSION_FLAGS = ("--session-id=", "--resume=", "--resume-session-at=", "--fork-session")
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
    more = {**own, **_server_secrets(brief), **brief.environment, **(extra or {})}
    return allowed_environment(source, names, more)


def use_scratch(folder: str, environment: Iterable[str]) -> dict[str, str]:
    """Write a script that Claude Code runs before each command: commands need none of its keys, or ours. Return the variables
    that name the folder and the script."""
    names = ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"]
    found = dict.fromkeys([*names, *filter(_KEYS.fullmatch, environment)])
    script = Path(folder, "commands.sh")
    script.write_text(f"unset -v {' '.join(found)}\n{_UNSET_SECRETS}")
    return {"CLAUDE_CODE_TMPDIR": folder, "CLAUDE_ENV_FILE": str(script)}


def _head(config: ClaudeConfig) -> list[str]:
    return [config.command, "-p"]


def _tail(config: ClaudeConfig, brief: Brief, session_id: str, tools: Sequence[str] | None) -> list[str]:
    surface = tools if tools is not None else config.tools
    settings, extra_args = split_settings(config.extra_args)
    return [
        *_session_words(brief, session_id),
        *([] if (cap := turn_cap(config, brief)) is None else [f"{TURN_CAP}{cap:g}"]),
        *_values(config, brief),
        *([] if surface is None else ["--tools", ",".join(surface)]),
        *_lists(config, brief),
        *_switches(config, brief),
        "--settings",
        json.dumps(settings | _SETTINGS),
        *extra_args,
    ]


def _session_words(brief: Brief, session_id: str) -> list[str]:
    """Name the session to begin or to resume. One that is resumed at a point becomes a new one."""
    if brief.resume is None:
        return [f"--session-id={session_id}"]
    # The equals form: the value of --resume is optional, so one that begins with a dash would be another flag.
    resumed = f"--resume={brief.resume.value}"
    if not brief.resume_at:
        return [resumed]
    return [
        resumed,
        "--fork-session",
        f"--session-id={session_id}",
        f"--resume-session-at={brief.resume_at}",
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
        MODEL: (model := brief.model or config.model),  # some versions refuse the same one twice
        "--fallback-model": None if config.fallback_model == model else config.fallback_model,
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
    servers = [json.dumps({"mcpServers": _named_servers(brief)})] if brief.mcp_servers else []
    lists = {
        "--allowedTools": [",".join(config.allowed_tools)] if config.allowed_tools else [],
        "--disallowedTools": [",".join(dict.fromkeys([*REFUSED_TOOLS, *config.disallowed_tools]))],
        "--add-dir": [*config.add_dirs, *([brief.workspace] if config.group_dirs else [])],
        "--mcp-config": [*config.mcp_config, *servers],
    }
    return [word for flag, values in lists.items() for value in values for word in (flag, value)]


def _named_servers(brief: Brief) -> dict[str, Any]:
    """Return the servers of the brief without headers and variables: `ps` shows a command line to everybody."""
    names = {place: name for name, (place, _) in _secrets(brief).items()}
    found: dict[str, Any] = {}
    for server, given in brief.mcp_servers.items():
        found[server] = {key: value for key, value in given.items() if key != "stdio"}
        for part in _SECRET_PARTS:
            if given.get(part):
                found[server][part] = {key: f"${{{names[server, part, key]}}}" for key in given[part]}
    return found


def _server_secrets(brief: Brief) -> dict[str, str]:
    return {name: value for name, (_, value) in _secrets(brief).items()}


def _secrets(brief: Brief) -> dict[str, tuple[tuple[str, str, str], str]]:
    """Return the variables: the server, the part of it and the key that each stands for, and its value."""
    found = [
        ((server, part, key), str(value))
        for server, given in brief.mcp_servers.items()
        for part in _SECRET_PARTS
        for key, value in (given.get(part) or {}).items()
    ]
    return {_SERVER_SECRET.format(number=number): one for number, one in enumerate(found, 1)}


def _switches(config: ClaudeConfig, brief: Brief) -> list[str]:
    switches = {
        "--strict-mcp-config": config.strict_mcp_config or not brief.trusted,
        "--dangerously-skip-permissions": config.dangerously_skip_permissions,
    }
    return [flag for flag, on in switches.items() if on]


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
    trusted: bool = False
    needs: Needs = Needs()
    isolation: Isolation = OPEN

    @property
    def key(self) -> tuple[object, ...]:
        """Everything that changes how a process behaves, except how it came to its session, and the model, which can be
        changed while it runs."""
        told = leave_out(self.argv, [MODEL])
        words = tuple(word for word in told if not word.startswith((*_SESSION_FLAGS, TURN_CAP)))
        environment = tuple(sorted(self.environment.items()))
        place = self.cwd, self.trusted, self.isolation
        return self.session, words, *place, environment, self.system_prompt

    @property
    def server(self) -> str:
        """The address of the API, as far as the environment names it."""
        return urlsplit(self.environment.get("ANTHROPIC_BASE_URL", "")).netloc or "api.anthropic.com"

    @property
    def start(self) -> ProcessStart:
        place = (self.cwd, self.environment, self.workspace, self.trusted, self.needs, self.isolation)
        return ProcessStart("claude session", self.argv, *place)


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
    session = brief.resume.value if brief.resume and not brief.resume_at else new_session
    environment = child_environment(config, source, brief, extra)
    return Launch(
        tuple(leave_out(pooled_argv(config, brief, session, tools), missing)),
        cwd,
        environment,
        session,
        brief.resume is not None,
        once,
        budget_usd=turn_cap(config, brief),
        model=brief.model or config.model,
        mode=config.permission_mode or "",
        system_prompt="\n\n".join(filter(None, (appended_prompt(config, brief), context))) if context else "",
        workspace=brief.workspace,
        trusted=brief.trusted,
        needs=session_needs(environment, cwd, brief, config.add_dirs),
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
    resumed, place = brief.resume is not None, brief.workspace
    needs = session_needs(environment, cwd, brief, config.add_dirs)
    return Launch(
        tuple(argv),
        cwd,
        environment,
        session,
        resumed,
        once=True,
        workspace=place,
        trusted=brief.trusted,
        needs=needs,
    )


def without_servers(
    config: ClaudeConfig, brief: Brief, *, but: Collection[str] = ()
) -> tuple[ClaudeConfig, Brief]:
    """Name no MCP server, and ignore those that Claude would find by itself."""
    config = msgspec.structs.replace(config, mcp_config=[], strict_mcp_config=True)
    left = {name: server for name, server in brief.mcp_servers.items() if name in but}
    return config, msgspec.structs.replace(brief, mcp_servers=left)


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
    if not is_uuid(token.value):
        raise EngineError(Failure("stale_session", f"{token.value[:80]!r} is not a session of Claude Code."))
    if brief.resume_at and not is_uuid(brief.resume_at):
        raise EngineError(
            Failure("bad_request", f"{brief.resume_at[:80]!r} is not a message of Claude Code.")
        )


def resuming(brief: Brief, session: str, cwd: str) -> Brief:
    return msgspec.structs.replace(brief, resume=ResumeToken(ENGINE_ID, session, cwd), resume_at="")
