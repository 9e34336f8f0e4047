"""Runtime settings, made from the configuration. The format of the file belongs to `config`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, tzinfo
from typing import Protocol

from msgspec import Struct, field

from pilothouse.core.budget import Caps
from pilothouse.core.conversation import BusyPolicy, ThreadSessions
from pilothouse.core.engine import Brief, ResumeLines
from pilothouse.core.ids import ChannelId, ConversationId, EngineId
from pilothouse.core.people import DESTRUCTIVE, ORDINARY, Approvers, People
from pilothouse.core.policy import ApprovalMode, ToolClass


def no_mode(workspace: str) -> ApprovalMode | None:
    return None


class Settings(Struct, frozen=True):
    default_engine: EngineId
    default_workspace: str
    engine_names: Mapping[str, EngineId] = field(default_factory=dict)
    """Engines by every name that people may use, including aliases."""
    resume_lines: Mapping[EngineId, ResumeLines] = field(default_factory=dict)
    """For engines whose sessions can also be continued by hand."""
    workspaces: Mapping[str, str] = field(default_factory=dict)
    """Configured folders, by name."""
    people: People = field(default_factory=People)
    approvals: Mapping[ToolClass, Approvers] = field(
        default_factory=lambda: {"ordinary": ORDINARY, "destructive": DESTRUCTIVE}
    )
    join_asks: bool = True
    """A stranger's first message asks an owner to admit them."""
    busy: BusyPolicy = "collect"
    threads: ThreadSessions = "own"
    """A thread has its own session, or shares that of its place."""
    mode_in: Callable[[str], ApprovalMode | None] = no_mode
    """The approval mode configured for a workspace, if any."""
    max_turns_at_once: int = 8
    max_attempts: int = 3
    max_message_chars: int = 200_000
    batch_limit: int = 20
    retry_first_s: float = 2.0
    retry_cap_s: float = 60.0
    doubt_cap_s: float = 300.0
    """Maximum pause before an unconfirmed message is sent again."""
    grace_s: float = 10.0
    stop_grace_s: float = 5.0
    hang_after_s: float = 600.0
    ask_timeout_s: float = 600.0
    question_timeout_s: float = 300.0
    send_timeout_s: float = 180.0
    """The limit for one send, besides the transfer time of files. The channel's own timeouts are shorter."""
    drain_s: float = 5.0
    lease_s: float = 10.0
    poll_s: float = 1.0
    flush_s: float = 0.1
    first_view_s: float = 2.0
    """A turn that ends sooner shows only its answer, without a live view."""
    edit_every_s: float = 1.25
    retention_s: float = 30 * 86_400.0
    engine_commands: bool = False
    show_cost: bool = True
    resume_lost: bool = True
    """False for a safe start, which does not run lost turns again."""
    caps: Caps = Caps()
    zone: tzinfo = UTC
    """The time zone of the budget's days."""
    messages_per_minute: int | None = None
    """The rate limit per person; None is no limit."""
    known_channels: tuple[ChannelId, ...] = ()
    """Channels that some node may serve. A message for any other is an error, never "delivered"."""


class Briefer(Protocol):
    """Completes a brief with the workspace's configuration, environment and MCP servers."""

    def __call__(self, conversation_id: ConversationId, brief: Brief) -> Brief: ...


def backoff_s(settings: Settings, attempt: int) -> float:
    """Double the delay from the first one up to the cap; `attempt` counts from one."""
    return exponential_s(settings.retry_first_s, settings.retry_cap_s, attempt)


def exponential_s(first_s: float, cap_s: float, attempt: int) -> float:
    return min(cap_s, first_s * 2.0 ** min(64, max(0, attempt - 1)))
