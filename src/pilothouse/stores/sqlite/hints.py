"""Wake-ups on commit: subscribers in this process, and a datagram to each other process.

Each store listens on a socket in a folder beside its file. A datagram may be lost, so code that needs certainty also looks
now and then. Without a socket there are none: then subscribers are woken every second.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from contextlib import suppress
from pathlib import Path

import anyio

LONGEST_ADDRESS = 100
"""The kernel's limit for a Unix socket's path is 108 bytes on Linux, 104 elsewhere."""

LONGEST_NAME = 24
POLL_S = 1.0


class CommitSignal:
    """Counts commits and wakes waiters; a missed one is noticed at the next wait. Event loop only."""

    def __init__(self) -> None:
        self._fired = anyio.Event()
        self.count = 0
        self.closed = False

    def fire(self) -> None:
        self.count += 1
        self._fired.set()
        self._fired = anyio.Event()

    def close(self) -> None:
        self.closed = True
        self.fire()

    async def wait(self) -> None:
        await self._fired.wait()


class Changes:
    """One subscriber: an async iterator that needs no closing."""

    def __init__(self, signal: CommitSignal) -> None:
        self._signal = signal
        self._heard = signal.count

    def __aiter__(self) -> Changes:
        return self

    async def __anext__(self) -> None:
        while self._heard == self._signal.count and not self._signal.closed:
            await self._signal.wait()
        if self._signal.closed:
            raise StopAsyncIteration
        self._heard = self._signal.count


class Hints:
    """`send` is called on the writer's thread, the rest on the event loop."""

    def __init__(self, folder: Path, *signals: CommitSignal) -> None:
        self._folder = folder
        self._signals = signals
        self._name = f"{os.getpid()}-{secrets.token_hex(4)}.sock"
        self._short = str(folder)
        self._descriptor: int | None = None
        self._socket: socket.socket | None = None
        self._timer: asyncio.TimerHandle | None = None

    def listen(self) -> None:
        """Bind the socket; retry if another process has just removed the empty folder."""
        for _ in range(3):
            try:
                self._folder.mkdir(mode=0o700, exist_ok=True)
                self._shorten()
                self._socket = _bound(f"{self._short}/{self._name}")
            except FileNotFoundError:
                self._forget_folder()
            except (OSError, AttributeError):
                break
            else:
                asyncio.get_running_loop().add_reader(self._socket.fileno(), self._heard)
                return
        self._forget_folder()
        self._poll()

    def send(self) -> None:
        if self._socket is None:
            return
        with suppress(OSError):
            for name in os.listdir(self._folder):
                if name != self._name and name.endswith(".sock"):
                    self._tell(name)

    def close(self) -> None:
        """Close the socket. Call it after the writer's thread has ended."""
        if self._timer is not None:
            self._timer.cancel()
        if self._socket is None:
            return
        asyncio.get_running_loop().remove_reader(self._socket.fileno())
        self._socket.close()
        self._socket = None
        (self._folder / self._name).unlink(missing_ok=True)
        self._forget_folder()

    def _shorten(self) -> None:
        """Use `/proc/self/fd` for a folder whose path is too long for a socket address."""
        if len(os.fsencode(self._folder)) + LONGEST_NAME <= LONGEST_ADDRESS:
            return
        self._descriptor = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._short = f"/proc/self/fd/{self._descriptor}"

    def _forget_folder(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
        with suppress(OSError):
            self._folder.rmdir()  # fails unless it is empty

    def _tell(self, name: str) -> None:
        assert self._socket is not None, "send() looked"
        try:
            self._socket.sendto(b"!", f"{self._short}/{name}")
        except ConnectionRefusedError:
            (self._folder / name).unlink(missing_ok=True)  # its process is dead
        except OSError:
            pass

    def _heard(self) -> None:
        assert self._socket is not None, "the loop watches it"
        with suppress(OSError):
            while self._socket.recv(16):
                pass
        self._fire()

    def _poll(self) -> None:
        """Wake the subscribers every second, for want of a socket."""
        self._timer = asyncio.get_running_loop().call_later(POLL_S, self._poll)
        self._fire()

    def _fire(self) -> None:
        for signal in self._signals:
            signal.fire()


def _bound(address: str) -> socket.socket:
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        listening.setblocking(False)
        listening.bind(address)
    except OSError:
        listening.close()
        raise
    return listening
