"""House → ports: the settings that the verbs may be told, and everything they are handed."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import msgspec

from pilothouse.bootstrap.app import (
    TERMINAL,
    House,
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
from pilothouse.core.channel import Channel
from pilothouse.core.engine import Brief, Engine, ResumeLines
from pilothouse.core.ids import ChannelId, ConversationId, EngineId
from pilothouse.core.policy import ApprovalMode
from pilothouse.policy.tool_class import tool_class
from pilothouse.runtime.clock import new_id
from pilothouse.runtime.ports import Ports
from pilothouse.runtime.settings import Settings
from pilothouse.runtime.topics import TOPICS


def make_ports(
    house: House,
    engines: Mapping[EngineId, Engine],
    channels: Mapping[ChannelId, Channel],
    *,
    safe: bool = False,
) -> Ports:
    return Ports(
        topics=TOPICS,
        store=house.store,
        clock=house.clock,
        ids=new_id,
        settings=_while_config_stands(
            house,
            lambda config: msgspec.structs.replace(
                make_settings(
                    config, default_engine(house), engine_names(house), resume_lines(house), safe=safe
                ),
                mode_in=partial(_mode_in, house),
            ),
        ),
        policy=house.policy,
        tool_class=tool_class,
        engines=engines,
        channels=channels,
        brief=partial(_complete_brief, house),
        alive=is_alive,
        sweep=partial(sweep_leftovers, house.marker, house.log),
        engine_problem=partial(engine_problem, house),
        look_at_file=look_at_file,
        read_file=read_file,
        log=house.log,
        trail=house.trail,
        note_head=partial(note_head, heads_file(house.holder.loaded.paths.state_dir, house.marker)),
    )


def _mode_in(house: House, workspace: str) -> ApprovalMode | None:
    return mode_in(house.holder.loaded, Path(workspace))


def _while_config_stands(house: House, make: Callable[[Config], Settings]) -> Callable[[], Settings]:
    """Made anew only when the configuration was read anew: verbs ask for their settings at every step."""
    config, settings = house.config, make(house.config)

    def current() -> Settings:
        nonlocal config, settings
        if house.config is not config:
            config = house.config
            settings = make(config)
        return settings

    return current


def _complete_brief(house: House, conversation_id: ConversationId, brief: Brief) -> Brief:
    """With the folder in which the owner keeps files about a workspace that the configuration names."""
    place = os.path.realpath(brief.workspace)
    named = house.config.workspaces.items()
    name = next(
        (name for name, row in named if os.path.realpath(os.path.expanduser(row.path)) == place), None
    )
    if name is None:
        return brief
    folder = house.holder.loaded.paths.config_file.parent / "workspaces" / name
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
