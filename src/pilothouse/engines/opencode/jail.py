"""What a jailed server must reach: its settings, a database of its own, the user's login, its model. Pure but for reading settings.

Settings are read-only inside, and the sessions of other folders are absent: OpenCode keeps all of them in one database.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from pilothouse.core.engine import Brief
from pilothouse.core.isolation import Needs, server_endpoints, server_programs
from pilothouse.engines.opencode.launch import user_files

ENDPOINTS = (
    "https://opencode.ai",
    "https://models.dev",
    "https://api.anthropic.com",
    "https://api.openai.com",
)
_URL = re.compile(r'"base_?URL"\s*:\s*"([^"]+)"', re.IGNORECASE)


def server_needs(gate: Path, environment: Mapping[str, str], brief: Brief) -> Needs:
    home = environment.get("HOME") or "/"
    data = Path(environment.get("XDG_DATA_HOME") or os.path.join(home, ".local/share"), "opencode")
    name = hashlib.sha256(os.fsencode(os.path.realpath(brief.workspace))).hexdigest()[:16]
    own = gate.parent / "jails" / name
    files = user_files(environment)
    return Needs(
        read=(str(gate), *settings_entries(files)),
        write=(str(data / "auth.json"),),
        mounts={str(data): str(own)},
        endpoints=(
            *(url for file in files for url in base_urls(file)),
            *ENDPOINTS,
            *server_endpoints(brief.mcp_servers),
        ),
        programs=server_programs(brief.mcp_servers),
    )


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
