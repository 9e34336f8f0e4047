"""MCP servers that editors sent with their sessions, where the process that runs the engines finds them.

Each editor's process keeps one file that only its user can read, and holds a lock for as long as it lives. A file whose lock is
free was left by a killed process: its servers do not count, and it is removed. So nothing of them is in the store or in a
backup, and nothing outlives the editor.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from pilothouse.core.ids import ConversationId
from pilothouse.core.mcp import McpServer, for_engines

FOLDER = "client-servers"
MAX_BYTES = 4 * 1024 * 1024
Kept = dict[ConversationId, dict[str, McpServer]]


class ClientServers:
    """The servers of the sessions that this process's editor has open."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._kept: Kept = {}

    def keep(self, conversation: ConversationId, servers: Mapping[str, McpServer]) -> None:
        """Replace the servers of a session; none removes them. Raises `OSError`."""
        if self._kept.get(conversation, {}) == dict(servers):
            return
        self._kept.pop(conversation, None)
        if servers:
            self._kept[conversation] = dict(servers)
        new = self._path.with_suffix(".new")
        with open(new, "wb", opener=_private) as file:
            file.write(msgspec.json.encode(self._kept))
        os.replace(new, self._path)


@contextmanager
def open_client_servers(state_dir: Path, name: str) -> Iterator[ClientServers]:
    """Leaving it removes the file."""
    folder = state_dir / FOLDER
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path, lock = folder / f"{name}.json", folder / f"{name}.lock"
    descriptor = _lock(lock)
    try:
        yield ClientServers(path)
    finally:
        _remove(path, path.with_suffix(".new"), lock)
        os.close(descriptor)


def _lock(lock: Path) -> int:
    """Hold a new lock. A gateway that looks before it is held takes it for a left one, and removes it: then it is made again."""
    while True:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), os.stat(lock)):
                return descriptor
        os.close(descriptor)


def find_client_servers(
    state_dir: Path, learn: Callable[..., None], conversation: ConversationId
) -> dict[str, Any]:
    """Return the servers of a session as tables of `Brief.mcp_servers`. `learn` is told the secrets in them."""
    found: dict[str, McpServer] = {}
    for lock in sorted((state_dir / FOLDER).glob("*.lock")):
        path = lock.with_suffix(".json")
        if _is_left(lock):
            _remove(path, path.with_suffix(".new"), lock)
        else:
            found |= _read(path).get(conversation, {})
    learn(*(secret for server in found.values() for secret in server.secrets))
    return {id: for_engines(server) for id, server in found.items()}


def _read(path: Path) -> Kept:
    try:
        with open(path, "rb") as file:
            return msgspec.json.decode(file.read(MAX_BYTES), type=Kept)
    except (OSError, msgspec.MsgspecError):
        return {}


def _is_left(lock: Path) -> bool:
    """Return true if no process holds the lock any more; false also where that cannot be found out."""
    try:
        descriptor = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def _remove(*paths: Path) -> None:
    for path in paths:
        with suppress(OSError):
            path.unlink()


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
