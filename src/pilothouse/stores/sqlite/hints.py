"""Wake-ups. Within the process every commit wakes every subscriber; other processes get a datagram each.

Each store of a file listens on a socket in a folder beside it. A hint may be lost, and where no socket can be
made there are none: whoever needs certainty polls.
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


class Bell:
    """Level-triggered: what rang while nobody listened is heard at the next look, once. Event loop only."""

    def __init__(self) -> None:
        self._rung = anyio.Event()
        self.count = 0
        self.closed = False

    def ring(self) -> None:
        self.count += 1
        self._rung.set()
        self._rung = anyio.Event()

    def close(self) -> None:
        self.closed = True
        self.ring()

    async def wait(self) -> None:
        await self._rung.wait()


class Changes:
    """One subscriber: an async iterator that needs no closing."""

    def __init__(self, bell: Bell) -> None:
        self._bell = bell
        self._heard = bell.count

    def __aiter__(self) -> Changes:
        return self

    async def __anext__(self) -> None:
        while self._heard == self._bell.count and not self._bell.closed:
            await self._bell.wait()
        if self._bell.closed:
            raise StopAsyncIteration
        self._heard = self._bell.count


class Hints:
    """`send` is called on the writer's thread, the rest on the event loop."""

    def __init__(self, folder: Path, *bells: Bell) -> None:
        self._folder = folder
        self._bells = bells
        self._name = f"{os.getpid()}-{secrets.token_hex(4)}.sock"
        self._socket: socket.socket | None = None

    def listen(self) -> None:
        address = str(self._folder / self._name)
        if len(os.fsencode(address)) > LONGEST_ADDRESS or not hasattr(socket, "AF_UNIX"):
            return
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            self._socket = _bound(address)
        except OSError:
            return  # no hints, then: polling is the guarantee
        asyncio.get_running_loop().add_reader(self._socket.fileno(), self._heard)

    def send(self) -> None:
        if self._socket is None:
            return
        with suppress(OSError):
            for name in os.listdir(self._folder):
                if name != self._name and name.endswith(".sock"):
                    self._tell(f"{self._folder}/{name}")

    def close(self) -> None:
        """After the writer's thread has ended."""
        if self._socket is None:
            return
        asyncio.get_running_loop().remove_reader(self._socket.fileno())
        self._socket.close()
        self._socket = None
        with suppress(OSError):
            (self._folder / self._name).unlink()
            self._folder.rmdir()

    def _tell(self, address: str) -> None:
        assert self._socket is not None, "send() looked"
        try:
            self._socket.sendto(b"!", address)
        except ConnectionRefusedError:
            with suppress(OSError):
                Path(address).unlink()  # its process is dead
        except OSError:
            pass

    def _heard(self) -> None:
        assert self._socket is not None, "the loop watches it"
        with suppress(OSError):
            while self._socket.recv(16):
                pass
        for bell in self._bells:
            bell.ring()


def _bound(address: str) -> socket.socket:
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        listening.setblocking(False)
        listening.bind(address)
    except OSError:
        listening.close()
        raise
    return listening
