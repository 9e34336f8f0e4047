"""Needs of a jailed agent: the files it is started with, a folder of its own in its home, its model. Pure."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pilothouse.core.engine import Brief
from pilothouse.core.isolation import HeldKey, Needs, server_endpoints, server_programs
from pilothouse.engines.acp.agents import Agent
from pilothouse.processes import allowed_environment

SETTINGS = ("settings.json", "installation_id", "google_accounts.json")
LOGIN = ("oauth_creds.json",)


def agent_needs(
    agent: Agent,
    command: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    brief: Brief,
    folders: Sequence[str],
    names: Sequence[str] = (),
) -> Needs:
    """`folder` holds the files that the agent is started with; `folders`, and the variables in `names`, were added by the operator."""
    own = os.path.join(environment.get("HOME") or "/", agent.home) if agent.home else ""
    files = [word for word in command[1:] if word.startswith("/")]
    return Needs(
        read=(str(folder), *(os.path.join(own, name) for name in SETTINGS if own)),
        write=(*folders, *(os.path.join(own, name) for name in LOGIN if own)),
        mounts={own: str(folder.with_name(f"{folder.name}-home"))} if own else {},
        endpoints=(
            *_addresses((*agent.names, *names), environment),
            *agent.endpoints,
            *server_endpoints(brief.mcp_servers),
        ),
        programs=(*files, *server_programs(brief.mcp_servers)),
        keys=tuple(_keys(agent, environment)),
    )


def _addresses(names: Sequence[str], environment: Mapping[str, str]) -> Iterator[str]:
    """Yield the URLs in an agent's own variables. Everything could be reached through a proxy, so a proxy's is none of them."""
    for name, value in allowed_environment(environment, names).items():
        if value.startswith(("http://", "https://")) and not name.upper().endswith("_PROXY"):
            yield value


def _keys(agent: Agent, environment: Mapping[str, str]) -> Iterator[HeldKey]:
    for variable, (address, otherwise) in agent.keys.items():
        if url := environment.get(address) or otherwise:
            yield HeldKey(variable, url, address)
