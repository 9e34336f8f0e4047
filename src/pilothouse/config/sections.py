"""Reads the sections of a configuration into their types: each adapter by its own, and `[mcp.servers.ID]` of any file."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from pilothouse.config.decode import Reader
from pilothouse.config.model import (
    ALWAYS_ON,
    AUTO,
    Adapter,
    ApprovalsSection,
    BudgetSection,
    Config,
    GatewaySection,
    IsolationSection,
    LimitsSection,
    LogSection,
    McpSection,
    Models,
    PeopleSection,
    PolicySection,
    SectionTypes,
    WorkspaceSection,
)
from pilothouse.config.paths import Paths
from pilothouse.config.problems import Problem
from pilothouse.config.sources import (
    Key,
    Leaf,
    below,
    dotted,
)
from pilothouse.config.values import check_values
from pilothouse.core.mcp import McpServer, id_problem

SECTIONS = (
    "gateway",
    "people",
    "approvals",
    "policy",
    "store",
    "engines",
    "channels",
    "log",
    "workspaces",
    "budget",
    "limits",
    "isolation",
    "mcp",
)
SERVERS = ("mcp", "servers")
MAX_SERVERS = 50
"""Servers in one file."""


def read_sections(reader: Reader, models: Models, paths: Paths) -> Config | None:
    reader.warn_unknown((), SECTIONS)
    for section in ("store", "engines", "channels", "workspaces", "mcp"):
        reader.expect_table((section,))
    gateway = reader.read(GatewaySection, ("gateway",))
    people = reader.read(PeopleSection, ("people",))
    approvals = reader.read(ApprovalsSection, ("approvals",))
    policy = reader.read(PolicySection, ("policy",))
    log = reader.read(LogSection, ("log",))
    store = _read_store(reader, models.stores, paths)
    engines = _read_adapters(reader, "engines", models.engines, always=models.engines or ())
    channels = _read_adapters(reader, "channels", models.channels, always=(ALWAYS_ON,))
    workspaces = _read_workspaces(reader)
    budget = reader.read(BudgetSection, ("budget",))
    limits = reader.read(LimitsSection, ("limits",))
    isolation = reader.read(IsolationSection, ("isolation",))
    mcp = McpSection(read_servers(reader))
    check_values(reader, models)
    if (
        budget is None
        or limits is None
        or isolation is None
        or gateway is None
        or people is None
        or approvals is None
        or policy is None
        or log is None
        or store is None
    ):
        return None
    gateway, workspaces = _resolve_engines(models, gateway, workspaces)
    gateway = msgspec.structs.replace(gateway, default_workspace=_expand_home(gateway.default_workspace))
    return Config(
        gateway,
        people,
        approvals,
        policy,
        log,
        store,
        engines,
        channels,
        workspaces,
        budget,
        limits,
        mcp,
        isolation,
    )


def _read_store(reader: Reader, types: SectionTypes | None, paths: Paths) -> Adapter | None:
    kind_leaf = reader.leaves.get(("store", "kind"))
    kind = "sqlite" if kind_leaf is None else str(kind_leaf.value)
    if types is not None and kind not in types:
        if kind_leaf:
            reader.refuse(("store", "kind"), types)
        else:
            reader.problems.append(
                Problem(reader.default_source, "store.kind", f'there is no store "{kind}"')
            )
        return None
    settings = _read_settings(reader, ("store",), (types or {}).get(kind), "kind")
    if settings is None:
        return None
    return Adapter(kind, True, _with_path(settings, paths.store_file))


def _with_path(settings: Any, file: Path) -> Any:
    """Put the store's file into our data folder unless a path is set."""
    if isinstance(settings, dict):
        return {"path": str(file), **settings}
    if getattr(settings, "path", None) == "":
        return msgspec.structs.replace(settings, path=str(file))
    return settings


def _read_settings(reader: Reader, at: Key, model: type[Struct] | None, ours: str) -> Any:
    if model is not None:
        return reader.read(model, at, skip=(ours,))
    return {
        key[0]: leaf.value
        for key, leaf in below(reader.leaves, at).items()
        if len(key) == 1 and key[0] != ours
    }


def _read_adapters(
    reader: Reader, group: str, types: SectionTypes | None, always: Iterable[str]
) -> dict[str, Adapter]:
    """Read the adapters that have a section, and those that are always on."""
    written = dict.fromkeys(key[1] for key in reader.leaves if key[0] == group and len(key) > 1)
    if types is not None:
        reader.warn_unknown((group,), types)
    found: dict[str, Adapter] = {}
    for name in dict.fromkeys((*written, *always)):
        if types is not None and name not in types:
            continue
        enabled = _read_enabled(reader, (group, name, "enabled")) or (
            group == "channels" and name == ALWAYS_ON
        )
        model = (types or {}).get(name) if enabled else None
        settings = _read_settings(reader, (group, name), model, "enabled")
        if settings is not None:
            found[name] = Adapter(name, enabled, settings)
    return found


def _read_enabled(reader: Reader, key: Key) -> bool:
    leaf = reader.leaves.get(key, Leaf(True, ""))
    if not isinstance(leaf.value, bool):
        reader.refuse(key, ("true", "false"))
    return leaf.value is not False


def _read_workspaces(reader: Reader) -> dict[str, WorkspaceSection]:
    names = dict.fromkeys(key[1] for key in reader.leaves if key[0] == "workspaces" and len(key) > 1)
    found: dict[str, WorkspaceSection] = {}
    for name in names:
        if section := reader.read(WorkspaceSection, ("workspaces", name)):
            found[name] = msgspec.structs.replace(section, path=_expand_home(section.path))
    return found


def read_servers(reader: Reader) -> dict[str, McpServer]:
    """Read every server; problems are collected in the reader, and secrets are noted there."""
    reader.warn_unknown(("mcp",), ("servers",))
    if not reader.expect_table(("mcp",)) or not reader.expect_table(SERVERS):
        return {}
    found: dict[str, McpServer] = {}
    leaves = below(reader.leaves, SERVERS)
    for id in dict.fromkeys(key[0] for key in leaves if key):
        source = next(leaf.source for key, leaf in leaves.items() if key[:1] == (id,))
        if why := id_problem(id):
            reader.problems.append(Problem(source, dotted((*SERVERS, id)), why))
        elif (server := reader.read(McpServer, (*SERVERS, id))) is not None:
            reader.secrets.update(server.secrets)
            found[id] = server
    if len(found) > MAX_SERVERS:
        reader.problems.append(
            Problem(reader.default_source, dotted(SERVERS), f"has more than {MAX_SERVERS} servers")
        )
    return found


def _resolve_engines(
    models: Models, gateway: GatewaySection, workspaces: dict[str, WorkspaceSection]
) -> tuple[GatewaySection, dict[str, WorkspaceSection]]:
    """Replace engine aliases by ids."""

    def resolve(name: str | None) -> str | None:
        return models.engine_aliases.get(name or "", name)

    engine = resolve(gateway.default_engine) or AUTO
    return msgspec.structs.replace(gateway, default_engine=engine), {
        name: msgspec.structs.replace(section, engine=resolve(section.engine))
        for name, section in workspaces.items()
    }


def _expand_home(path: str) -> str:
    return str(Path(path).expanduser()) if path.startswith("~") else path
