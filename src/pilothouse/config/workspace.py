"""The file `.pilothouse.toml` in a workspace: preferences that a repository brings along.

The file is untrusted: everyone who can commit to the repository can write it. An allow-list says what it may set; it
can never loosen a permission, name an executable, set an environment variable or grant trust, and `${…}` in it is text.
It can narrow: add rules that deny or ask, cap the approval mode, and ask for more isolation. It is checked for every decision and reread only
when it changed; one that cannot be read narrows the most. Its MCP servers count in a trusted folder only, and trust ends
when they change.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache, reduce
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from pilothouse.config.decode import Reader
from pilothouse.config.layers import Loaded
from pilothouse.config.model import McpSection, WorkspaceSection
from pilothouse.config.problems import InvalidConfig, Problem, nearest, show
from pilothouse.config.sections import read_servers
from pilothouse.config.sources import WORKSPACE_FILE, Leaf, flatten, read_toml
from pilothouse.config.values import check_rules
from pilothouse.core.conversation import BusyPolicy
from pilothouse.core.isolation import (
    WORKSPACE_FILE_NAME,
    Isolation,
    Kind,
    Limits,
    Network,
    overlaid,
    tightened,
)
from pilothouse.core.mcp import McpServer
from pilothouse.core.policy import MODES, ApprovalMode, Rule, parse_rule
from pilothouse.lanes.lane import lanes_in

MAX_BYTES = 64_000
NARROWING = ("rules", "approval_mode", "isolation", "network", "limits")
"""Preferences that only narrow, and are handled apart from the choices."""
GLOBAL_FOLDER = "global"
SERVERS = "mcp"
SEARCH = "search"

_PERMISSION = "a workspace file may not loosen a permission"
_EXECUTABLE = "a workspace file may not name an executable"
_ENVIRONMENT = "a workspace file may not set an environment variable"
_TRUST = "a workspace file may not grant trust"
_GATEWAY = "a workspace file may not change how the gateway runs"

WHY_NOT: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "permissions",
            "policy",
            "sandbox",
            "allow",
            "allow_read",
            "allow_write",
            "allow_hosts",
            "container",
            "engine_commands",
        ),
        _PERMISSION,
    ),
    **dict.fromkeys(
        ("command", "executable", "binary", "args", "hooks", "mcp_servers", "engines"), _EXECUTABLE
    ),
    **dict.fromkeys(("env", "environment"), _ENVIRONMENT),
    **dict.fromkeys(("trust", "trusted", "people", "owners", "admins", "members", "approvals"), _TRUST),
    **dict.fromkeys(("gateway", "store", "channels", "log", "workspaces"), _GATEWAY),
}
"""Reasons for the likeliest keys; other unknown keys are refused too."""


class ModelTable(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """`[model]`. `name` may have its provider in front; the others are for the native engine, in a trusted folder."""

    name: str | None = None
    provider: str | None = None
    effort: str | None = None
    verbosity: str | None = None


class SearchTable(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """`[search]`, for the native engine in a trusted folder."""

    mode: Literal["auto", "native", "local"] | None = None
    backend: Literal["ddg", "brave"] | None = None


class Preferences(Struct, frozen=True):
    """Everything that a workspace file may set. None means unset."""

    engine: str | None = None
    model: str | ModelTable | None = None
    busy: BusyPolicy | None = None
    show_cost: bool | None = None
    search: SearchTable | None = None
    rules: tuple[str, ...] | None = None
    """Only rules that deny or ask."""
    approval_mode: ApprovalMode | None = None
    """The widest mode that the workspace accepts."""
    isolation: Kind | None = None
    network: Network | None = None
    limits: Limits = Limits()
    """All three count only where they are tighter than the operator's."""
    mcp: McpSection = McpSection()
    """For a trusted folder only."""


class InWorkspace(Struct, frozen=True):
    """The settings of one workspace, after every layer. Bootstrap resolves the engine `auto`."""

    engine: str
    model: str | None
    busy: BusyPolicy
    show_cost: bool
    warnings: tuple[Problem, ...] = ()


def read_preferences(
    folder: Path, engines: Collection[str] | None
) -> tuple[Preferences, tuple[Problem, ...]]:
    """Read the file. Returns its preferences and warnings about refused ones. Raises `InvalidConfig`."""
    file = folder / WORKSPACE_FILE_NAME
    leaves = flatten(read_toml(file, MAX_BYTES, links=False), str(file), WORKSPACE_FILE)
    allowed = Preferences.__struct_fields__
    refused = dict.fromkeys(key[0] for key in leaves if key[0] not in allowed)
    warnings = [Problem(str(file), name, f"was ignored: {_why_not(name, allowed)}") for name in refused]
    reader = Reader({k: v for k, v in leaves.items() if k[0] in allowed}, str(file), lambda key, kind: None)
    found = reader.read(Preferences, (), skip=(SERVERS,))
    servers = read_servers(reader)
    warnings += reader.warnings
    if found and found.engine is not None and engines is not None and found.engine not in engines:
        warnings.append(Problem(str(file), "engine", _why_no_engine(found, sorted(engines))))
        found = msgspec.structs.replace(found, engine=None, model=None)
    check_rules(reader, ("rules",))
    if found is None or reader.problems:
        raise InvalidConfig(reader.problems)
    narrow, loose = _only_narrowing(msgspec.structs.replace(found, mcp=McpSection(servers)), file)
    return narrow, (*warnings, *loose)


