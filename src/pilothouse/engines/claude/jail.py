"""Needs of Claude Code inside a jail: its own folder and the network. Pure.

Of `~/.claude` it may write the logs of this workspace's sessions and its login. Settings, hooks and the like are read-only,
and logs of other workspaces are absent. `~/.claude.json` is a copy: changes to it end with the process.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from pilothouse.core.engine import Brief
from pilothouse.core.isolation import HeldKey, Needs, server_endpoints, server_programs
from pilothouse.engines.claude.session_log import config_folder, folder_name

READ_ONLY = (
    "settings.json",
    "settings.local.json",
    "CLAUDE.md",
    "agents",
    "commands",
    "skills",
    "plugins",
    "rules",
    "output-styles",
    "hooks",
    "managed-settings.json",
)
LOGIN = ".credentials.json"
STATE = ".claude.json"
API = "https://api.anthropic.com"
KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
ADDRESS = "ANTHROPIC_BASE_URL"
LOGIN_SERVERS = ("https://platform.claude.com", "https://console.anthropic.com", "https://claude.ai")


def session_needs(environment: Mapping[str, str], cwd: str, brief: Brief, folders: Iterable[str]) -> Needs:
    """`folders` were added by the operator."""
    own = str(config_folder(environment))
    logs = os.path.join(own, "projects", folder_name(cwd))
    scratch = environment.get("CLAUDE_CODE_TMPDIR", "")
    beside = (cwd,) if cwd != brief.workspace else ()
    state = own if environment.get("CLAUDE_CONFIG_DIR") else os.path.dirname(own)
    model = environment.get(ADDRESS) or API
    return Needs(
        read=tuple(os.path.join(own, name) for name in READ_ONLY),
        write=tuple(filter(None, (scratch, *beside, *folders, os.path.join(own, LOGIN)))),
        copies=(os.path.join(state, STATE),),
        mounts={logs: logs},
        endpoints=(
            model,
            *LOGIN_SERVERS,
            *server_endpoints(brief.mcp_servers),
        ),
        programs=server_programs(brief.mcp_servers),
        keys=tuple(HeldKey(name, model, ADDRESS) for name in KEYS),
    )
