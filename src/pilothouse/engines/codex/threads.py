"""Parameters that start a thread and a turn: Pilothouse's approval mode and trust, in Codex's words. Pure.

Every call is asked about in every mode (`untrusted`): Pilothouse judges it, and answers at once what its rules allow. In
full access there is no sandbox, and a trusted folder's own `.codex` counts. In the other modes a tool whose calls Codex
never asks about is left out, and `.codex` does not count at all: its rules could let commands pass.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from pilothouse.core.call import OWN_SERVER
from pilothouse.core.engine import Brief
from pilothouse.engines.codex.config import CodexConfig
from pilothouse.engines.codex.home import asking_server
from pilothouse.processes.git import safe_git

_THREAD_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

ASK_ALWAYS = {"approvalPolicy": "untrusted", "approvalsReviewer": "user"}


def is_thread_id(text: str) -> bool:
    return _THREAD_ID.fullmatch(text) is not None


def thread_params(config: CodexConfig, brief: Brief, instructions: str) -> dict[str, Any]:
    """Return the parameters of `thread/start` and `thread/resume`."""
    model = brief.model or config.model
    return {
        **ASK_ALWAYS,
        "cwd": brief.workspace,
        # Each turn names its own sandbox. With a wider one here, Codex would note the folder as trusted.
        "sandbox": "danger-full-access" if is_free(brief) else "read-only",
        "config": thread_settings(config, brief),
        **({"model": model} if model else {}),
        **({"developerInstructions": instructions} if instructions else {}),
    }


def turn_params(config: CodexConfig, brief: Brief) -> dict[str, Any]:
    """Return the parameters of `turn/start` that hold from this turn on."""
    model = brief.model or config.model
    return {
        **ASK_ALWAYS,
        "sandboxPolicy": sandbox_policy(config, brief),
        **({"model": model} if model else {}),
        **({"effort": config.effort} if config.effort else {}),
    }


def is_free(brief: Brief) -> bool:
    return brief.approval_mode == "full-access"


def sandbox_policy(config: CodexConfig, brief: Brief) -> dict[str, Any]:
    if is_free(brief) or config.sandbox == "danger-full-access":
        return {"type": "dangerFullAccess"}
    if config.sandbox == "read-only":
        return {"type": "readOnly", "networkAccess": config.network_access}
    return {
        "type": "workspaceWrite",
        "writableRoots": [os.path.expanduser(folder) for folder in config.add_dirs],
        "networkAccess": config.network_access,
        "excludeTmpdirEnvVar": False,
        "excludeSlashTmp": False,
    }


def thread_settings(config: CodexConfig, brief: Brief) -> dict[str, Any]:
    free = is_free(brief)
    servers = {name: read_server(one) for name, one in brief.mcp_servers.items()}
    if OWN_SERVER in servers:  # the first connection waits for an import; else Codex begins without its tools
        servers[OWN_SERVER] |= {"required": True, "startup_timeout_sec": 60}
    return {
        **_trust(brief),
        "skills": {"include_instructions": brief.trusted},
        # Codex asks neither about images that it reads nor about input for a running command.
        "features": {"view_image": free, "unified_exec_tty": free},
        "web_search": config.web_search or ("cached" if free else "disabled"),
        "shell_environment_policy": {
            "inherit": "all",
            "ignore_default_excludes": False,
            # Codex leaves out inherited names with KEY in them, and git refuses a setting without its name.
            "set": safe_git(brief.environment, trusted=brief.trusted),
        },
        **({} if brief.trusted else {"project_doc_max_bytes": 0}),
        **({"mcp_servers": servers} if servers else {}),
    }


def _trust(brief: Brief) -> dict[str, Any]:
    """Return the trust in the workspace. Without a word, Codex reads its AGENTS.md and nothing else of it."""
    if brief.trusted and not is_free(brief):
        return {}
    level = "trusted" if brief.trusted else "untrusted"
    return {"projects": {brief.workspace: {"trust_level": level}}}


def read_server(server: Mapping[str, Any]) -> dict[str, Any]:
    """Return an MCP server of the brief in Codex's words."""
    waits = {"tool_timeout_sec": server["timeout"] / 1000} if "timeout" in server else {}
    if "url" in server:
        headers = {"http_headers": server["headers"]} if server.get("headers") else {}
        return asking_server({"url": server["url"], **headers, **waits})
    return asking_server(
        {**{key: server[key] for key in ("command", "args", "env") if key in server}, **waits}
    )
