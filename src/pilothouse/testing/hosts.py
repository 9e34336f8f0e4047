"""Hosts for rigs: what Pilothouse gives to an engine or a channel that it builds, without a gateway behind it."""

from __future__ import annotations

import hashlib
import os
import secrets
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from pilothouse.core.channel import ChannelHost
from pilothouse.core.engine import NODE_MARKER, EngineHost
from pilothouse.core.ids import BlobHash
from pilothouse.core.message import Attachment
from pilothouse.testing.clock import RealClock


class MemoryBlobs:
    """Attachment bytes that are kept as long as this object."""

    def __init__(self) -> None:
        self.kept: dict[BlobHash, bytes] = {}

    async def get(self, blob: BlobHash) -> bytes:
        return self.kept[blob]

    async def put(self, data: bytes, name: str, media_type: str) -> Attachment:
        blob = BlobHash(hashlib.sha256(data).hexdigest())
        self.kept[blob] = data
        return Attachment(name, media_type, len(data), blob)


def no_log(event: str, **fields: object) -> None:
    pass


def engine_host(state_dir: Path, **changes: Any) -> EngineHost:
    """Return a host with a node marker of its own; `changes` are fields of `EngineHost`, for example `judge`."""
    marker = f"test-{secrets.token_hex(8)}"
    return replace(EngineHost(MemoryBlobs(), dict(os.environ), str(state_dir), marker, no_log), **changes)


def channel_host(state_dir: Path, **changes: Any) -> ChannelHost:
    """Return a host with the real clock; `changes` are fields of `ChannelHost`."""
    return replace(ChannelHost(MemoryBlobs(), str(state_dir), no_log, RealClock()), **changes)


def running_processes(host: EngineHost) -> list[str]:
    """List the living processes that carry the host's node marker, for a rig's `leftovers`. Linux only."""
    wanted = f"{NODE_MARKER}={host.node_marker}".encode()
    pids = sorted(int(name) for name in os.listdir("/proc") if name.isdigit())
    return [f"process {pid}" for pid in pids if wanted in _environment(pid)]


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:  # it has ended, or belongs to somebody else
        return []
