"""Runtime settings, made from the configuration. The format of the file belongs to `config`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, tzinfo

from msgspec import Struct, field

from pilothouse.core.budget import Caps
from pilothouse.core.conversation import BusyPolicy, ThreadSessions
from pilothouse.core.engine import ResumeLines, TrustedFile
from pilothouse.core.ids import ChannelId, EngineId
from pilothouse.core.message import Address
from pilothouse.core.people import DESTRUCTIVE, ORDINARY, OWNERS, Approvers, People
from pilothouse.core.policy import ApprovalMode, ToolClass


def no_mode(workspace: str) -> ApprovalMode | None:
    return None


def all_isolated(workspace: str) -> str:
    return ""


def ignore_trust(real: str, trusted: bool, jail: bool) -> None:
    """Do nothing."""


def no_isolation(workspace: str, engine: EngineId) -> str:
    return ""


def no_context_files(workspace: str, trusted: bool) -> tuple[str, ...]:
    return ()


def any_mode(workspace: str) -> ApprovalMode:
    return "full-access"


class EngineChoice(Struct, frozen=True):
    """None means "as configured"."""

    engine: EngineId | None = None
    model: str | None = None


class Settings(Struct, frozen=True):
    default_engine: EngineId
    default_workspace: str
    engine_names: Mapping[str, EngineId] = field(default_factory=dict)
    """Engines by every name that people may use, including aliases."""
    engine_titles: Mapping[EngineId, str] = field(default_factory=dict)
    """The name of each engine in sentences, as in “Claude wants to run …”."""
    resume_lines: Mapping[EngineId, ResumeLines] = field(default_factory=dict)
    """For engines whose sessions can also be continued by hand."""
    fallback_models: Mapping[EngineId, str] = field(default_factory=dict)
    """The model with which an engine's turn begins again where the chosen one is overloaded or used up. Engines that
    switch by themselves have none."""
    compact_lines: Mapping[EngineId, str] = field(default_factory=dict)
    """The message that makes an engine compact its session, for `/compact`. Engines that cannot have none."""
    workspaces: Mapping[str, str] = field(default_factory=dict)
    """Configured folders, by name."""
    roots: tuple[str, ...] = ()
    """Resolved folders; every folder below one of them may be chosen from a chat."""
    settings_dirs: Mapping[str, str] = field(default_factory=dict)
    """By the resolved folder of a configured workspace: the folder with the owner's files about it."""
    destinations: Mapping[str, Mapping[str, Address]] = field(default_factory=dict)
    """By the resolved folder of a workspace: other places that its agents may write to, by name."""
    agents: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By the resolved folder of a workspace: the names of the workspaces whose agents its own may ask."""
    engines_in: Mapping[str, EngineChoice] = field(default_factory=dict)
    """By the resolved folder of a workspace: the engine that answers other agents there."""
    follow_up_depth: int = 3
    """Turns in a row that the gateway may start by itself."""
    agent_hops: int = 5
    """The most times that agents may pass on the work of one turn."""
    agent_messages: int = 30
    """Messages between agents, and follow-ups, that one turn may cause."""
    trusted_files: tuple[TrustedFile, ...] = ()
    """The files that engines obey in a trusted folder only."""
    people: People = field(default_factory=People)
    approvals: Mapping[ToolClass, Approvers] = field(
        default_factory=lambda: {"ordinary": ORDINARY, "destructive": DESTRUCTIVE, "own": OWNERS}
    )
    join_asks: bool = True
    """A stranger's first message asks an owner to admit them."""
    busy: BusyPolicy = "collect"
    threads: ThreadSessions = "own"
    """A thread has its own session, or shares that of its place."""
    mode_in: Callable[[str], ApprovalMode | None] = no_mode
    """The approval mode configured for a workspace, if any."""
    widest_in: Callable[[str], ApprovalMode] = any_mode
    """The widest approval mode that a workspace accepts."""
    isolation_of: Callable[[str, EngineId], str] = no_isolation
    """Says how an engine is shut in in a workspace; empty if it is not meant to be."""
    missing_isolation: Callable[[str], str] = all_isolated
    """Says that agents run in a workspace without the isolation that was configured; empty if they do not."""
    note_trust: Callable[[str, bool, bool], None] = ignore_trust
    """Hears, before each turn, whether a resolved folder is trusted, and whether its owner chose a jail for it."""
    context_files_in: Callable[[str, bool], tuple[str, ...]] = no_context_files
    """The files that belong to the system prompt in a workspace, which is trusted or not."""
    max_turns_at_once: int = 32
    max_attempts: int = 3
    max_message_chars: int = 200_000
    batch_limit: int = 20
    outage_pauses_s: tuple[float, ...] = (15.0, 60.0, 180.0, 600.0, 1500.0)
    """Pauses before the attempts of a turn whose vendor cannot be reached, is overloaded, or limits the rate."""
    retry_first_s: float = 2.0
    retry_cap_s: float = 60.0
    doubt_cap_s: float = 300.0
    """Maximum pause before an unconfirmed message is sent again."""
    grace_s: float = 10.0
    stop_grace_s: float = 5.0
    hang_after_s: float = 600.0
    ask_timeout_s: float = 12 * 3600.0
    question_timeout_s: float = 12 * 3600.0
    hold_s: float = 600.0
    """A turn that waited this long for an answer gives up its process; the answer starts it again."""
    question_park_s: float = 480.0
    """A tool call that waited this long for a person's answer returns; the answer then comes as a message."""
    send_timeout_s: float = 180.0
    """The limit for one send, besides the transfer time of files. The channel's own timeouts are shorter."""
    drain_s: float = 5.0
    lease_s: float = 30.0
    poll_s: float = 1.0
    """The pause between two looks at the store while there is work, and after a look that failed. Without work, tasks wait
    for a signal."""
    flush_s: float = 0.1
    first_view_s: float = 2.0
    """A turn that ends sooner shows only its answer, without a live view."""
    edit_every_s: float = 1.25
    retention_s: float = 30 * 86_400.0
    transcript_s: float = 365 * 86_400.0
    """Time after its last entry that a transcript is kept; 0 keeps none."""
    transcript_files: bool = True
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
    machine: str = "the machine of this gateway"
    """The name of this machine, for people who are elsewhere."""
    demo_engine: EngineId | None = None
    """The engine that only stands in until a real one works."""


def backoff_s(settings: Settings, attempt: int) -> float:
    """Double the delay from the first one up to the cap; `attempt` counts from one."""
    return exponential_s(settings.retry_first_s, settings.retry_cap_s, attempt)


def exponential_s(first_s: float, cap_s: float, attempt: int) -> float:
    return min(cap_s, first_s * 2.0 ** min(64, max(0, attempt - 1)))
