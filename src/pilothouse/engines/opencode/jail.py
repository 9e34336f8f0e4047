"""Needs of a jailed server: its settings, a database of its own, the user's login, its model. Pure but for reading settings.

Settings are read-only inside, and the sessions of other folders are absent: OpenCode keeps all of them in one database.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

from pilothouse.core.engine import Brief
from pilothouse.core.isolation import HeldKey, Needs, server_endpoints, server_programs
from pilothouse.engines.opencode.launch import user_files

ENDPOINTS = (
    "https://opencode.ai",
    "https://models.dev",
    "https://api.anthropic.com",
    "https://api.openai.com",
)
_URL = re.compile(r'"base_?URL"\s*:\s*"([^"]+)"', re.IGNORECASE)


OWN_SETTINGS = "OPENCODE_CONFIG_CONTENT"
BUILT_IN = {
    "anthropic": ("ANTHROPIC_API_KEY", "https://api.anthropic.com/v1"),
    "google": ("GOOGLE_GENERATIVE_AI_API_KEY", "https://generativelanguage.googleapis.com/v1beta"),
    "openai": ("OPENAI_API_KEY", "https://api.openai.com/v1"),
    "openrouter": ("OPENROUTER_API_KEY", "https://openrouter.ai/api/v1"),
}
"""Providers that OpenCode knows, with the variables of their keys and their addresses."""
_COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/|,(?=\s*[}\]])', re.DOTALL)
_ENV = re.compile(r"\{env:(\w+)\}")


def server_needs(
    gate: Path,
    environment: Mapping[str, str],
    brief: Brief,
    keys: Mapping[str, HeldKey],
    folders: Sequence[str] = (),
) -> Needs:
    """`keys` are those of the providers; `folders` were added by the operator."""
    home = environment.get("HOME") or "/"
    data = Path(environment.get("XDG_DATA_HOME") or os.path.join(home, ".local/share"), "opencode")
    name = hashlib.sha256(os.fsencode(os.path.realpath(brief.workspace))).hexdigest()[:16]
    own = gate.parent / "jails" / name
    files = user_files(environment)
    return Needs(
        read=(str(gate), *settings_entries(files)),
        write=(*folders, str(data / "auth.json")),
        mounts={str(data): str(own)},
        endpoints=(
            *(url for file in files for url in base_urls(file)),
            *ENDPOINTS,
            *server_endpoints(brief.mcp_servers),
        ),
        programs=server_programs(brief.mcp_servers),
        keys=tuple(keys.values()),
    )


def held_keys(environment: Mapping[str, str]) -> dict[str, HeldKey]:
    """Return the keys that providers take from variables which are set, by the provider's name."""
    variables = {name: row[0] for name, row in BUILT_IN.items()}
    urls = {name: row[1] for name, row in BUILT_IN.items()}
    for file in user_files(environment):
        for name, options in _provider_options(file).items():
            if found := _ENV.fullmatch(str(options.get("apiKey") or "")):
                variables[name] = found[1]
            if isinstance(url := options.get("baseURL"), str) and url:
                urls[name] = url
    named = {name: variable for name, variable in variables.items() if name in urls}
    return {name: HeldKey(one, urls[name]) for name, one in named.items() if environment.get(one)}


def with_addresses(environment: Mapping[str, str], keys: Mapping[str, HeldKey]) -> dict[str, str]:
    """Name our addresses in place of the providers', in the settings that come after the user's."""
    providers = {name: {"options": {"baseURL": key.stand_in}} for name, key in keys.items()}
    settings = json.loads(environment[OWN_SETTINGS])
    return {**environment, OWN_SETTINGS: json.dumps({**settings, "provider": providers})}


def _provider_options(file: Path) -> dict[str, dict[str, Any]]:
    """Return the options of the providers that a settings file names; empty for one that cannot be read."""
    try:
        text = file.read_text(encoding="utf-8")
        for _ in range(2):  # a comma before a comment is the last one once the comment is gone
            text = _COMMENT.sub(lambda found: found[1] or "", text)
        providers = msgspec.json.decode(text, type=_Settings).provider
    except (OSError, UnicodeError, msgspec.MsgspecError):
        return {}
    return {name: one.options for name, one in providers.items()}


class _Provider(Struct, frozen=True):
    options: dict[str, Any] = field(default_factory=dict)


class _Settings(Struct, frozen=True):
    provider: dict[str, _Provider] = field(default_factory=dict)


def settings_entries(files: Sequence[Path]) -> list[str]:
    """Return what is in the folders of the user's settings: OpenCode writes files of its own beside them."""
    folders = dict.fromkeys(file.parent for file in files)
    return [str(entry) for folder in folders if folder.is_dir() for entry in sorted(folder.iterdir())]


def base_urls(file: Path) -> list[str]:
    """Return the addresses of models that a settings file names."""
    try:
        return _URL.findall(file.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return []