def _only_narrowing(found: Preferences, file: Path) -> tuple[Preferences, list[Problem]]:
    """Drop what would loosen a permission."""
    told: list[Problem] = []
    if found.approval_mode == MODES[-1]:
        told.append(Problem(str(file), "approval_mode", f"was ignored: {_PERMISSION}"))
        found = msgspec.structs.replace(found, approval_mode=None)
    allowing = [line for line in found.rules or () if parse_rule(line).outcome == "allow"]
    if allowing:
        told += [Problem(str(file), "rules", f'"{line}" was ignored: {_PERMISSION}') for line in allowing]
        kept = tuple(line for line in found.rules or () if line not in allowing)
        found = msgspec.structs.replace(found, rules=kept)
    return found, told


def _why_no_engine(found: Preferences, engines: Sequence[str]) -> str:
    """Explain why an engine was ignored. Not an error: the repository may be meant for other machines too."""
    name, with_it = found.engine or "", ", and the model with it" if found.model else ""
    there = f"available: {', '.join(engines)}" if engines else "none is available"
    return f"{show(name)} was ignored{with_it}: there is no such engine here; {there}{nearest(name, engines)}"


def _why_not(name: str, allowed: tuple[str, ...]) -> str:
    reason = WHY_NOT.get(name, f"a workspace file may set only {', '.join(allowed)}")
    return reason if name in WHY_NOT else reason + nearest(name, allowed)


def in_workspace(loaded: Loaded, folder: Path) -> InWorkspace:
    """Defaults < `[gateway]` < `[workspaces.<name>]` < the workspace's file < environment < flags."""
    leaves, warnings = leaves_in(loaded, folder)
    values = {name: leaf.value for name, leaf in leaves.items()}
    gateway = loaded.config.gateway
    chosen = InWorkspace(gateway.default_engine, None, gateway.busy, gateway.show_cost, warnings)
    chosen = msgspec.structs.replace(chosen, **values)
    engine = loaded.models.engine_aliases.get(chosen.engine, chosen.engine)
    return msgspec.structs.replace(chosen, engine=engine)


def leaves_in(loaded: Loaded, folder: Path) -> tuple[dict[str, Leaf], tuple[Problem, ...]]:
    """Return the effective leaf of each setting in a workspace, and warnings about its file."""
    wished, warnings = read_preferences(folder, _usable_engines(loaded))
    told = [*_operator_leaves(loaded, folder), *_preference_leaves(wished)]
    return dict(sorted(told, key=lambda pair: pair[1].rank)), warnings


def _usable_engines(loaded: Loaded) -> list[str] | None:
    if loaded.models.engines is None:
        return None
    enabled = [name for name, engine in loaded.config.engines.items() if engine.enabled]
    return [*enabled, *(alias for alias, id in loaded.models.engine_aliases.items() if id in enabled)]


def _preference_leaves(wished: Preferences) -> Iterator[tuple[str, Leaf]]:
    chosen = msgspec.structs.asdict(wished) | {"model": model_name(wished.model)}
    for name, value in chosen.items():
        if value is not None and name not in (*NARROWING, SERVERS, SEARCH):
            yield name, Leaf(value, WORKSPACE_FILE_NAME, WORKSPACE_FILE)


def model_name(told: str | ModelTable | None) -> str | None:
    if not isinstance(told, ModelTable):
        return told
    return f"{told.provider}/{told.name}" if told.provider and told.name else told.name


def engine_tables(folder: Path) -> dict[str, Any]:
    """Return the tables that an engine obeys in a trusted folder. Raises `InvalidConfig`."""
    wished, _ = read_preferences(folder, None)
    model = wished.model if isinstance(wished.model, ModelTable) else None
    told = {"model": model, SEARCH: wished.search}
    return {name: msgspec.to_builtins(value) for name, value in told.items() if value is not None}


def mode_in(loaded: Loaded, folder: str | Path) -> ApprovalMode | None:
    """Return the configured approval mode of a workspace: flag > environment > workspace > default."""
    told: list[tuple[int, ApprovalMode]] = []
    if (leaf := loaded.leaves.get(("policy", "approval_mode"))) and loaded.config.policy.approval_mode:
        told.append((leaf.rank, loaded.config.policy.approval_mode))
    for name, section in loaded.config.workspaces.items():
        leaf = loaded.leaves.get(("workspaces", name, "approval_mode"))
        if leaf and section.approval_mode and Path(section.path).resolve() == Path(folder).resolve():
            told.append((leaf.rank, section.approval_mode))
    return sorted(told, key=lambda pair: pair[0])[-1][1] if told else None


