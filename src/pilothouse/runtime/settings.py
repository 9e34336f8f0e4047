"""What the verbs may be told by configuration. The file's shape is config's; this is what is left of it here."""

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
    """Every name that people may say, aliases too, and the engine it means."""
    resume_lines: Mapping[EngineId, ResumeLines] = field(default_factory=dict)
    """Of the engines whose sessions people can also continue by hand."""
    workspaces: Mapping[str, str] = field(default_factory=dict)
    """The folders that the configuration names, by name."""
    people: People = field(default_factory=People)
    approvals: Mapping[ToolClass, Approvers] = field(
        default_factory=lambda: {"ordinary": ORDINARY, "destructive": DESTRUCTIVE}
    )
    join_asks: bool = True
    """Whether a stranger's first message asks an owner to let them in."""
    busy: BusyPolicy = "collect"
    threads: ThreadSessions = "own"
    """Whether a thread goes on in a session of its own, or in its place's."""
    mode_in: Callable[[str], ApprovalMode | None] = no_mode
    """The approval mode that is configured for a workspace; None where nobody said."""
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
    """What ends a channel that hangs, besides the time for the bytes: a channel's own limits, and its waits for its
    platform's pace, end sooner."""
    drain_s: float = 5.0
    lease_s: float = 10.0
    poll_s: float = 1.0
    flush_s: float = 0.1
    first_view_s: float = 2.0
    """A turn that is over sooner shows its answer alone: a view that flashes by helps nobody."""
    edit_every_s: float = 1.25
    retention_s: float = 30 * 86_400.0
    engine_commands: bool = False
    show_cost: bool = True
    resume_lost: bool = True
    """A safe start runs nothing again that a crash cut short."""
    caps: Caps = Caps()
    zone: tzinfo = UTC
    """Where a day of the budget begins."""
    messages_per_minute: int | None = None
    """What one person may send; None is as much as they like."""
    known_channels: tuple[ChannelId, ...] = ()
    """Channels that some node may serve. Mail for any other is an error, never "delivered"."""


class Briefer(Protocol):
    """What an engine is told besides the prompt: the workspace's record, its environment, its servers."""

    def __call__(self, conversation_id: ConversationId, brief: Brief) -> Brief: ...


def backoff_s(settings: Settings, attempt: int) -> float:
    """Doubles from the first delay up to the cap; `attempt` counts from one."""
    return growing_s(settings.retry_first_s, settings.retry_cap_s, attempt)


def growing_s(first_s: float, cap_s: float, attempt: int) -> float:
    return min(cap_s, first_s * 2.0 ** min(64, max(0, attempt - 1)))
