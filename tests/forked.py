"""Programs that a prepared process forks: as `python -m MODULE WORDS`, without the time for its imports."""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, Self

import anyio
from tests.dists import ROOT

READ_AT_START = ("PYTHON", "LC_", "LANG")
"""Python reads these when it starts, and a forked program has started already."""
OBEYED = ("PYTHONPATH", "PYTHONUNBUFFERED")
"""The fork server does about these what Python does."""


class Forked:
    """One program, with as much of `subprocess.Popen` as tests use; its streams are descriptors of the caller.

    In the session "terminal" it is the leader of a new one, and the terminal on its standard input is its own.
    `packages` are those of Pilothouse that it will import beyond what the server has imported already.
    """

    def __init__(
        self,
        module: str,
        *words: str,
        env: Mapping[str, str],
        cwd: Path,
        streams: Sequence[int],
        session: Literal["same", "new", "terminal"] = "same",
        packages: Sequence[str] = (),
    ) -> None:
        assert not needs_a_start(env)
        self.returncode: int | None = None
        self._line, theirs = socket.socketpair()
        request = {
            "module": module,
            "words": words,
            "env": dict(env),
            "cwd": str(cwd),
            "session": session,
            "packages": packages,
        }
        self._line.sendall(json.dumps(request).encode() + b"\n")
        with theirs:
            socket.send_fds(_server(), [b"+"], [theirs.fileno(), *streams])
        self.pid = self._read_number()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.wait()

    def poll(self) -> int | None:
        if self.returncode is None and select.select([self._line], [], [], 0)[0]:
            self.wait()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._line], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("forked", timeout or 0.0)
            self.returncode = self._read_number()
            self._line.close()
        return self.returncode

    async def ended(self) -> int:
        """Wait for its end; several tasks may do so at once."""
        while self.poll() is None:
            await anyio.sleep(0.01)
        return self.wait()

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def send_signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it has ended, and the server has yet to say so
                os.kill(self.pid, number)

    def _read_number(self) -> int:
        told = b""
        while not told.endswith(b"\n"):
            byte = self._line.recv(1)
            assert byte, "the fork server has ended"
            told += byte
        return int(told)


def run(
    module: str,
    *words: str,
    env: Mapping[str, str],
    cwd: Path,
    said: str = "",
    within_s: float = 100.0,
    new_python: bool = False,
    packages: Sequence[str] = (),
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end; where its imports or its environment matter, in a new Python."""
    if new_python or needs_a_start(env):
        command = [sys.executable, "-m", module, *words]
        return subprocess.run(
            command,
            env=env,
            cwd=cwd,
            input=said,
            capture_output=True,
            encoding="utf-8",
            timeout=within_s,
            check=False,
        )
    with tempfile.TemporaryFile() as told, tempfile.TemporaryFile() as errors:
        reading, writing = os.pipe()
        streams = (reading, told.fileno(), errors.fileno())
        process = Forked(module, *words, env=env, cwd=cwd, streams=streams, packages=packages)
        os.close(reading)
        # A program may end before it has read what is said to it.
        with contextlib.suppress(BrokenPipeError), open(writing, "w", encoding="utf-8") as typed:
            typed.write(said)
        try:
            code = process.wait(within_s)
        finally:
            process.kill()
        texts = [_read(file.fileno()) for file in (told, errors)]
    return subprocess.CompletedProcess([module, *words], code, *texts)


def needs_a_start(env: Mapping[str, str]) -> bool:
    return any(
        name.startswith(READ_AT_START) and name not in OBEYED and os.environ.get(name) != value
        for name, value in env.items()
    )


def _read(descriptor: int) -> str:
    return os.pread(descriptor, os.fstat(descriptor).st_size, 0).decode()


@functools.cache
def _server() -> socket.socket:
    ours, theirs = socket.socketpair()
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, str(ROOT / "tests" / "fork_server.py"), str(theirs.fileno())]
    process = subprocess.Popen(
        command,
        env=env,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        pass_fds=[theirs.fileno()],
    )
    theirs.close()

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours
