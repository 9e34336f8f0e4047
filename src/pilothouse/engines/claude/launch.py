"""What a `claude` process is started with, and what makes two of them the same. Pure."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence

import msgspec
from msgspec import Struct

from pilothouse.core.engine import Brief
from pilothouse.core.errors import EngineError
from pilothouse.core.event import ResumeToken
from pilothouse.core.outcome import Failure
from pilothouse.engines.claude.config import ClaudeConfig
from pilothouse.engines.claude.flags import (
    MODEL,
    TURN_CAP,
    appended_prompt,
    child_environment,
    pooled_argv,
    text_argv,
    turn_cap,
)
from pilothouse.engines.claude.old_programs import leave_out
from pilothouse.engines.claude.turns import ENGINE_ID

_SESSION_FLAGS = ("--session-id=", "--resume=")
A_CENT = 0.01
CLOSE_ENOUGH = 0.05
"""A warm process may stop so much earlier than a new one would, and no more than a cent later."""


class Launch(Struct, frozen=True):
    argv: tuple[str, ...]
    cwd: str
    environment: Mapping[str, str]
    session: str
    """The session's id: the one to resume, or the one that we chose for it."""
    resumed: bool
    once: bool = False
    """It ends with its turn; such a process waits in no pool."""
    budget_usd: float | None = None
    """What the house had left when it was started: Claude counts it for the process, not for the turn."""
    model: str | None = None
    mode: str = ""
    """The permission mode that it starts in; empty for Claude's own choice."""
    system_prompt: str = ""
    """What is told on stdin instead of `--append-system-prompt`: it may be long, and is nobody's business in `ps`."""

    @property
    def key(self) -> tuple[object, ...]:
        """Everything that changes how a process behaves, but not how it came to its session, nor its model: that can be
        changed while it lives."""
        told = leave_out(self.argv, [MODEL])
        words = tuple(word for word in told if not word.startswith((*_SESSION_FLAGS, TURN_CAP)))
        return self.session, words, self.cwd, tuple(sorted(self.environment.items())), self.system_prompt


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
    """`extra` is ours in the environment: the marker of this node, where temporary files go. `missing` are flags that the
    program does not know.

    Also a process for one turn speaks on stdin: its input stays open until the result, for the gate and its asks go
    the same way as the prompt. Where there is a `context`, Claude is told not to freeze it into the session, so that
    what an owner edits counts from the next turn on.
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
    )


TEXT_CONTEXT_BYTES = 100_000
"""The system takes 128 KiB for one argument, and `append_system_prompt` is part of it."""
TEXT_TOOLS = ("Read", "Glob", "Grep", "TaskCreate", "TaskUpdate", "TaskList")
"""What changes nothing: all there is where nobody can be asked."""


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
    """No call can be held back in text mode: with full access everything is allowed, else there is nothing but reading,
    and no server. The `context` stands in the command line too, as far as the system takes it."""
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
    return Launch(tuple(argv), cwd, environment, session, brief.resume is not None, once=True)


def without_servers(config: ClaudeConfig, brief: Brief) -> tuple[ClaudeConfig, Brief]:
    """No server is named, and those that Claude would find by itself do not count."""
    config = msgspec.structs.replace(config, mcp_config=[], strict_mcp_config=True)
    return config, msgspec.structs.replace(brief, mcp_servers={})


def caps_as(running: Launch, spent_usd: float, wanted: Launch) -> bool:
    """Whether a process that has spent so much would stop where a new one would: no dearer, and hardly earlier."""
    if running.budget_usd is None or wanted.budget_usd is None:
        return running.budget_usd == wanted.budget_usd
    left = running.budget_usd - spent_usd
    return -max(A_CENT, CLOSE_ENOUGH * wanted.budget_usd) <= left - wanted.budget_usd <= A_CENT


def check_token(brief: Brief) -> None:
    """A token that cannot be one of ours reaches no command line."""
    token = brief.resume
    if token is None:
        return
    if token.engine != ENGINE_ID:
        text = (
            f"This session belongs to the engine {token.engine!r}, not to {ENGINE_ID!r}. Start a new session."
        )
        raise EngineError(Failure("stale_session", text))
    if not is_session_id(token.value):
        raise EngineError(Failure("stale_session", f"{token.value[:80]!r} is no session of Claude Code."))


def is_session_id(value: str) -> bool:
    try:
        return str(uuid.UUID(value)) == value
    except ValueError:
        return False


def resuming(brief: Brief, session: str, cwd: str) -> Brief:
    return msgspec.structs.replace(brief, resume=ResumeToken(ENGINE_ID, session, cwd))
