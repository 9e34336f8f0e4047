"""A server's address in the parts that a request is made of, all in ASCII."""

from __future__ import annotations

import re
from base64 import b64encode
from urllib.parse import SplitResult, quote, unquote, urlsplit

from msgspec import Struct

_IN_PATHS = "/%:@!$&'()*+,;=~"
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_AT = re.compile("[@\N{FULLWIDTH COMMERCIAL AT}\N{SMALL COMMERCIAL AT}]")
"""Also as some keyboards write it; that is no address then, but may end a login."""


Origin = tuple[str, str, int]
"""Scheme, host and port: what a connection belongs to."""


class Server(Struct, frozen=True):
    scheme: str
    host: str
    port: int | None
    path: str
    login: tuple[bytes, bytes] | None

    @property
    def origin(self) -> Origin:
        return self.scheme, self.host, self.port or (443 if self.scheme == "https" else 80)

    @property
    def host_port(self) -> str:
        """Host and port, whichever the port is."""
        return f"{self._host}:{self.origin[2]}"

    @property
    def authority(self) -> str:
        """By what name a server is asked for."""
        return f"{self._host}:{self.port}" if self.port else self._host

    @property
    def _host(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host


def parse_server(text: str) -> Server:
    """Raises `ValueError`, in words that say nothing of a login."""
    try:
        parts = urlsplit(text)
    except ValueError:  # in whose words the login would stand
        raise ValueError("it has brackets or other characters that no address has") from None
    if parts.scheme not in ("http", "https"):
        raise ValueError("it must begin with https:// or http://")
    if any(char.isspace() for char in text):
        raise ValueError("there is a space in it")
    if not parts.hostname:
        raise ValueError("it names no host")
    login = (unquote(parts.username or "").encode(), unquote(parts.password or "").encode())
    return Server(
        parts.scheme,
        _ascii(parts.hostname),
        _port(parts),
        quote(parts.path.rstrip("/"), safe=_IN_PATHS),
        login if any(login) else None,
    )


def address_problem(text: str) -> str:
    try:
        parse_server(text)
    except ValueError as error:
        return str(error)
    return ""


def without_login(text: str) -> str:
    """As it may be shown. A password may hold anything, also what looks like the end of a scheme."""
    scheme = begin[0] if (begin := _SCHEME.match(text)) else ""
    return scheme + _AT.split(text[len(scheme) :])[-1]


def basic(login: tuple[bytes, bytes]) -> bytes:
    return b"Basic " + b64encode(b":".join(login))


def _ascii(host: str) -> str:
    """A name in letters of its own, as name servers know it."""
    try:
        name = host if host.isascii() else host.encode("idna").decode()
    except UnicodeError:
        name = ""
    # For what is behind a proxy no name server is asked: TLS and HTTP would be the first to stumble over these.
    if not name or name.startswith(".") or not name.isprintable():
        raise ValueError("its host is no name that a name server could know")
    return name


def _port(parts: SplitResult) -> int | None:
    try:
        return parts.port
    except ValueError:
        raise ValueError("its port is no number up to 65535") from None
