"""The hosts that may be fetched from, checked on the address's text. Pure.

Parsers of addresses disagree about backslashes, user names, dots and numbers, and each disagreement has been an
exploit. So no address is repaired here: it is plain and names an allowed host letter by letter, or it is refused. The
host to connect to is taken from the list, never from the address.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, Protocol

from msgspec import Struct

from pilothouse.core.errors import ConfigError

ADDRESS_CHARS = 4096
HTTPS_PORT = 443

_PLAIN = r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2})"
_ADDRESS = re.compile(
    rf"(?P<scheme>[A-Za-z]+)://(?P<host>[A-Za-z0-9.-]+)(?::(?P<port>[0-9]{{1,5}}))?"
    rf"(?P<target>(?:/{_PLAIN}*)?(?:\?(?:{_PLAIN}|\?)*)?)"
)
_HOST = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+[a-z][a-z0-9-]*")
_BASE = re.compile(r"(?P<scheme>https?)://(?P<host>[a-z0-9.-]+)(?::(?P<port>[0-9]{1,5}))?(?:/.*)?")

Kind = Literal[
    "address", "private", "unreachable", "redirect", "status", "encoded", "too_big", "late", "broken"
]


class Unfetched(Struct, frozen=True):
    """The reason why a fetch returned no bytes.

    `text` ends a sentence about the file. It never holds the address, which may carry a signature or mislead."""

    kind: Kind
    text: str


class Fetch(Protocol):
    async def __call__(self, url: str, limit: int) -> bytes | Unfetched:
        """Return at most `limit` bytes. Never raises for anything an address, a name server or a host does."""
        ...


NOT_PLAIN = Unfetched("address", "its address is not a plain https address")
NOT_ALLOWED = Unfetched("address", "it is on a host that Pilothouse does not fetch from")


class Origin(Struct, frozen=True):
    """A server that may be connected to. A configured one, as in tests, may be private and without TLS."""

    scheme: str
    host: str
    port: int
    configured: bool = False


class Target(Struct, frozen=True):
    """`path` includes the query."""

    origin: Origin
    path: str


class Hosts:
    """The allowed hosts: public ones by name, and the server that `base` names, if any."""

    def __init__(self, names: Sequence[str], base: str = "") -> None:
        invalid = [name for name in names if not _HOST.fullmatch(name)]
        if invalid:
            raise ValueError(f"{invalid[0]!r} is no host name in lower case")
        self._origins = [Origin("https", name, HTTPS_PORT) for name in names]
        if base:
            self._origins.append(parse_base(base))

    def find(self, url: str) -> Target | Unfetched:
        if len(url) > ADDRESS_CHARS or not (match := _ADDRESS.fullmatch(url)):
            return NOT_PLAIN
        scheme, host = match["scheme"].lower(), match["host"].lower()
        port = int(match["port"] or (HTTPS_PORT if scheme == "https" else 80))
        for origin in self._origins:
            if (scheme, host, port) == (origin.scheme, origin.host, origin.port):
                path = match["target"]
                return Target(origin, path if path.startswith("/") else f"/{path}")
        return NOT_ALLOWED if scheme == "https" and port == HTTPS_PORT else NOT_PLAIN


def parse_base(base: str) -> Origin:
    """Parse a configured server's address; anything after the port is ignored."""
    match = _BASE.fullmatch(base)
    port = int((match and match["port"]) or 0)
    if match is None or port > 65535:
        raise ConfigError(f"{base!r} names no server to fetch from: write http://HOST:PORT or https://HOST")
    default = HTTPS_PORT if match["scheme"] == "https" else 80
    return Origin(match["scheme"], match["host"], port or default, configured=True)
