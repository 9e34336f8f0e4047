"""Builds the runtime's `Ports` and `Settings` from an `App`."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import msgspec

from pilothouse.agent_tools.server import AgentToolServer
from pilothouse.bootstrap.agent_processes import container_instructions, engine_environment, run_script
from pilothouse.bootstrap.app import (
    DEMO,
    TERMINAL,
    App,
    default_engine,
    engine_names,
    engine_problem,
    engine_specs,
    engine_titles,
    fallback_models,
    resume_lines,
)
from pilothouse.bootstrap.audit_heads import heads_file, note_head
from pilothouse.bootstrap.client_servers import find_client_servers
from pilothouse.bootstrap.engine_reports import survey_enabled
from pilothouse.bootstrap.files import look_at_file, read_file
from pilothouse.bootstrap.machine import is_alive, sweep_leftovers
from pilothouse.bootstrap.mcp_servers import servers_for_engines
from pilothouse.bootstrap.people import make_approvals, make_people
from pilothouse.bootstrap.policy import make_classify, widest_in
from pilothouse.bootstrap.transcript_files import append_file, remove_file
from pilothouse.config import AUTO, BudgetSection, Config, engine_tables, find_zone, mode_in
from pilothouse.core.budget import Caps
from pilothouse.core.call import Call
from pilothouse.core.channel import Channel
from pilothouse.core.engine import Engine, ResumeLines
from pilothouse.core.errors import ConfigError
from pilothouse.core.ids import ChannelId, EngineId
from pilothouse.core.message import Address
from pilothouse.isolation.cgroup import find_bases, sweep_groups
from pilothouse.isolation.jail import sweep_scratch
from pilothouse.isolation.uploads import sweep_uploads
from pilothouse.plugins import Loaded, Plugins
from pilothouse.runtime.agent_calls.hosts import ask_host
from pilothouse.runtime.agent_calls.messages import parse_destinations
from pilothouse.runtime.engine_report import EngineReport
from pilothouse.runtime.gateway import TOPICS
from pilothouse.runtime.ports import Ports, new_id
from pilothouse.runtime.settings import EngineChoice, Settings

TURNS_AT_ONCE, TURNS_IN_BUDGET = 32, 8
LOOK_S = 3.0


def make_ports(
    app: App,
    engines: Mapping[EngineId, Engine],
    channels: Mapping[ChannelId, Channel],
    *,
    safe: bool = False,
) -> Ports:
    ports = Ports(
        topics=TOPICS,
        store=app.store,
        clock=app.clock,
        ids=new_id,
        settings=_cached_settings(
            app,
            lambda config: msgspec.structs.replace(
                make_settings(config, default_engine(app), engine_names(app), resume_lines(app), safe=safe),
                fallback_models=fallback_models(app),
                compact_lines={spec.id: spec.compact_line for spec in engine_specs(app)},
                mode_in=partial(mode_in, app.holder.loaded),
                widest_in=widest_in,
                isolation_of=app.jails.describe,
                missing_isolation=app.jails.missing,
                note_trust=app.jails.note_trust,
                context_files_in=partial(container_instructions, app.holder),
                settings_dirs=_settings_dirs(app),
                destinations=_destinations(config),
                agents=_agents(config),
                engines_in=_engines_in(config, engine_names(app)),
                engine_titles=engine_titles(app),
                trusted_files=app.plugins.trusted_files(),
            ),
        ),
        policy=app.policy,
        tool_class=make_classify(app.holder.loaded.paths, app.config),
        read_call=partial(read_engine_call, app.plugins),
        engines=engines,
        channels=channels,
        alive=is_alive,
        sweep=partial(_sweep, app),
        engine_problem=partial(engine_problem, app),
        engine_reports=partial(report_engines, app),
        look_for_engine=partial(look_for_engine, app),
        look_at_file=look_at_file,
        read_file=read_file,
        append_file=append_file,
        remove_file=remove_file,
        run_script=partial(
            run_script,
            engine_environment(os.environ, app.holder.loaded),
            app.marker,
            jail=app.jails.open,
        ),
        mcp_servers=partial(servers_for_engines, lambda: app.holder.loaded, app.log),
        client_servers=partial(find_client_servers, app.holder.loaded.paths.state_dir, app.learn),
        preferences=partial(preferences_for_engines, app.log),
        mcp=app.mcp,
        lanes=app.lanes,
        redact=app.outgoing.redact_known,
        log=app.log,
        trail=app.trail,
        tools=AgentToolServer(),
        note_head=partial(note_head, heads_file(app.holder.loaded.paths.state_dir, app.marker)),
    )
    app.jails.ask_people = partial(ask_host, ports)
    return ports


async def _sweep(app: App) -> None:
    """End what a killed gateway left running, and remove the folders of its jails."""
    nodes = await app.store.read(lambda tx: tx.nodes.list())
    await sweep_leftovers(app.marker, app.log, [node.info for node in nodes])
    await anyio.to_thread.run_sync(sweep_scratch, app.jails.places.scratch)
    days = app.config.gateway.retention_days
    await anyio.to_thread.run_sync(sweep_uploads, app.jails.places.uploads, days)
    await anyio.to_thread.run_sync(sweep_groups, find_bases())


async def look_for_engine(app: App) -> None:
    """Looks whether a real engine works by now: it takes over from the demo. Slow programs are not waited for."""
    if app.config.gateway.default_engine == AUTO and default_engine(app) == DEMO:
        with anyio.move_on_after(LOOK_S):
            await anyio.to_thread.run_sync(app.probe_again, abandon_on_cancel=True)


async def report_engines(app: App) -> list[EngineReport]:
    """Asks every enabled engine about itself. A caller may stop waiting: the programs that are asked may hang."""
    return await anyio.to_thread.run_sync(survey_enabled, app.plugins, app.config, abandon_on_cancel=True)


def read_engine_call(plugins: Plugins, engine: EngineId, payload: Mapping[str, Any]) -> Call | None:
    """Read the payload of an engine's ask with the engine's own function. None if it has none, or cannot read it."""
    for row in plugins.engines():
        if isinstance(row, Loaded) and row.spec.id == engine and row.spec.call_of is not None:
            try:
                return msgspec.convert(msgspec.to_builtins(row.spec.call_of(payload)), Call | None)
            except Exception:  # noqa: BLE001 - one call of a plugin, with an input that a person wrote
                return None
    return None


def _cached_settings(app: App, make: Callable[[Config], Settings]) -> Callable[[], Settings]:
    """Makes new settings only after a reload, or if the demo gives way: the runtime asks for them at every step."""
    settings = make(app.config)
    config, statuses = app.config, app.statuses

    def current() -> Settings:
        nonlocal config, statuses, settings
        if app.config is not config or app.statuses is not statuses:
            config, statuses = app.config, app.statuses
            settings = make(config)
        return settings

    return current


def _settings_dirs(app: App) -> dict[str, str]:
    """Maps the resolved folder of each configured workspace to the folder with the owner's files about it."""
    root = app.holder.loaded.paths.workspace_settings
    sections = reversed([*app.config.workspaces.items()])  # of two names for one folder, the first counts
    return {os.path.realpath(os.path.expanduser(row.path)): str(root / name) for name, row in sections}


