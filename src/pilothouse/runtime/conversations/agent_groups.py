"""Agents by name: the configured workspaces, and the groups that agents registered; and which of them may ask which.

The agent of a workspace works in its folder. The configuration grants agents to a workspace by name
(`agents = ["docs"]`); a registered group is granted to the workspace whose agent registered it.
"""

from __future__ import annotations

import os
from pathlib import PurePath

import msgspec
from msgspec import Struct

from pilothouse.core.ids import ConversationId, UserId
from pilothouse.core.store import Tx
from pilothouse.runtime.facts import AGENT_GROUP, load_fact, save_fact
from pilothouse.runtime.settings import Settings

MOST_GROUPS = 200


class AgentGroup(Struct, frozen=True):
    """A workspace that an agent registered, with the place that is bound to it. `granted` are resolved folders."""

    name: str
    folder: str
    place: ConversationId
    by: UserId
    at: float
    granted: tuple[str, ...] = ()


def find_group(tx: Tx, name: str) -> AgentGroup | None:
    return load_fact(tx, AGENT_GROUP.of(name), AgentGroup)


def list_groups(tx: Tx) -> list[AgentGroup]:
    found = tx.facts_of(AGENT_GROUP.of(""))
    return [msgspec.json.decode(value, type=AgentGroup) for _, value in found if value]


def save_group(tx: Tx, group: AgentGroup) -> None:
    save_fact(tx, AGENT_GROUP.of(group.name), group)


def find_agent(tx: Tx, settings: Settings, name: str) -> str | None:
    """Return the folder of an agent. A configured workspace comes before a group of the same name."""
    group = None if name in settings.workspaces else find_group(tx, name)
    return group.folder if group else settings.workspaces.get(name)


def granted_agents(tx: Tx, settings: Settings, folder: str) -> dict[str, str]:
    """Return the agents that the agent of a folder may ask without a further yes: their folders, by name."""
    real = os.path.realpath(folder)
    granted = {name: find_agent(tx, settings, name) for name in settings.agents.get(real, ())}
    groups = {group.name: group.folder for group in list_groups(tx) if real in group.granted}
    return {**groups, **{name: found for name, found in granted.items() if found}}


def agent_name(tx: Tx, settings: Settings, folder: str) -> str:
    """Return the name of the agent of a folder; of one without a name, that of the folder."""
    real = os.path.realpath(folder)
    known = {path: name for name, path in reversed([*settings.workspaces.items()])}
    groups = {group.folder: group.name for group in list_groups(tx)}
    return known.get(real) or groups.get(real) or PurePath(real).name or "agent"
