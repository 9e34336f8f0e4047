"""Builds the runtime's `Ports` and `Settings` from an `App`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from pilothouse.bootstrap.app import (
    TERMINAL,
    App,
    default_engine,
    engine_names,
    engine_problem,
    resume_lines,
)
from pilothouse.bootstrap.audit_heads import heads_file, note_head
from pilothouse.bootstrap.files import look_at_file, read_file
from pilothouse.bootstrap.machine import is_alive, sweep_leftovers
from pilothouse.bootstrap.people import make_approvals, make_people
from pilothouse.config import BudgetSection, Config, find_zone, mode_in
from pilothouse.core.budget import Caps
from pilothouse.core.call import Call
from pilothouse.core.channel import Channel
from pilothouse.core.engine import Brief, Engine, ResumeLines
from pilothouse.core.ids import ChannelId, ConversationId, EngineId
from pilothouse.core.policy import ApprovalMode
from pilothouse.plugins import Loaded, Plugins
from pilothouse.policy.tool_class import tool_class
from pilothouse.runtime.clock import new_id
from pilothouse.runtime.ports import Ports
from pilothouse.runtime.settings import Settings
from pilothouse.runtime.topics import TOPICS


def make_ports(
    app: App,
    engines: Mapping[EngineId, Engine],
    channels: Mapping[ChannelId, Channel],
    *,
    safe: bool = False,
) -> Ports:
    return Ports(
        topics=TOPICS,
        store=app.store,
        clock=app.clock,
        ids=new_id,
        settings=_cached_settings(
            app,
            lambda config: msgspec.structs.replace(
                make_settings(config, default_engine(app), engine_names(app), resume_lines(app), safe=safe),
                mode_in=partial(_mode_in, app),
            ),
        ),
        policy=app.policy,
        tool_class=tool_class,
        read_call=partial(read_engine_call, app.plugins),
        engines=engines,
        channels=channels,
        brief=partial(_complete_brief, app),
        alive=is_alive,
        sweep=partial(sweep_leftovers, app.marker, app.log),
        engine_problem=partial(engine_problem, app),
        look_at_file=look_at_file,
        read_file=read_file,
        log=app.log,
        trail=app.trail,
        note_head=partial(note_head, heads_file(app.holder.loaded.paths.state_dir, app.marker)),
    )


def read_engine_call(plugins: Plugins, engine: EngineId, payload: Mapping[str, Any]) -> Call | None:
    """Read the payload of an engine's ask with the engine's own function. None if it has none, or cannot read it."""
    for row in plugins.engines():
        if isinstance(row, Loaded) and row.spec.id == engine and row.spec.call_of is not None:
            try:
                return msgspec.convert(msgspec.to_builtins(row.spec.call_of(payload)), Call | None)
            except Exception:  # noqa: BLE001 - one call of a plugin, with an input that a person wrote
                return None
    return None


def _mode_in(app: App, workspace: str) -> ApprovalMode | None:
    return mode_in(app.holder.loaded, Path(workspace))


def _cached_settings(app: App, make: Callable[[Config], Settings]) -> Callable[[], Settings]:
    """Makes new settings only after a reload: the runtime asks for them at every step."""
    config, settings = app.config, make(app.config)

    def current() -> Settings:
        nonlocal config, settings
        if app.config is not config:
            config = app.config
            settings = make(config)
        return settings

    return current


def _complete_brief(app: App, conversation_id: ConversationId, brief: Brief) -> Brief:
    """Adds the folder in which the owner keeps files about a configured workspace."""
    place = os.path.realpath(brief.workspace)
    named = app.config.workspaces.items()
    name = next(
        (name for name, row in named if os.path.realpath(os.path.expanduser(row.path)) == place), None
    )
    if name is None:
        return brief
    folder = app.holder.loaded.paths.config_file.parent / "workspaces" / name
    return msgspec.structs.replace(brief, settings_dir=str(folder))


def make_caps(budget: BudgetSection) -> Caps:
    return Caps(
        budget.all_usd, budget.workspace_usd, budget.conversation_usd, budget.least_usd, budget.more_usd
    )


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
        people=make_people(config),
        approvals=make_approvals(config),
        join_asks=config.people.join_asks,
        busy=gateway.busy,
        threads=gateway.threads,
        max_turns_at_once=gateway.max_turns_at_once,
        max_attempts=gateway.max_attempts,
        max_message_chars=gateway.max_message_chars,
        grace_s=gateway.grace_s,
        hang_after_s=gateway.hang_after_s,
        ask_timeout_s=gateway.ask_timeout_s,
        question_timeout_s=gateway.question_timeout_s,
        retention_s=gateway.retention_days * 86_400.0,
        engine_commands=gateway.engine_commands,
        show_cost=gateway.show_cost,
        resume_lost=not safe,
        caps=make_caps(config.budget),
        zone=find_zone(config.budget.time_zone),
        messages_per_minute=config.limits.messages_per_minute or None,
        known_channels=(TERMINAL, *(ChannelId(id) for id, row in config.channels.items() if row.enabled)),
    )