def _destinations(config: Config) -> dict[str, dict[str, Address]]:
    """Maps the resolved folder of each configured workspace to the places that its agents may write to."""
    found: dict[str, dict[str, Address]] = {}
    for section in config.workspaces.values():
        place = os.path.realpath(os.path.expanduser(section.path))
        found.setdefault(place, {}).update(parse_destinations(section.destinations))
    return found


def _agents(config: Config) -> dict[str, tuple[str, ...]]:
    """Maps the resolved folder of each configured workspace to the names of the agents that its own may ask."""
    found: dict[str, tuple[str, ...]] = {}
    for section in config.workspaces.values():
        place = os.path.realpath(os.path.expanduser(section.path))
        found[place] = (*found.get(place, ()), *section.agents)
    return found


def _engines_in(config: Config, names: Mapping[str, EngineId]) -> dict[str, EngineChoice]:
    """Maps the resolved folder of each configured workspace to its engine. Of two names for one folder, the first counts."""
    sections = reversed([*config.workspaces.values()])
    return {
        os.path.realpath(os.path.expanduser(row.path)): EngineChoice(names.get(row.engine or ""), row.model)
        for row in sections
    }


def make_caps(budget: BudgetSection) -> Caps:
    return Caps(
        budget.all_usd, budget.workspace_usd, budget.conversation_usd, budget.least_usd, budget.more_usd
    )


