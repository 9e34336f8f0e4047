"""Hosts that a jailed program may reach. Pure.

A name is compared as the network would see it: lower case, punycode, without a trailing dot. Addresses are compared as
addresses, however they are written.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterable
from urllib.parse import urlsplit

from msgspec import Struct

PORTS = (80, 443)
"""Ports of a host that is allowed without a port."""
LOOPBACK = "127.0.0.1"
_NAME = re.compile(r"(\*\.)?[a-z0-9_-]+(\.[a-z0-9_-]+)*")
_METADATA = ("fd00:ec2::254", "fd20:ce::254", "100.100.100.200", "168.63.129.16", "192.0.0.192")
"""Services of AWS, Google, Alibaba, Azure and Oracle for their own machines, beside those with a link-local address."""
_ENDS_IN_VERSION_4 = tuple(
    map(ipaddress.IPv6Network, ("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96"))
)
"""Compatible, mapped, translated and NAT64."""
_LOCAL_NAT64 = ipaddress.IPv6Network("64:ff9b:1::/48")
_LOCAL = ("localhost", "localhost.localdomain", "ip6-localhost")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class Target(Struct, frozen=True):
    """A host, normalised, and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


class AllowedHost(Struct, frozen=True):
    """`host` may begin with `*.`; the port 0 is one of `PORTS`."""

    host: str
    port: int = 0

    def covers(self, target: Target) -> bool:
        if target.port != self.port and (self.port or target.port not in PORTS):
            return False
        if self.host.startswith("*."):
            return target.host.endswith(self.host[1:])
        return target.host == self.host


def normal_host(text: str) -> str:
    """Return a host as it is compared. Raises `ValueError` for what is none."""
    host = text.strip().strip("[]").rstrip(".").lower()
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        pass
    try:  # 127.1, 0x7f000001 and the like are addresses to the system's resolver
        return str(ipaddress.ip_address(socket.inet_aton(host)))
    except (OSError, ValueError):
        if host in _LOCAL:
            return LOOPBACK
    found = _punycode(host)
    return found if found == host else normal_host(found)  # other digits and letters may spell an address


def _punycode(host: str) -> str:
    star, name = ("*.", host[2:]) if host.startswith("*.") else ("", host)
    try:
        found = star + name.encode("idna").decode("ascii").lower().rstrip(".")
    except UnicodeError as error:
        raise ValueError(f"{host!r} is no host: {error}") from error
    if not _NAME.fullmatch(found):
        raise ValueError(f"{host!r} is no host")
    return found


def parse_target(text: str, port: int = 443) -> Target:
    """Read `HOST:PORT`; an address of version 6 stands in brackets. Raises `ValueError`."""
    if text.startswith("["):
        host, closed, rest = text[1:].partition("]")
        if not closed or rest[:1] not in ("", ":"):
            raise ValueError(f"{text!r} is no host")
        return Target(normal_host(host), _port(rest.removeprefix(":"), port))
    host, colon, rest = text.rpartition(":")
    return Target(normal_host(host if colon else rest), _port(rest if colon else "", port))


def _port(text: str, otherwise: int) -> int:
    if not text:
        return otherwise
    if not text.isascii() or not text.isdigit() or not 0 < int(text) < 65536:
        raise ValueError(f"{text!r} is no port")
    return int(text)


def allowed_hosts(written: Iterable[str]) -> list[AllowedHost]:
    """Read the operator's list. One that cannot be read is left out: nothing is allowed by it."""
    found: list[AllowedHost] = []
    for one in written:
        try:
            target = parse_target(one, 0)
        except ValueError:
            continue
        found.append(AllowedHost(target.host, target.port))
    return found


def endpoint_hosts(urls: Iterable[str]) -> list[AllowedHost]:
    """Return the hosts of URLs, each with its port."""
    found: list[AllowedHost] = []
    for url in urls:
        try:
            parts = urlsplit(url)
            if parts.hostname:
                port = parts.port or (80 if parts.scheme == "http" else 443)
                found.append(AllowedHost(normal_host(parts.hostname), port))
        except ValueError:
            continue
    return list(dict.fromkeys(found))


def loopback_ports(hosts: Iterable[AllowedHost]) -> list[int]:
    """Return the ports of this machine's loopback among them: programs send such requests to no proxy."""
    return sorted({one.port for one in hosts if is_loopback(one.host) and one.port})


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_forbidden_address(address: str) -> bool:
    """Tell whether a *name* may not lead to this address: to this machine, or to a cloud's own services."""
    return any(map(_is_forbidden, spellings(address)))


def spellings(address: str) -> list[Address]:
    """Return an address, and the one of version 4 that it stands for: on the way, one may become the other."""
    found = ipaddress.ip_address(address.partition("%")[0])
    if found.version == 4:
        return [found]
    within = [found.sixtofour, *(found.teredo or ())]
    if any(found in network for network in _ENDS_IN_VERSION_4):
        within.append(ipaddress.IPv4Address(found.packed[-4:]))
    return [found, *(one for one in within if one is not None)]


def _is_forbidden(address: Address) -> bool:
    local = address.is_loopback or address.is_link_local or address.is_unspecified or address.is_multicast
    return local or str(address) in _METADATA or address in _LOCAL_NAT64
