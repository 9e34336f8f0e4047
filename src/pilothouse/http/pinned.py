"""A network backend for one fetch: resolve the name once, check every address, connect to a checked one.

A name server that answers differently the second time is never asked a second time. TLS runs above this and still
demands a certificate for the *name*. If one of several addresses is private, none is used: an honest host has none.

Public addresses are told by the tables below, because Python's `is_global` changes with its patch releases. Of IPv6
only global unicast counts, without the ranges that carry an IPv4 address inside (6to4, Teredo): those would bypass the
first table. Mapped, compatible and NAT64 addresses lie outside global unicast anyway.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import cast

import anyio
import httpcore2
from httpcore2 import AsyncNetworkBackend, AsyncNetworkStream

from pilothouse.http.allowlist import Origin

_NOT_PUBLIC_4 = tuple(
    IPv4Network(text)
    for text in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",
        "100.64.0.0/10",  # carrier-grade NAT
        "127.0.0.0/8",
        "169.254.0.0/16",  # link-local, and the metadata of every cloud
        "172.16.0.0/12",
        "192.0.0.0/24",  # protocol assignments
        "192.0.2.0/24",  # documentation
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, and broadcast
    )
)
_UNICAST_6 = IPv6Network("2000::/3")
_NOT_PUBLIC_6 = tuple(
    IPv6Network(text)
    for text in (
        "2001::/23",  # protocol assignments: Teredo, benchmarks, ORCHID
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4
        "3fff::/20",  # documentation
    )
)

Ip = IPv4Address | IPv6Address
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""A host and a port → its addresses, as text. Raises `OSError` if there are none."""

ADDRESSES = 4
"""The number of addresses that are tried, one after the other."""


def is_public(address: Ip) -> bool:
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _NOT_PUBLIC_4)
    if address.scope_id is not None or address not in _UNICAST_6:
        return False
    return not any(address in network for network in _NOT_PUBLIC_6)


def parse_ip(text: str) -> Ip | None:
    """Parse the plain notation only: an answer in any other notation is not used."""
    try:
        return ip_address(text)
    except ValueError:
        return None


class PrivateAddress(httpcore2.ConnectError):
    """The name resolves, among others, to an address that nothing is fetched from."""


class Pinned(AsyncNetworkBackend):
    """Connects to `origin` and to no other server."""

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
            raise PrivateAddress("only the checked host may be connected to")
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
        raise PrivateAddress("a unix socket is not a host")

    # pyrefly: ignore [missing-override-decorator]
    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)


async def resolve(host: str, port: int) -> Sequence[str]:
    """Ask the machine's own resolver; each address is returned once."""
    found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def real_net() -> AsyncNetworkBackend:
    # The library's types allow for a missing anyio.
    return cast("AsyncNetworkBackend", httpcore2.AnyIOBackend())
