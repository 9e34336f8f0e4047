"""What a jailed app-server must reach: a home of its own with its own sessions, the user's login, its model. Pure.

Its settings are read-only inside, and the sessions of other folders are absent.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pilothouse.core.isolation import Needs, inside_user, server_endpoints, server_programs
from pilothouse.engines.codex.home import FILES
from pilothouse.engines.codex.server import jailed_sockets, socket_path

ENDPOINTS = ("https://api.openai.com", "https://chatgpt.com", "https://auth.openai.com")
SETTINGS = "config.toml"
_ADDRESSES = ("openai_base_url", "chatgpt_base_url")


def listening_path(folder: Path, *, jailed: bool) -> str:
    """Return the path of the socket as the app-server is told it."""
    path = socket_path(folder)
    return f"/tmp/{path.name}" if jailed else str(path)  # noqa: S108 - inside, where it is private


def server_needs(folder: Path, user: Path, settings: Mapping[str, Any], servers: Mapping[str, Any]) -> Needs:
    own = folder / "home"
    sockets = f"/tmp/codex-daemon-{inside_user(os.getuid())}"  # noqa: S108 - inside
    return Needs(
        read=(str(user / "AGENTS.md"),),
        write=(str(user / "auth.json"),),
        mounts={str(own): str(own), sockets: str(jailed_sockets(folder))},
        fixed=(str(own / SETTINGS), *(str(own / name) for name in FILES)),
        endpoints=(*_urls(settings), *server_endpoints(servers)),
        programs=server_programs({**_servers(settings), **servers}),
    )


def _servers(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the MCP servers of the user's own settings."""
    found = settings.get("mcp_servers")
    return found if isinstance(found, dict) else {}


def _urls(settings: Mapping[str, Any]) -> Iterator[str]:
    """Yield the addresses of the configured providers, or else of OpenAI."""
    providers = settings.get("model_providers")
    found = [one.get("base_url") for one in providers.values()] if isinstance(providers, dict) else []
    named = [url for url in (*found, *(settings.get(name) for name in _ADDRESSES)) if isinstance(url, str)]
    yield from named
    yield from ENDPOINTS
