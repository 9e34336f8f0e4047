"""Needs of a jailed app-server: a home of its own with its own sessions, the user's login, its model. Pure.

Its settings are read-only inside, and the sessions of other folders are absent.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pilothouse.core.isolation import HeldKey, Needs, inside_user, server_endpoints, server_programs
from pilothouse.engines.codex.home import FILES
from pilothouse.engines.codex.server import jailed_sockets, socket_path

ENDPOINTS = ("https://api.openai.com", "https://chatgpt.com", "https://auth.openai.com")
SETTINGS = "config.toml"
_NAME = re.compile(r"[\w-]+", re.ASCII)
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
        keys=tuple(_keys(settings).values()),
    )


def _keys(settings: Mapping[str, Any]) -> dict[str, HeldKey]:
    """Return the keys that the user's model providers take from variables, by the provider's name."""
    providers = settings.get("model_providers")
    found = providers.items() if isinstance(providers, dict) else ()
    return {
        name: HeldKey(one["env_key"], one["base_url"])
        for name, one in found
        if isinstance(one, dict)
        and isinstance(one.get("env_key"), str)
        and isinstance(one.get("base_url"), str)
    }


def address_words(settings: Mapping[str, Any]) -> list[str]:
    """Return the arguments that name our addresses in place of the providers'."""
    keys = {
        f"model_providers.{name}.base_url": key
        for name, key in _keys(settings).items()
        if _NAME.fullmatch(name)
    }
    return [word for path, key in keys.items() for word in ("-c", f'{path}="{key.stand_in}"')]


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
