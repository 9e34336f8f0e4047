"""Isolation of a workspace's agents, as configured, and the needs of a program inside. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct, field

Kind = Literal["none", "auto", "jail", "container"]
Network = Literal["open", "model", "none"]
WhenMissing = Literal["refuse", "open"]

KINDS: tuple[Kind, ...] = ("none", "auto", "jail", "container")
NETWORKS: tuple[Network, ...] = ("open", "model", "none")
"""Both from the loosest to the tightest."""
WORKSPACE_FILE_NAME = ".pilothouse.toml"
"""A workspace's own settings, which may narrow the operator's."""
UPLOADS = ".pilothouse/uploads"
"""The folder of the workspace where a jail shows files that people sent. On the machine they lie elsewhere."""
INSIDE_USER = 1000
"""The user id that a jail of root shows: programs such as Claude Code refuse some things to root."""


def inside_user(user: int) -> int:
    """Return the user id that a program of this user has inside of a jail."""
    return user or INSIDE_USER


AtLeast16 = Annotated[int, Meta(ge=16, description="a whole number of at least 16")]
AtLeast64 = Annotated[int, Meta(ge=64, description="a whole number of at least 64")]


class Limits(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Limits on all that one jail uses; open files count for each process. None is the default."""

    processes: AtLeast16 | None = None
    open_files: AtLeast64 | None = None
    memory_mb: AtLeast64 | None = None


NO_LIMITS = Limits()
"""The defaults alone."""


class Container(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Settings of containers. Without an image and a root folder they show this machine's own system, read-only."""

    runtime: str = ""
    """`podman`, `docker`, or a path; empty for the one that is found."""
    image: str = ""
    rootfs: str = ""
    global_folder: str = ""
    """Shown as /workspace/global. Its CLAUDE.md is part of the system prompt."""


class Isolation(Struct, frozen=True):
    """`allow_hosts` may be reached besides the model's when the network is "model". Paths are absolute."""

    kind: Kind = "none"
    allow_read: tuple[str, ...] = ()
    allow_write: tuple[str, ...] = ()
    network: Network = "open"
    allow_hosts: tuple[str, ...] = ()
    when_missing: WhenMissing = "refuse"
    limits: Limits = Limits()
    own_limits: Limits = Limits()
    """Limits from the workspace's own file: they count where they are lower."""
    container: Container = Container()

    @property
    def confines(self) -> bool:
        return self.kind != "none"


def tightened(
    isolation: Isolation, kind: Kind | None, network: Network | None, limits: Limits = NO_LIMITS
) -> Isolation:
    """Return the tighter of what the operator set and what a workspace's own file wishes. Where the file wishes more than the
    operator set and that is not available, nothing is started: else it could trade a jail for nothing. Nor does it get a container
    for a jail: only jails were proved."""
    wished = "jail" if kind == "container" and isolation.kind != "none" else kind or "none"
    tighter = max(isolation.kind, wished, key=KINDS.index)
    return msgspec.structs.replace(
        isolation,
        kind=tighter,
        when_missing=isolation.when_missing if tighter == isolation.kind else "refuse",
        network=max(isolation.network, network or "open", key=NETWORKS.index),
        own_limits=limits,
    )


OPEN = Isolation()
"""The isolation of a process without a jail."""

Table = TypeVar("Table", bound=Struct)


def overlaid(under: Table, over: Table) -> Table:
    """Return a table with the other one's values in place of its own, wherever those are set."""
    names = [name for name in over.__struct_fields__ if getattr(over, name)]
    return msgspec.structs.replace(under, **{name: getattr(over, name) for name in names})


class HeldKey(Struct, frozen=True):
    """A key that we hold: inside, its variable has a placeholder, and the program is told an address of ours instead of `url`.
    What is sent there goes to `url`, with the key in the headers that have the placeholder."""

    variable: str
    url: str
    """The address of the model, up to the part that the program adds."""
    address: str = ""
    """The variable that names the address; empty if `stand_in` stands for it in other variables or in arguments."""

    @property
    def stand_in(self) -> str:
        return f"<pilothouse-address-of {self.url}>"


class Needs(Struct, frozen=True):
    """Paths and hosts that a program must reach inside a jail, besides the system and its workspace. Paths that are missing are left out."""

    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    copies: tuple[str, ...] = ()
    """Files below the home folder that it may change as it likes: the changes end with the jail."""
    mounts: Mapping[str, str] = field(default_factory=dict)
    """Folders of ours (values) that it finds, and may write, under other paths (keys)."""
    fixed: tuple[str, ...] = ()
    """Plain files in such a folder that it may not change."""
    endpoints: tuple[str, ...] = ()
    """URLs of its model and of its servers."""
    programs: tuple[str, ...] = ()
    """Programs that it starts, and their files."""
    keys: tuple[HeldKey, ...] = ()
    """Keys in its environment that it must not hold. One whose variable is not set is left out."""


def server_endpoints(servers: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the URLs of the MCP servers of a brief."""
    return tuple(str(one["url"]) for one in servers.values() if one.get("url"))


def server_programs(servers: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the programs of the MCP servers of a brief, and the files that their arguments name."""
    given = [one for one in servers.values() if one.get("command")]
    named = [word for one in given for word in one.get("args") or () if str(word).startswith("/")]
    return (*(str(one["command"]) for one in given), *map(str, named))
