"""The types of the configuration. The sections of adapters are not here: the caller passes their types in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from pilothouse.core.conversation import BusyPolicy, ThreadSessions
from pilothouse.core.isolation import Container, Kind, Limits, Network, WhenMissing
from pilothouse.core.mcp import McpServer
from pilothouse.core.people import DESTRUCTIVE, ORDINARY, Approver, Approvers
from pilothouse.core.policy import ApprovalMode

Level = Literal["debug", "info", "warning", "error"]
Person = Annotated[
    str,
    Meta(pattern=r"^[^:\s]+:\S+$", description='texts of the form channel:id, such as "telegram:12345"'),
]
Seconds = Annotated[float, Meta(gt=0, description="a number of seconds above 0")]
Count = Annotated[int, Meta(ge=1, description="a whole number of at least 1")]

Folder = Annotated[str, Meta(pattern=r"^(~|/)", description='paths from "/" or "~", such as "~/projects"')]

AUTO = "auto"
ALWAYS_ON = "terminal"


class GatewaySection(Struct, frozen=True):
    """`[gateway]`. The engine `auto` is the first real one available, else the scripted one."""

    default_engine: str = AUTO
    default_workspace: str = ""
    busy: BusyPolicy = "collect"
    threads: ThreadSessions = "own"
    max_turns_at_once: Count | None = None
    grace_s: Seconds = 10.0
    hang_after_s: Seconds = 600.0
    max_message_chars: Count = 200_000
    retention_days: Count = 30
    transcript_days: Annotated[int, Meta(ge=0, description="a whole number of at least 0")] = 365
    transcript_files: bool = True
    max_attempts: Count = 3
    engine_commands: bool = False
    ask_timeout_s: Seconds = 43_200.0
    question_timeout_s: Seconds = 43_200.0
    hold_s: Seconds = 600.0
    question_park_s: Seconds = 480.0
    mcp_login_s: Seconds = 180.0
    show_cost: bool = True
    roots: tuple[Folder, ...] = ()


Dollars = Annotated[float, Meta(gt=0, description="a number of dollars above 0")]


class BudgetSection(Struct, frozen=True):
    """`[budget]`, in dollars per day. Unset means no cap."""

    all_usd: Dollars | None = None
    workspace_usd: Dollars | None = None
    conversation_usd: Dollars | None = None
    least_usd: Dollars = 0.05
    more_usd: Dollars | None = None
    time_zone: str = "UTC"


class LimitsSection(Struct, frozen=True):
    """`[limits]`. No messages per minute means no limit."""

    messages_per_minute: Annotated[int, Meta(ge=0, description="a whole number of at least 0")] = 60
    follow_up_depth: Count = 3
    agent_hops: Count = 5
    agent_messages: Count = 30


class PeopleSection(Struct, frozen=True):
    """`[people]`. Everyone who is in no list and has no grant is a stranger."""

    owners: tuple[Person, ...] = ()
    admins: tuple[Person, ...] = ()
    members: tuple[Person, ...] = ()
    join_asks: bool = True


class DestructiveSection(Approvers, frozen=True):
    """`[approvals.destructive]`. Setting one key leaves the defaults of the others."""

    roles: tuple[Approver, ...] = DESTRUCTIVE.roles


class ApprovalsSection(Struct, frozen=True):
    """`[approvals.ordinary]`, `[approvals.destructive]`: who may allow which class of tools."""

    ordinary: Approvers = ORDINARY
    destructive: DestructiveSection = DestructiveSection()


class PolicySection(Struct, frozen=True):
    """`[policy]`. Rules for every workspace, and the default approval mode."""

    rules: tuple[str, ...] = ()
    approval_mode: ApprovalMode | None = None


Host = Annotated[
    str,
    Meta(
        pattern=r"^(\*\.)?[^\s/:*]+(:\d+)?$|^\[[0-9a-fA-F:]+\](:\d+)?$",
        description='names of hosts, such as "docs.example.com", "*.example.org" or "example.org:8443"',
    ),
]


class IsolationSection(Struct, frozen=True):
    """`[isolation]`, for every workspace that has no settings of its own. Lists add to those of a workspace."""

    kind: Kind = "auto"
    allow_read: tuple[Folder, ...] = ()
    allow_write: tuple[Folder, ...] = ()
    network: Network = "open"
    allow_hosts: tuple[Host, ...] = ()
    when_missing: WhenMissing = "refuse"
    limits: Limits = Limits()
    container: Container = Container()


class LogSection(Struct, frozen=True):
    """`[log]`. An empty `file` means the platform's log folder."""

    level: Level = "info"
    file: str = ""
    max_mb: Annotated[float, Meta(gt=0, description="a number above 0")] = 10.0
    keep: Annotated[int, Meta(ge=0, description="a whole number of at least 0")] = 5


class WorkspaceSection(Struct, frozen=True):
    """`[workspaces.<name>]`. None means "as in [gateway]"."""

    path: str
    engine: str | None = None
    model: str | None = None
    busy: BusyPolicy | None = None
    admins: tuple[Person, ...] = ()
    members: tuple[Person, ...] = ()
    rules: tuple[str, ...] = ()
    approval_mode: ApprovalMode | None = None
    destinations: Mapping[str, str] = field(default_factory=dict)
    """Other places that agents of this workspace may write to: a name, and `CHANNEL:PLACE` or `CHANNEL:PLACE#THREAD`."""
    agents: tuple[str, ...] = ()
    """Names of workspaces whose agents those of this one may ask."""
    isolation: Kind | None = None
    allow_read: tuple[Folder, ...] = ()
    allow_write: tuple[Folder, ...] = ()
    network: Network | None = None
    allow_hosts: tuple[Host, ...] = ()
    limits: Limits = Limits()
    container: Container = Container()


class McpSection(Struct, frozen=True):
    """`[mcp.servers.<id>]`."""

    servers: Mapping[str, McpServer] = field(default_factory=dict)


class Adapter(Struct, frozen=True):
    """`[engines.<id>]`, `[channels.<id>]`, `[store]`. `settings` has the adapter's type, or is a dict if none was given."""

    id: str
    enabled: bool
    settings: Any


class Config(Struct, frozen=True):
    gateway: GatewaySection
    people: PeopleSection
    approvals: ApprovalsSection
    policy: PolicySection
    log: LogSection
    store: Adapter
    engines: Mapping[str, Adapter] = field(default_factory=dict)
    channels: Mapping[str, Adapter] = field(default_factory=dict)
    workspaces: Mapping[str, WorkspaceSection] = field(default_factory=dict)
    budget: BudgetSection = BudgetSection()
    limits: LimitsSection = LimitsSection()
    mcp: McpSection = McpSection()
    isolation: IsolationSection = IsolationSection()


SectionTypes = Mapping[str, type[Struct] | None]


class Models(Struct, frozen=True):
    """Section types of the adapters by id. The type None is an adapter that did not load.

    The group None was not loaded: its sections stay plain dicts, and its names are not checked.
    """

    engines: SectionTypes | None = None
    channels: SectionTypes | None = None
    stores: SectionTypes | None = None
    engine_aliases: Mapping[str, str] = field(default_factory=dict)
    person_problem: Callable[[str], str] | None = None
    """Tells why a `channel:id` cannot be a person; empty if it can."""