def _operator_leaves(loaded: Loaded, folder: Path) -> Iterator[tuple[str, Leaf]]:
    """Yield the operator's settings, general ones first, with decoded values."""
    for ours, field in (("engine", "default_engine"), ("busy", "busy"), ("show_cost", "show_cost")):
        if leaf := loaded.leaves.get(("gateway", field)):
            yield ours, msgspec.structs.replace(leaf, value=getattr(loaded.config.gateway, field))
    for name, section in loaded.config.workspaces.items():
        if Path(section.path).resolve() == folder.resolve():
            for ours in ("engine", "model", "busy"):
                if leaf := loaded.leaves.get(("workspaces", name, ours)):
                    yield ours, msgspec.structs.replace(leaf, value=getattr(section, ours))


def servers_in(loaded: Loaded, folder: Path, *, trusted: bool) -> dict[str, tuple[McpServer, str]]:
    """Return the MCP servers of a workspace with the files that name them; a project's own win.

    Raises `InvalidConfig` for a file of a trusted folder that cannot be read."""
    file = str(loaded.paths.config_file)
    found = {id: (server, file) for id, server in loaded.config.mcp.servers.items()}
    if trusted:
        own = read_preferences(folder, None)[0].mcp.servers
        found |= {id: (_placed(server, folder), WORKSPACE_FILE_NAME) for id, server in own.items()}
    return found


def _placed(server: McpServer, folder: Path) -> McpServer:
    """Start a project's program in the project, or in the folder of it that `cwd` names."""
    if server.transport == "http":
        return server
    return msgspec.structs.replace(server, cwd=str(folder / Path(server.cwd).expanduser()))


class Narrowing(Struct, frozen=True):
    rules: tuple[Rule, ...] = ()
    at_most: ApprovalMode = "full-access"
    isolation: Kind | None = None
    network: Network | None = None
    limits: Limits = Limits()


UNCHANGED = Narrowing()
STRICTEST = Narrowing(at_most="minimal", isolation="jail", network="none")
"""The settings for a file that cannot be read, so that its wishes are unknown."""


def narrowing_of(folder: Path) -> Narrowing:
    try:
        found = (folder / WORKSPACE_FILE_NAME).lstat()
    except FileNotFoundError:
        return UNCHANGED
    except OSError:
        return STRICTEST
    return _read(folder, found.st_mtime_ns, found.st_size, found.st_ino)


@lru_cache(maxsize=256)
def _read(folder: Path, *state: int) -> Narrowing:
    """Read the file, cached by `state`, which identifies its version."""
    try:
        wished, _ = read_preferences(folder, None)
    except InvalidConfig:
        return STRICTEST
    rules = tuple(map(parse_rule, wished.rules or ()))
    return Narrowing(
        rules, wished.approval_mode or "full-access", wished.isolation, wished.network, wished.limits
    )


def isolation_in(loaded: Loaded, folder: str | Path) -> Isolation:
    """Return how far the agents of a folder are shut in: the innermost section around it that says so, before the general one;
    and its own file may tighten."""
    place, general = os.path.realpath(folder), loaded.config.isolation
    sections = _sections_around(loaded, place)
    kinds = [row.isolation for row in sections if row.isolation]
    networks = [row.network for row in sections if row.network]
    everything = (general, *sections)
    chosen = Isolation(
        kinds[-1] if kinds else general.kind,
        tuple(os.path.expanduser(path) for row in everything for path in row.allow_read),
        tuple(os.path.expanduser(path) for row in everything for path in row.allow_write),
        networks[-1] if networks else general.network,
        tuple(host for row in everything for host in row.allow_hosts),
        general.when_missing,
        limits=reduce(overlaid, (row.limits for row in everything)),
        container=reduce(overlaid, (row.container for row in everything)),
    )
    own = narrowing_of(Path(place))
    found = tightened(chosen, own.isolation, own.network, own.limits)
    return _with_paths(loaded, found) if found.kind == "container" else found


def _sections_around(loaded: Loaded, place: str) -> list[WorkspaceSection]:
    """Return the sections of a folder and of those above it, the innermost last. The worktree of a lane has those of the folder
    that the lane was created from."""
    origin = Path(lanes_in(loaded.paths.data_dir).origin(place))
    rows = [
        (os.path.realpath(os.path.expanduser(row.path)), row) for row in loaded.config.workspaces.values()
    ]
    around = [(path, row) for path, row in rows if path == place or origin.is_relative_to(path)]
    return [row for _, row in sorted(around, key=lambda pair: (pair[0] == place, len(pair[0])))]


def _with_paths(loaded: Loaded, isolation: Isolation) -> Isolation:
    """Resolve the paths of a container; the folder that all agents share lies beside the configuration by default."""
    container = isolation.container
    shared = container.global_folder or str(loaded.paths.config_file.parent / GLOBAL_FOLDER)
    placed = msgspec.structs.replace(
        container,
        runtime=os.path.expanduser(container.runtime),
        rootfs=os.path.expanduser(container.rootfs),
        global_folder=os.path.expanduser(shared),
    )
    return msgspec.structs.replace(isolation, container=placed)
