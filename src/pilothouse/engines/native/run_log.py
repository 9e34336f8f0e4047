"""The log of one turn: its requests to the model, their replies, and the outputs of tools, as JSON lines.

A turn's file is `sessions/YYYY/MM/DD/<turn>.jsonl` in the engine's folder, readable by its owner only. It is for people: the
session itself is in the history. A log that cannot be written never disturbs a turn. Days past the retention are deleted.
"""

from __future__ import annotations

import calendar
import hashlib
import os
import re
import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from anyio.to_thread import run_sync

from pilothouse.core.event import clean_values
from pilothouse.core.outcome import ModelCallRecord

TEXT_CHARS = 20_000
MAX_READ_BYTES = 64 * 1024 * 1024
DAY_S = 86_400.0
BLOCK = 2048
"""Bytes of a request that are compared as one."""
_DIGEST, _SIZE = 8, 8
_OLD_REQUESTS = "*/last-request"
"""Whole requests, which earlier versions left in the folders of sessions."""
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,100}")


class Digests(NamedTuple):
    """Digests of a request's blocks, without its closing brackets. The request itself is not kept."""

    size: int
    blocks: bytes


class RunLog:
    """`dumps` is a folder for whole requests and replies. `log` also tells each request's size, hash and shared prefix to
    Pilothouse's own log, if it is given. `last` is a file with the digests of the session's last request, for the next turn's
    first one."""

    def __init__(
        self, root: Path, name: str, now: float, dumps: str = "", log: Any = None, last: Path | None = None
    ) -> None:
        self._path = run_path(root, name, now)
        self._name = name
        self._dumps = dumps
        self._log = log
        self._made = False
        self._last_file = last
        self._last: Digests | None = None
        self._requests = 0

    def add(self, kind: str, at: float, **fields: Any) -> None:
        with suppress(OSError):
            if not self._made:
                self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._made = True
            with open(self._path, "ab", opener=_private) as file:
                file.write(_encode({"type": kind, "at": at, **fields}) + b"\n")

    async def request(self, data: bytes, model: str, at: float) -> int:
        """Note a request, and return its number. The shared prefix is the part that it has in common with the last one."""
        self._requests += 1
        about = await run_sync(self._measure, data)
        self.add("llm.request", at, seq=self._requests, model=model, **about)
        if self._log is not None:
            self._log("native.request", turn=self._name, seq=self._requests, model=model, **about)
        return self._requests

    def response(self, seq: int, at: float, **fields: Any) -> None:
        self.add("llm.response", at, seq=seq, **fields)
        self._dump("response", _encode({"seq": seq, **fields}))

    def _measure(self, data: bytes) -> dict[str, Any]:
        """For a thread: a request with images has many megabytes."""
        self._dump("request", data)
        last = self._last or self._read_last()
        shared = shared_prefix(last, data) if last else None
        self._last = digest(data)
        if self._last_file is not None:
            with suppress(OSError), open(self._last_file, "wb", opener=_private) as file:
                file.write(self._last.size.to_bytes(_SIZE, "big") + self._last.blocks)
        return {"bytes": len(data), "hash": hashlib.sha256(data).hexdigest()[:16], "shared_prefix": shared}

    def _read_last(self) -> Digests | None:
        """Read those of the last request of the turn before."""
        with suppress(OSError):
            if self._last_file and (data := self._last_file.read_bytes()):
                return Digests(int.from_bytes(data[:_SIZE], "big"), data[_SIZE:])
        return None

    def _dump(self, kind: str, data: bytes) -> None:
        if not self._dumps:
            return
        folder = Path(self._dumps).expanduser()
        with suppress(OSError):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            path = folder / f"{self._name}-{self._requests:03d}-{kind}.json"
            with open(path, "wb", opener=_private) as file:
                file.write(data)


def run_path(root: Path, name: str, at: float) -> Path:
    safe = name if _NAME.fullmatch(name) else hashlib.sha256(name.encode()).hexdigest()[:32]
    return root.joinpath(*time.strftime("%Y/%m/%d", time.gmtime(at)).split("/"), f"{safe}.jsonl")


def digest(data: bytes) -> Digests:
    size = len(data.rstrip(b"]}"))
    return Digests(size, _blocks(data, size))


def _blocks(data: bytes, size: int) -> bytes:
    view = memoryview(data)[:size]
    found = (hashlib.sha256(view[at : at + BLOCK]).digest() for at in range(0, len(view), BLOCK))
    return b"".join(one[:_DIGEST] for one in found)


def shared_prefix(last: Digests, data: bytes) -> float:
    """Return the share of the last request with which this one begins, rounded down to whole blocks of 2 KiB."""
    blocks = _blocks(data, last.size)
    if not last.size or blocks == last.blocks:
        return 1.0
    pieces = range(0, len(blocks), _DIGEST)
    same = takewhile(lambda at: blocks[at : at + _DIGEST] == last.blocks[at : at + _DIGEST], pieces)
    return round(len([*same]) * BLOCK / last.size, 4)


def bounded_text(text: str) -> str:
    return (
        text
        if len(text) <= TEXT_CHARS
        else f"{text[:TEXT_CHARS]}\n[{len(text) - TEXT_CHARS:,} more characters]"
    )


def prune(root: Path, before: float) -> None:
    """Delete the logs of the days that ended before a time, and whole requests in the folders of sessions."""
    for request in root.glob(_OLD_REQUESTS):
        with suppress(OSError):
            request.unlink()
    for folder in root.glob("[0-9][0-9][0-9][0-9]/[0-9][0-9]/[0-9][0-9]"):
        with suppress(ValueError, OSError):
            day = time.strptime("/".join(folder.parts[-3:]) + " UTC", "%Y/%m/%d %Z")
            if calendar.timegm(day) + DAY_S < before:
                shutil.rmtree(folder)
                for parent in (folder.parent, folder.parent.parent):
                    parent.rmdir()


def read_calls(root: Path, name: str, at: float) -> Sequence[ModelCallRecord]:
    """Return the requests of a turn that began about this time, with their replies; empty without a log."""
    for moment in (at, at - DAY_S, at + DAY_S):
        with suppress(OSError):
            with run_path(root, name, moment).open("rb") as file:
                data = file.read(MAX_READ_BYTES)
            return _join([_decode(line) for line in data.split(b"\n") if line])
    return ()


def _join(rows: list[dict[str, Any]]) -> list[ModelCallRecord]:
    replies = {row.get("seq"): row for row in rows if row.get("type") == "llm.response"}
    found = []
    for row in rows:
        if row.get("type") == "llm.request":
            told = {
                **row,
                **{k: v for k, v in replies.get(row.get("seq"), {}).items() if k not in ("type", "at")},
            }
            with suppress(msgspec.ValidationError):
                found.append(msgspec.convert(told, ModelCallRecord))
    return found


def _decode(line: bytes) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(line)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _encode(value: dict[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(clean_values(msgspec.to_builtins(value)))


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
