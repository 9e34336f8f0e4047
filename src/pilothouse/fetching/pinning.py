"""The way to the net for one fetch: the name is resolved once, every address is checked, a checked one is connected to.

A name server that answers differently the second time is never asked a second time. TLS is spoken above this, and
still wants a certificate for the *name*. If one of several addresses is private, none is used: an honest host has none.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import cast

import anyio
import httpcore2
from httpcore2 import AsyncNetworkBackend, AsyncNetworkStream

from pilothouse.fetching.hosts import Origin
from pilothouse.fetching.ranges import Ip, is_public, parse_ip

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""A host and a port → its addresses, as text. Raises `OSError` if there are none."""

ADDRESSES = 4
"""So many are tried, one after the other."""


class PrivateAddress(httpcore2.ConnectError):
    """The name leads, or also leads, to where nothing is fetched from."""


class Pinned(AsyncNetworkBackend):
    def __init__(self, origin: Origin, resolve: Resolve, net: AsyncNetworkBackend) -> None:
        self._origin = origin
        self._resolve = resolve
        self._net = net

    # pyrefly: ignore [missing-override-decorator]
    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> AsyncNetworkStream:
        if (host, port) != (self._origin.host, self._origin.port):
            raise PrivateAddress("this way leads to one host alone")
        trouble: Exception = httpcore2.ConnectError("the name has no address")
        for address in (await self._checked())[:ADDRESSES]:
            try:
                return await self._net.connect_tcp(str(address), port, timeout, None, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                trouble = error
        raise trouble

    async def _checked(self) -> list[Ip]:
        try:
            answers = await self._resolve(self._origin.host, self._origin.port)
        except (OSError, UnicodeError):
            raise httpcore2.ConnectError("the name cannot be resolved") from None
        addresses: list[Ip] = []
        for answer in answers:
            address = parse_ip(answer)
            if address is None or not (self._origin.configured or is_public(address)):
                raise PrivateAddress("the name leads to a private address")
            addresses.append(address)
        return addresses

    # pyrefly: ignore [missing-override-decorator]
    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> AsyncNetworkStream:
        raise PrivateAddress("a file is no host")

    # pyrefly: ignore [missing-override-decorator]
    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)


async def resolve(host: str, port: int) -> Sequence[str]:
    """What the machine's own resolver says, each address once."""
    found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def real_net() -> AsyncNetworkBackend:
    return cast(
        "AsyncNetworkBackend", httpcore2.AnyIOBackend()
    )  # the library's types allow for a missing anyio
