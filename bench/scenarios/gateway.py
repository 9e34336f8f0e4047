"""A real `pilothouse up` with one real engine, the person who talks to it, and a look at its store and its processes."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from bench.crashing.chats import Book
from bench.scenarios.channel import SocketConfig
from bench.scenarios.model import OPEN_S
from tests.dists import ROOT, SRC, write_dist
from tests.engines.gateway_terminal import declared_plugins

from pilothouse.channels.memory import MEMORY
from pilothouse.core.message import Address, conversation_id

WITHIN_S = 120.0
LOOK_EVERY_S = 0.1
FORCED = "bench.scenarios.channel:CHANNEL"


class Missed(Exception):
    """A scenario did not go as it must. The text is one short reason."""


def until(holds: Callable[[], Any], what: str, within_s: float = WITHIN_S) -> Any:
    """Return the first true value of `holds`."""
    deadline = time.monotonic() + within_s
    while not (found := holds()):
        if time.monotonic() > deadline:
            raise Missed(f"{what} did not come")
        time.sleep(LOOK_EVERY_S)
    return found


def stays(holds: Callable[[], Any], otherwise: str, for_s: float) -> None:
    """Raise `Missed` if `holds` becomes false within this time."""
    until_at = time.monotonic() + for_s
    while time.monotonic() < until_at:
        if not holds():
            raise Missed(otherwise)
        time.sleep(LOOK_EVERY_S)


class Gateway:
    def __init__(
        self, folder: Path, engine: str, section: Mapping[str, Any], environment: Mapping[str, str], mode: str
    ) -> None:
        """In full access the workspace is trusted: agents that need the one need the other too."""
        self.home = folder / "gateway"
        self.home.mkdir(exist_ok=True)
        self.workspace = folder / "work"
        self.files = SocketConfig(str(self.home))
        self._book = Book(self.home / "pilothouse.db")
        plugins = declared_plugins()
        plugins["channels"] = {"memory": FORCED, "terminal": plugins["channels"]["terminal"]}
        packages = write_dist(folder / "packages", "pilothouse", plugins)
        (self.home / "config.toml").write_text(self._config(engine, section))
        (self.home / "config.toml").chmod(0o600)
        self._environment = {
            **environment,
            "PYTHONPATH": os.pathsep.join(map(str, (SRC, packages, ROOT))),
            "PILOTHOUSE_HOME": str(self.home),
            "PILOTHOUSE_APPROVAL_MODE": mode,
        }
        self._up: subprocess.Popen[bytes] | None = None
        if mode == "full-access":
            words = [sys.executable, "-m", "pilothouse", "trust", str(self.workspace)]
            subprocess.run(words, env=self._environment, cwd=self.home, check=True, capture_output=True)

    def _config(self, engine: str, section: Mapping[str, Any]) -> str:
        lines = [
            "[gateway]",
            f"default_engine = {json.dumps(engine)}",
            f"default_workspace = {json.dumps(str(self.workspace))}",
            'busy = "steer"',
            f"question_park_s = {OPEN_S}",
            f"hang_after_s = {2 * OPEN_S}",
            "[people]",
            'owners = ["memory:person"]',
            "[channels.memory]",
            f"folder = {json.dumps(str(self.home))}",
            f"[engines.{engine}]",
            *(f"{key} = {json.dumps(value)}" for key, value in section.items()),
        ]
        return "\n".join(lines) + "\n"

    def start(self) -> None:
        """Start it, unless it runs."""
        if self._up is not None and self._up.poll() is None:
            return
        with (self.home / "stderr.txt").open("ab") as told:
            argv = [sys.executable, "-m", "pilothouse", "up"]
            self._up = subprocess.Popen(
                argv,
                env=self._environment,
                cwd=self.home,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=told,
            )
        until(self._answers, f"the start of the gateway ({self.home}/stderr.txt)")

    def _answers(self) -> bool:
        if self._up is None or self._up.poll() is not None:
            raise Missed("the gateway ended while it started: " + self.told()[-200:])
        with suppress(OSError), socket.socket(socket.AF_UNIX) as line:
            line.connect(str(self.files.socket))
            line.sendall(b'{"text": "/status", "place": "start", "files": []}')
            return bool(line.recv(1024))
        return False

    def told(self) -> str:
        """Return what it printed."""
        return (self.home / "stderr.txt").read_text()

    def kill(self) -> None:
        if self._up is not None:
            self._up.kill()
            self._up.wait()

    def stop(self) -> None:
        """End it as `systemctl stop` does. Nothing may be left of it."""
        if self._up is not None:
            self._up.terminate()
            self._up.wait(WITHIN_S)
        if left := self.engine_pids():
            raise Missed(f"left running: {_read(left[0], 'cmdline').decode()[:60]}")

    def clear(self) -> None:
        """Remove what is left of scenarios that failed."""
        self.kill()
        for pid in self.engine_pids():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def kill_engine(self) -> None:
        """Kill the engine's own processes: those that the gateway itself started."""
        pids = self.engine_pids()
        if not pids:
            raise Missed("no process of the engine was found")
        for pid in [pid for pid in pids if _parent(pid) not in pids]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def engine_pids(self) -> list[int]:
        """Return the living processes with this user's home, but for the gateway's own."""
        wanted, own = f"HOME={self._environment['HOME']}".encode(), self._up.pid if self._up else 0
        return [pid for pid in _pids() if pid != own and wanted in _read(pid, "environ").split(b"\0")]

    def do(self, **action: Any) -> dict[str, Any]:
        """Act as the person does."""
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(WITHIN_S)
            line.connect(str(self.files.socket))
            line.sendall(json.dumps(action).encode())
            return json.loads(line.recv(1 << 20) or b"{}")

    def seen(self, place: str) -> list[dict[str, Any]]:
        """Return everything that was shown in a place, oldest first."""
        with suppress(FileNotFoundError):
            lines = map(json.loads, self.files.seen.read_text().splitlines())
            return [line for line in lines if line["place"] == place]
        return []

    def turns(self, place: str) -> list[tuple[str, str]]:
        """Return the status and the failure's kind of each turn in a place, oldest first."""
        id = str(conversation_id(Address(MEMORY, place)))
        rows = self._book.rows("SELECT status, failure FROM turns WHERE conversation_id = ? ORDER BY seq", id)
        return [(status, json.loads(failure)["kind"] if failure else "") for status, failure in rows]

    def waiting(self, place: str) -> int:
        """Count the messages of a place that no turn has taken yet."""
        id = str(conversation_id(Address(MEMORY, place)))
        return len(
            self._book.rows("SELECT id FROM inbox WHERE conversation_id = ? AND status = 'queued'", id)
        )


def running(words: str) -> list[int]:
    """Return the living processes with exactly this command line."""
    wanted = words.encode()
    return [pid for pid in _pids() if _read(pid, "cmdline").replace(b"\0", b" ").strip() == wanted]


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _read(pid: int, file: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{file}").read_bytes()
    except OSError:
        return b""


def _parent(pid: int) -> int:
    fields = _read(pid, "stat").rpartition(b")")[2].split()
    return int(fields[1]) if fields else 0
