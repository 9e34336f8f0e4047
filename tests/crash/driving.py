"""Starts a gate, talks to it, and waits for what it says."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Self

from bench.crashing.sweep import ROOT

from pilothouse.processes.procfs import Marker, carries, list_pids, read_process

PATIENCE_S = 100.0


class Gate:
    """Always ended when its `with` is left, however it stands then."""

    def __init__(self, home: Path, *options: str) -> None:
        env = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
        argv = [sys.executable, "-m", "tests.crash.gate", str(home), *options]
        self._process = subprocess.Popen(
            argv, env=env, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        self.told: list[dict[str, Any]] = []
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self._reader.join(PATIENCE_S)
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    def order(self, **order: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")

    def say(self, native_id: str, text: str) -> None:
        self.order(say=text, id=native_id)

    def all(self, key: str) -> list[Any]:
        return [line[key] for line in self.told if key in line]

    def until(self, key: str, value: Any = None, count: int = 1) -> Any:
        """The last of `count` lines with this key, and this value in it if one is given."""

        def found() -> list[Any]:
            return [told for told in self.all(key) if value is None or value in told]

        with self._news:
            assert self._news.wait_for(lambda: len(found()) >= count, PATIENCE_S), (
                key,
                value,
                self.told[-20:],
            )
            return found()[count - 1]

    def until_replied(self, count: int) -> None:
        """So many messages were acknowledged or refused."""
        with self._news:
            assert self._news.wait_for(
                lambda: len(self.all("acked")) + len(self.all("refused")) >= count, PATIENCE_S
            ), self.told[-20:]

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(PATIENCE_S)

    def stop(self) -> None:
        self.order(stop=True)
        assert self._process.wait(PATIENCE_S) == 0, self.told[-5:]

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._news:
                self.told.append(json.loads(line))
                self._news.notify_all()


def marked(home: Path) -> set[int]:
    """The processes that an engine of this home has started, and that still run."""
    marker = Marker("PILOTHOUSE_NODE", str(home / "pilothouse.db"))
    infos = [info for pid in list_pids() if carries(pid, marker) and (info := read_process(pid))]
    return {info.id.pid for info in infos if info.alive}


def wait_for_marked(home: Path, least: int) -> set[int]:
    deadline = time.monotonic() + PATIENCE_S
    while len(found := marked(home)) < least:
        assert time.monotonic() < deadline, found
        time.sleep(0.05)
    return found


def wait_until_gone(home: Path, pids: set[int]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while left := pids & marked(home):
        assert time.monotonic() < deadline, left
        time.sleep(0.05)
