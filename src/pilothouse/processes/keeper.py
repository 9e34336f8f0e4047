"""Keeps a server alive for a short time after its gateway died: `python -I keeper.py CHANNEL LEASE_S PROGRAM ARGUMENT…`.

A gateway holds CHANNEL, a named pipe, open for writing, and says there whether the server has work: `b` or `i`. When no
gateway holds it any more, an idle server is ended at once, a busy one after LEASE_S, unless a gateway opens the pipe before.
The keeper ends with its server and returns its exit code; the server ends with the keeper, and with it all that it started.

Uses the standard library alone, so that it starts fast and stays small.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

BUSY, IDLE = b"b", b"i"
LOOK_S = 0.2
TERMINATE_S = 5.0
CANNOT_START = 126
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


class Keeper:
    def __init__(self, channel: str, lease_s: float, argv: list[str]) -> None:
        self._channel = os.open(channel, os.O_RDONLY | os.O_NONBLOCK)
        self._lease_s = lease_s
        self._busy = False
        self._until: float | None = None
        """The end of the lease, while no gateway holds the channel."""
        self._asked_to_end = False
        self._signals, wakes = os.pipe()
        for end in (self._signals, wakes):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self._note_end)
        _control(_PR_SET_CHILD_SUBREAPER, 1)
        self._server = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            preexec_fn=_end_with_parent,  # noqa: PLW1509 - this process has one thread
        )
        assert self._server.stderr is not None
        self._errors = self._server.stderr.fileno()

    def run(self) -> int:
        while self._server.poll() is None and not self._asked_to_end and not self._is_over():
            self._wait()
        return self._end()

    def _wait(self) -> None:
        """Wait for news from the gateway, from the server, or for the next look at the lease."""
        watched = [self._signals, self._errors]
        if self._until is None:
            watched.append(self._channel)
        for ready in select.select(watched, [], [], None if self._until is None else LOOK_S)[0]:
            if ready == self._errors:
                self._pass_on_errors()
            elif ready == self._signals:
                os.read(self._signals, 64)

    def _is_over(self) -> bool:
        """Read the channel; tell whether the server's time is over."""
        try:
            while told := os.read(self._channel, 64):
                self._busy = told.endswith(BUSY)
            held = False
        except BlockingIOError:
            held = True
        if held:
            self._until = None
            return False
        if self._until is None:
            self._until = time.monotonic() + (self._lease_s if self._busy else 0.0)
        return time.monotonic() >= self._until

    def _pass_on_errors(self) -> None:
        """Pass on what the server says. It must be read also when nobody listens, or the server would fail."""
        said = os.read(self._errors, 65536)
        with suppress(OSError):
            os.write(2, said)
        if not said:
            time.sleep(LOOK_S)  # it closed its stderr

    def _end(self) -> int:
        if self._server.poll() is None:
            self._server.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._server.wait(TERMINATE_S)
        if self._server.poll() is None:
            self._server.kill()
        code = self._server.wait()
        os.set_blocking(self._errors, False)
        with suppress(OSError):
            self._pass_on_errors()
        _end_children()
        return code if code >= 0 else 128 - code

    def _note_end(self, *_: object) -> None:
        self._asked_to_end = True


def _end_children() -> None:
    """End what the server left running. Its orphans are children of this process."""
    while children := [pid for pid in _pids() if _parent(pid) == os.getpid()]:
        for pid in children:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _pids() -> list[int]:
    with suppress(OSError):
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return []


def _parent(pid: int) -> int:
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0


def _end_with_parent() -> None:
    _control(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _control(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def main(channel: str, lease_s: str, *argv: str) -> int:
    try:
        return Keeper(channel, float(lease_s), list(argv)).run()
    except OSError as error:
        sys.stderr.write(f"Cannot start {argv[0]!r}: {error.strerror}.\n")
        return CANNOT_START


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
