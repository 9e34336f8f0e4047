"""Which address is allowed, by its text alone. Pure.

Parsers of addresses disagree about backslashes, user names, dots and numbers, and each disagreement was somebody's way
in. So nothing is repaired here: an address is plain, names one of our hosts letter by letter, or is refused. The host
that is then connected to is our own word for it, never a piece of the address.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from pilothouse.core.errors import ConfigError
from pilothouse.fetching.outcome import Unfetched

ADDRESS_CHARS = 4096
HTTPS_PORT = 443

_PLAIN = r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2})"
_ADDRESS = re.compile(
    rf"(?P<scheme>[A-Za-z]+)://(?P<host>[A-Za-z0-9.-]+)(?::(?P<port>[0-9]{{1,5}}))?"
    rf"(?P<target>(?:/{_PLAIN}*)?(?:\?(?:{_PLAIN}|\?)*)?)"
)
_HOST = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+[a-z][a-z0-9-]*")
_BASE = re.compile(r"(?P<scheme>https?)://(?P<host>[a-z0-9.-]+)(?::(?P<port>[0-9]{1,5}))?(?:/.*)?")

NOT_PLAIN = Unfetched("address", "its address is not a plain https address")
NOT_OURS = Unfetched("address", "it lies on a host that nothing is fetched from")


class Origin(Struct, frozen=True):
    """Where we may connect to. One that an owner configured, as tests do, may be private, and without TLS."""

    scheme: str
    host: str
    port: int
    configured: bool = False


class Target(Struct, frozen=True):
    origin: Origin
    path: str
    """With the query."""


class Hosts:
    """Those that files come from: public ones by name, and the one that `base` names, if any."""

    def __init__(self, names: Sequence[str], base: str = "") -> None:
        strange = [name for name in names if not _HOST.fullmatch(name)]
        if strange:
            raise ValueError(f"{strange[0]!r} is no host name in lower case")
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
        return NOT_OURS if scheme == "https" and port == HTTPS_PORT else NOT_PLAIN


def parse_base(base: str) -> Origin:
    """A configured server; what follows its port does not matter."""
    match = _BASE.fullmatch(base)
    port = int((match and match["port"]) or 0)
    if match is None or port > 65535:
        raise ConfigError(f"{base!r} names no server to fetch from: write http://HOST:PORT or https://HOST")
    default = HTTPS_PORT if match["scheme"] == "https" else 80
    return Origin(match["scheme"], match["host"], port or default, configured=True)
