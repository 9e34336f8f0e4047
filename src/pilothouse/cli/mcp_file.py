"""Changes of `[mcp.servers.ID]` in a TOML file, as text: comments and everything else stay as they are.

Each change is checked by reading the new text: if it would mean anything else than wanted, nothing is written.
"""

from __future__ import annotations

import os
import re
import stat
import tempfile
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pilothouse.cli.files import quote, tables, writing
from pilothouse.core.errors import ConfigError

Tree = dict[str, Any]
BY_HAND = "{file} has the server {id} in a form that cannot be changed here. Edit the file by hand."
_HEADER = re.compile(r"^\s*\[")
_ENABLED = re.compile(r"^\s*enabled\s*=")


def add_server(file: Path, id: str, table: Mapping[str, Any]) -> None:
    def add(servers: Tree) -> None:
        servers[id] = dict(table)

    text = _read(file)
    if id in _servers(_parse(file, text)):
        raise ConfigError(f"{file} has a server {id} already. To replace it: pilothouse mcp remove {id}")
    gap = "" if not text or text.endswith("\n") else "\n"
    _change(file, id, text, text + gap + tables(dict(table), "mcp", "servers", id), add)


def remove_server(file: Path, id: str) -> bool:
    """Return false if the file has no such server."""
    text = _read(file)
    if id not in _servers(_parse(file, text)):
        return False
    kept = [line for line, owner in _owned(text, id) if not owner]
    _change(file, id, text, "".join(kept), lambda servers: servers.pop(id))
    return True


def switch_server(file: Path, id: str, *, on: bool) -> bool:
    """Return false if the file has no such server."""

    def switch(servers: Tree) -> None:
        servers[id]["enabled"] = on

    text = _read(file)
    if id not in _servers(_parse(file, text)):
        return False
    word = f"enabled = {'true' if on else 'false'}\n"
    lines: list[str] = []
    for line, owner in _owned(text, id):
        if owner == "head":
            lines += [line if line.endswith("\n") else f"{line}\n", word]
        elif owner != "own" or not _ENABLED.match(line):
            lines.append(line)
    _change(file, id, text, "".join(lines), switch)
    return True


def _owned(text: str, id: str) -> list[tuple[str, str]]:
    """Return each line, and which part of the server it is: `head`, `own`, `below` (a table of it), or nothing."""
    names = "|".join(re.escape(name) for name in {id, quote(id), f"'{id}'"})
    head = re.compile(rf"^\s*\[\s*mcp\s*\.\s*servers\s*\.\s*(?:{names})\s*(\.[^\]]*)?\]")
    found: list[tuple[str, str]] = []
    inside = ""
    for line in text.splitlines(keepends=True):
        if match := head.match(line):
            inside = "below" if match[1] else "own"
            found.append((line, inside if match[1] else "head"))
            continue
        if _HEADER.match(line):
            inside = ""
        found.append((line, inside))
    return found


def _change(file: Path, id: str, before: str, after: str, wanted: Callable[[Tree], Any]) -> None:
    tree = _parse(file, before)
    wanted(_servers(tree))
    try:
        as_wanted = _plain(tomllib.loads(after)) == _plain(tree)
    except tomllib.TOMLDecodeError:
        as_wanted = False
    if not as_wanted:
        raise ConfigError(BY_HAND.format(file=file, id=id))
    with writing(file):
        _write(file, after)


def _plain(tree: Tree) -> Tree:
    """Leave out an empty `[mcp]`: without its last server nothing is left of it."""
    servers = tree.get("mcp", {}).get("servers", {})
    mcp = {**tree.get("mcp", {}), "servers": servers}
    mcp = {name: value for name, value in mcp.items() if value}
    rest = {name: value for name, value in tree.items() if name != "mcp"}
    return {**rest, **({"mcp": mcp} if mcp else {})}


def _servers(tree: Tree) -> Tree:
    section = tree.setdefault("mcp", {})
    found = section.setdefault("servers", {}) if isinstance(section, dict) else None
    if not isinstance(found, dict):
        raise ConfigError("The section [mcp] is no table of servers. Edit the file by hand.")
    return found


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, ValueError) as error:
        raise ConfigError(f"{file} cannot be read: {getattr(error, 'strerror', None) or error}") from error


def _parse(file: Path, text: str) -> Tree:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{file} is not valid TOML: {error}. Correct it first.") from error


def _write(file: Path, text: str) -> None:
    """Replace the file as a whole. A link stays one, and a file keeps its mode; a new one is private."""
    real = file.resolve()
    real.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    mode = stat.S_IMODE(real.stat().st_mode) if real.exists() else 0o600
    number, draft = tempfile.mkstemp(dir=real.parent, prefix=f".{real.name}.")
    try:
        with os.fdopen(number, "w", encoding="utf-8") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        os.chmod(draft, mode)
        os.replace(draft, real)
    except BaseException:
        os.unlink(draft)
        raise
