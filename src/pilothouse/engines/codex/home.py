"""A `CODEX_HOME` of our own, beside the user's.

Codex writes into its settings which folders are trusted, and obeys rules there that let commands pass unasked. So the
user's own home is left alone: ours has a copy of some of its settings, and links to its login and its sessions. Codex
writes through these links, and its locks on sessions hold across both homes.

    config.toml          written anew at each start: the keys of `KEPT`, then ours
    auth.json            a link to the user's: the same login, also after it was renewed
    sessions …           links: `codex resume ID` works in a terminal, and a session begun there goes on here
    AGENTS.md            a link: the user's own instructions
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pilothouse.core.errors import EngineError
from pilothouse.core.outcome import Failure

FILES = ("auth.json", "AGENTS.md")
FOLDERS = ("sessions", "archived_sessions", "thread-writer-locks")

KEPT = (
    "model",
    "model_provider",
    "model_providers",
    "model_reasoning_effort",
    "model_reasoning_summary",
    "model_verbosity",
    "model_context_window",
    "model_auto_compact_token_limit",
    "service_tier",
    "openai_base_url",
    "chatgpt_base_url",
    "forced_login_method",
    "forced_chatgpt_workspace_id",
    "cli_auth_credentials_store",
    "mcp_servers",
)
"""The user's settings that count here too. A key that is not listed may let calls pass, or start programs."""

_SERVER_KEYS_DROPPED = ("default_tools_approval_mode", "tools")
_OURS: Mapping[str, Any] = {
    "suppress_unstable_features_warning": True,
    "check_for_update_on_startup": False,
    "thread_unload_delay_secs": 0,
    "analytics": {"enabled": False},
    "features": {
        # The model may ask questions, as it may in plan mode.
        "default_mode_request_user_input": True,
        # Turns that nobody asked for.
        "goals": False,
        "memories": False,
        "multi_agent": False,
        # Tools whose calls would not be asked about.
        "apps": False,
        "browser_use": False,
        "computer_use": False,
        "plugins": False,
        "tool_suggest": False,
        # Programs that others chose.
        "hooks": False,
    },
}


def user_home(configured: str | None, environment: Mapping[str, str]) -> Path:
    """Return the folder of the user's own Codex."""
    home = environment.get("HOME") or "~"
    named = configured or environment.get("CODEX_HOME") or f"{home}/.codex"
    return Path(home + named[1:] if named.startswith("~/") else named)


def make_home(user: Path, own: Path, *, shares_sessions: bool = True) -> dict[str, Any]:
    """Make our home, or bring it up to date; return its settings. Raises `EngineError`.

    One that shares no sessions keeps its own: a jail must not show those of other folders.
    """
    settings = compose_settings(user_settings(user))
    try:
        own.mkdir(parents=True, exist_ok=True)
        own.chmod(0o700)
        for name in FOLDERS if shares_sessions else ():
            (user / name).mkdir(parents=True, exist_ok=True)
            _link(own / name, user / name)
        for name in FILES:
            _link(own / name, user / name)
        _write_private(own / "config.toml", render_toml(settings))
    except OSError as error:
        text = f"The folder for Codex's settings, {own}, could not be made: {error.strerror}."
        raise EngineError(Failure("bad_request", text)) from error
    return settings


def compose_settings(user: Mapping[str, Any]) -> dict[str, Any]:
    """Return the user's settings that count here, with MCP servers that ask before every call, and ours."""
    kept = {key: user[key] for key in KEPT if key in user}
    servers = kept.get("mcp_servers")
    if isinstance(servers, dict):
        kept["mcp_servers"] = {
            name: asking_server(one) for name, one in servers.items() if isinstance(one, dict)
        }
    return {**kept, **_OURS}


def asking_server(server: Mapping[str, Any]) -> dict[str, Any]:
    """Return an MCP server's settings so that each of its calls is asked about."""
    kept = {key: value for key, value in server.items() if key not in _SERVER_KEYS_DROPPED}
    return {**kept, "default_tools_approval_mode": "prompt"}


def key_names(settings: Mapping[str, Any]) -> list[str]:
    """Return the environment variables that the user's model providers take their keys from."""
    providers = settings.get("model_providers")
    found = providers.values() if isinstance(providers, dict) else ()
    names = [one.get("env_key") for one in found if isinstance(one, dict)]
    return [name for name in names if isinstance(name, str) and name]


def render_toml(settings: Mapping[str, Any]) -> str:
    return "".join(f"{_string(key)} = {_value(value)}\n" for key, value in settings.items())


def _value(value: Any) -> str:
    """Write a value on one line. JSON's numbers are TOML's too."""
    match value:
        case dict():
            return "{" + ", ".join(f"{_string(key)} = {_value(one)}" for key, one in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(_value, value)) + "]"
        case bool() | int() | float():
            return json.dumps(value)
        case _:
            return _string(str(value))


def _string(text: str) -> str:
    """JSON escapes the delete character not at all, and characters beyond 16 bits as TOML does not."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def user_settings(user: Path) -> dict[str, Any]:
    """Read the user's own settings; empty if there are none. Raises `EngineError` for a file that cannot be read."""
    path = user / "config.toml"
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeError, tomllib.TOMLDecodeError) as error:
        text = f"{path} cannot be read, so Codex was not started: {error}. Correct it, then try again."
        raise EngineError(Failure("bad_request", text)) from error


def _link(link: Path, target: Path) -> None:
    """Make `link` lead to `target`. A folder in its place is kept under another name."""
    if link.is_symlink() and os.readlink(link) == str(target):
        return
    if link.is_dir() and not link.is_symlink():
        link.rename(link.with_name(f"{link.name}.old"))
    link.unlink(missing_ok=True)
    link.symlink_to(target)


def _write_private(path: Path, text: str) -> None:
    """Write the file anew, readable for this user alone: settings may hold keys."""
    path.unlink(missing_ok=True)
    with open(path, "x", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(text)
