"""The start of a server: its environment, its settings, and a small plugin. Pure, but for `write_gate`.

Every tool asks, in every mode: Pilothouse judges, and answers at once what its rules decide. The settings of the user
count, and those of a trusted folder; ours come last. An untrusted folder is served by a server of its own that reads
nothing of it: no settings, MCP servers, providers, skills or instructions, and starts none of its programs (language
servers and formatters are looked for in the folder). But 1.18 has a second reader of settings that knows no such switch,
and it loads plugins: an untrusted folder with settings of its own is refused.

The plugin closes two holes. OpenCode does not ask about a script without a command in it, such as a redirection alone,
so such a script gets a command that does nothing. And its commands would see the server's password and the keys.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pilothouse.core.engine import NODE_MARKER, EngineHost
from pilothouse.core.errors import EngineError
from pilothouse.core.outcome import Failure
from pilothouse.engines.opencode.calls import PERMISSIONS
from pilothouse.engines.opencode.config import OpenCodeConfig
from pilothouse.processes import BASE_NAMES, allowed_environment

USER = "opencode"
PASSED = ("OPENCODE_CONFIG", "OPENCODE_CONFIG_DIR")
_ENV_KEY = re.compile(r"\{env:(\w+)\}")

ASKED: dict[str, str] = {"*": "ask", **dict.fromkeys(sorted(set(PERMISSIONS.values())), "ask")}
"""Each by its name: one that the user's settings have too would else keep its place and its patterns."""
SETTLED = {
    "question": "allow",
    # The call itself is judged, with its paths.
    "external_directory": "allow",
    "plan_enter": "deny",
    "plan_exit": "deny",
}
OWN_SETTINGS = (".opencode", "opencode.json", "opencode.jsonc")
NOT_TRUSTED = (
    "{path} holds settings of its own for OpenCode, which may run programs, and this folder is not trusted. Trust it, remove "
    "that, or use another engine."
)
QUIET = {
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
    "OPENCODE_DISABLE_TERMINAL_TITLE": "1",
    "OPENCODE_ENABLE_QUESTION_TOOL": "1",
}
UNTRUSTED = {
    "OPENCODE_DISABLE_PROJECT_CONFIG": "1",
    "OPENCODE_DISABLE_CLAUDE_CODE": "1",
    "OPENCODE_DISABLE_CLAUDE_CODE_PROMPT": "1",
    "OPENCODE_DISABLE_CLAUDE_CODE_SKILLS": "1",
    "OPENCODE_DISABLE_EXTERNAL_SKILLS": "1",
}

GATE = """// Written by Pilothouse at each start of the server.
const PLAIN = new RegExp(
  "^\\\\s*(?!(?:cd|chdir|pushd|popd|push-location|set-location|if|for|while|until|case|select|function|time|coproc|" +
    "export|declare|typeset|readonly|local|unset|unsetenv)(?![\\\\w.]))[A-Za-z][\\\\w./-]*(?=\\\\s|$)",
)
const HIDDEN = /KEY|TOKEN|SECRET|PASSWORD/i
export const Pilothouse = async () => {
  delete process.env.OPENCODE_SERVER_PASSWORD
  return {
    "tool.execute.before": async (input, output) => {
      const script = output.args?.command
      if (input.tool === "bash" && typeof script === "string" && !PLAIN.test(script)) output.args.command = ":\\n" + script
    },
    "shell.env": async (input, output) => {
      for (const name of Object.keys(process.env)) if (HIDDEN.test(name)) output.env[name] = ""
    },
  }
}
"""


def check_folder(workspace: str, home: str) -> None:
    """Refuse an untrusted folder with settings of its own, in it or above it; the user's home is theirs. Raises `EngineError`."""
    real, own = Path(workspace).resolve(), Path(home or "/").resolve()
    for folder in (real, *real.parents):
        for name in OWN_SETTINGS:
            if folder != own and (folder / name).exists():
                raise EngineError(Failure("permission", NOT_TRUSTED.format(path=folder / name)))


def write_gate(state_dir: str) -> Path:
    """Write the plugin into the gateway's folder. Raises `EngineError`."""
    path = Path(state_dir, "opencode", "gate.js").absolute()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(GATE, encoding="utf-8")
    except OSError as error:
        text = f"{path} could not be written, so OpenCode was not started: {error.strerror}."
        raise EngineError(Failure("bad_request", text)) from error
    return path


def server_settings(gate: Path, *, trusted: bool) -> dict[str, Any]:
    """Return the settings that come after the user's and the folder's."""
    programs = {} if trusted else {"lsp": False, "formatter": False}
    return {"autoupdate": False, "share": "disabled", "plugin": [gate.as_uri()], **programs}


def server_environment(
    config: OpenCodeConfig,
    host: EngineHost,
    password: str,
    gate: Path,
    extra: Mapping[str, str],
    *,
    trusted: bool,
) -> dict[str, str]:
    ours = {
        **QUIET,
        **({} if trusted else UNTRUSTED),
        "OPENCODE_SERVER_PASSWORD": password,
        "OPENCODE_SERVER_USERNAME": USER,
        "OPENCODE_CONFIG_CONTENT": json.dumps(server_settings(gate, trusted=trusted)),
        "OPENCODE_PERMISSION": json.dumps({**ASKED, **SETTLED}),
        NODE_MARKER: host.node_marker,
    }
    return allowed_environment(host.environment, passed_names(config, host.environment), {**extra, **ours})


def passed_names(config: OpenCodeConfig, environment: Mapping[str, str]) -> list[str]:
    """Return the names of the variables that OpenCode may see."""
    return [*BASE_NAMES, *PASSED, *key_names(user_files(environment)), *config.environment]


def user_files(environment: Mapping[str, str]) -> list[Path]:
    """Return the files that may hold the user's own settings."""
    home = environment.get("XDG_CONFIG_HOME") or os.path.join(environment.get("HOME") or "/", ".config")
    folders = [
        Path(home, "opencode"),
        *([Path(found)] if (found := environment.get("OPENCODE_CONFIG_DIR")) else []),
    ]
    files = [
        folder / name for folder in folders for name in ("opencode.json", "opencode.jsonc", "config.json")
    ]
    return [*files, *([Path(found)] if (found := environment.get("OPENCODE_CONFIG")) else [])]


def key_names(files: Iterable[Path]) -> list[str]:
    """Return the environment variables that the user's settings name as `{env:NAME}`."""
    names: list[str] = []
    for file in files:
        try:
            names += _ENV_KEY.findall(file.read_text(encoding="utf-8", errors="replace"))
        except OSError:
            continue
    return list(dict.fromkeys(names))
