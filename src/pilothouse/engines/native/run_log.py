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
from pathlib import Path
from typing import Any

import msgspec

from pilothouse.core.event import clean_values
from pilothouse.core.outcome import ModelCallRecord

TEXT_CHARS = 20_000
MAX_READ_BYTES = 64 * 1024 * 1024
DAY_S = 86_400.0
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,100}")


class RunLog:
    """`dumps` is a folder for whole requests and replies. `log` also tells each request's size, hash and shared prefix to
    Pilothouse's own log, if it is given. `last` is a file with the session's last request, for the next turn's first one."""

    def __init__(
        self, root: Path, name: str, now: float, dumps: str = "", log: Any = None, last: Path | None = None
    ) -> None:
        self._path = run_path(root, name, now)
        self._name = name
        self._dumps = dumps
        self._log = log
        self._made = False
        self._last_file = last
        self._last = b""
        self._requests = 0

    def add(self, kind: str, at: float, **fields: Any) -> None:
        with suppress(OSError):
            if not self._made:
                self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._made = True
            with open(self._path, "ab", opener=_private) as file:
                file.write(_encode({"type": kind, "at": at, **fields}) + b"\n")

    def request(self, data: bytes, model: str, at: float) -> int:
        """Note a request, and return its number. The shared prefix is the part that it has in common with the last one."""
        self._requests += 1
        self._exchange_last(data)
        shared = shared_prefix(self._last, data) if self._last else None
        about = {"bytes": len(data), "hash": hashlib.sha256(data).hexdigest()[:16], "shared_prefix": shared}
        self._last = data
        self.add("llm.request", at, seq=self._requests, model=model, **about)
        self._dump("request", data)
        if self._log is not None:
            self._log("native.request", turn=self._name, seq=self._requests, model=model, **about)
        return self._requests

    def response(self, seq: int, at: float, **fields: Any) -> None:
        self.add("llm.response", at, seq=seq, **fields)
        self._dump("response", _encode({"seq": seq, **fields}))

    def _exchange_last(self, data: bytes) -> None:
        """Read the last request of the turn before, and put this one in its place."""
        if self._last_file is None:
            return
        if not self._last:
            with suppress(OSError):
                self._last = self._last_file.read_bytes()
        with suppress(OSError), open(self._last_file, "wb", opener=_private) as file:
            file.write(data)

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


def shared_prefix(last: bytes, data: bytes) -> float:
    """Return the share of the last request, without its closing brackets, with which this one begins."""
    head = last.rstrip(b"]}")
    if not head or data.startswith(head):
        return 1.0
    low, high = 0, min(len(head), len(data))
    while low < high:  # slices are compared much faster than characters
        middle = (low + high + 1) // 2
        low, high = (middle, high) if head[:middle] == data[:middle] else (low, middle - 1)
    return round(low / len(head), 4)


def bounded_text(text: str) -> str:
    return (
        text
        if len(text) <= TEXT_CHARS
        else f"{text[:TEXT_CHARS]}\n[{len(text) - TEXT_CHARS:,} more characters]"
    )


def prune(root: Path, before: float) -> None:
    """Delete the logs of the days that ended before a time."""
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