def _turns_at_once(config: Config) -> int:
    """With a cap fewer turns share it, so that each may spend more. Memory limits the processes of engines anyway."""
    budget = config.budget
    return TURNS_IN_BUDGET if budget.all_usd or budget.workspace_usd else TURNS_AT_ONCE


def make_settings(
    config: Config,
    engine: EngineId,
    names: Mapping[str, EngineId],
    lines: Mapping[EngineId, ResumeLines],
    *,
    safe: bool = False,
) -> Settings:
    gateway = config.gateway
    return Settings(
        default_engine=engine,
        default_workspace=gateway.default_workspace,
        engine_names=names,
        resume_lines=lines,
        workspaces={
            name: os.path.realpath(os.path.expanduser(row.path)) for name, row in config.workspaces.items()
        },
        roots=tuple(os.path.realpath(os.path.expanduser(root)) for root in gateway.roots),
        people=make_people(config),
        approvals=make_approvals(config),
        join_asks=config.people.join_asks,
        busy=gateway.busy,
        threads=gateway.threads,
        max_turns_at_once=gateway.max_turns_at_once or _turns_at_once(config),
        max_attempts=gateway.max_attempts,
        max_message_chars=gateway.max_message_chars,
        grace_s=gateway.grace_s,
        hang_after_s=gateway.hang_after_s,
        ask_timeout_s=gateway.ask_timeout_s,
        question_timeout_s=gateway.question_timeout_s,
        hold_s=gateway.hold_s,
        question_park_s=gateway.question_park_s,
        retention_s=gateway.retention_days * 86_400.0,
        transcript_s=gateway.transcript_days * 86_400.0,
        transcript_files=gateway.transcript_files,
        engine_commands=gateway.engine_commands,
        show_cost=gateway.show_cost,
        resume_lost=not safe,
        caps=make_caps(config.budget),
        zone=find_zone(config.budget.time_zone),
        messages_per_minute=config.limits.messages_per_minute or None,
        follow_up_depth=config.limits.follow_up_depth,
        agent_hops=config.limits.agent_hops,
        agent_messages=config.limits.agent_messages,
        machine=socket.gethostname(),
        demo_engine=DEMO,
        known_channels=(TERMINAL, *(ChannelId(id) for id, row in config.channels.items() if row.enabled)),
    )


async def preferences_for_engines(
    log: Callable[..., None], workspace: str, trusted: bool
) -> Mapping[str, Any]:
    """Return `search` and `model` as tables of `Brief.preferences`; nothing for a folder that is not trusted."""
    if not trusted:
        return {}
    find = partial(_find, log, workspace)
    return await anyio.to_thread.run_sync(find, abandon_on_cancel=True)


def _find(log: Callable[..., None], workspace: str) -> Mapping[str, Any]:
    try:
        return engine_tables(Path(workspace))
    except ConfigError as error:
        log("config.project_ignored", level="warning", workspace=workspace, problem=str(error))
        return {}
