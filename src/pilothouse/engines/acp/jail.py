"""What a jailed agent must reach: the files it is started with, a folder of its own in its home, its model. Pure."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pilothouse.core.engine import Brief
from pilothouse.core.isolation import HeldKey, Needs, server_endpoints, server_programs
from pilothouse.engines.acp.agents import Agent

SETTINGS = ("settings.json", "installation_id", "google_accounts.json")
LOGIN = ("oauth_creds.json",)


def agent_needs(
    agent: Agent,
    command: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    brief: Brief,
    folders: Sequence[str],
) -> Needs:
    """`folder` holds the files that the agent is started with; `folders` were added by the operator."""
    own = os.path.join(environment.get("HOME") or "/", agent.home) if agent.home else ""
    named = [value for value in environment.values() if value.startswith(("http://", "https://"))]
    files = [word for word in command[1:] if word.startswith("/")]
    return Needs(
        read=(str(folder), *(os.path.join(own, name) for name in SETTINGS if own)),
        write=(*folders, *(os.path.join(own, name) for name in LOGIN if own)),
        mounts={own: str(folder.with_name(f"{folder.name}-home"))} if own else {},
        endpoints=(*named, *agent.endpoints, *server_endpoints(brief.mcp_servers)),
        programs=(*files, *server_programs(brief.mcp_servers)),
        keys=tuple(_keys(agent, environment)),
    )


def _keys(agent: Agent, environment: Mapping[str, str]) -> Iterator[HeldKey]:
    for variable, (address, otherwise) in agent.keys.items():
        if url := environment.get(address) or otherwise:
            yield HeldKey(variable, url, address)
