"""One guarded GET for an address that somebody else chose. Import this only where something is fetched.

One deadline covers the whole fetch, and the bound on bytes holds while they arrive, whatever length was announced. A
redirect is refused, and so is a compressed body, whose unpacked size is unknown. No cookie and no proxy takes part,
and each fetch has a connection of its own.
"""

from __future__ import annotations

import ssl
from contextlib import aclosing
from functools import cached_property

import anyio
import httpcore2
from httpcore2 import AsyncConnectionPool, AsyncNetworkBackend

from pilothouse.http.allowlist import Hosts, Target, Unfetched
from pilothouse.http.pinned import Pinned, PrivateAddress, Resolve, real_net, resolve

FETCH_S = 10.0
CONNECT_S = 4.0
"""The limit for one address, so that another one can be tried in the remaining time."""

_HEADERS = ((b"Accept-Encoding", b"identity"), (b"User-Agent", b"pilothouse"), (b"Connection", b"close"))
_LATE = Unfetched("late", "it did not arrive in time")
_BROKEN = Unfetched("broken", "the connection was lost before all of it arrived")


class Fetcher:
    """Fetches from `hosts`. Holds no connection between fetches; any number of them may run at once."""

    def __init__(
        self,
        hosts: Hosts,
        *,
        timeout_s: float = FETCH_S,
        resolve: Resolve = resolve,
        net: AsyncNetworkBackend | None = None,
        trust: ssl.SSLContext | None = None,
    ) -> None:
        self._hosts = hosts
        self._timeout_s = timeout_s
        self._resolve = resolve
        self._net = net or real_net()
        self._trust = trust

    async def __call__(self, url: str, limit: int) -> bytes | Unfetched:
        target = self._hosts.find(url)
        if isinstance(target, Unfetched):
            return target
        try:
            with anyio.fail_after(self._timeout_s):
                return await self._get(target, limit)
        except (TimeoutError, httpcore2.TimeoutException):
            return _LATE
        except PrivateAddress:
            return Unfetched("private", "its host leads to a private network address")
        except httpcore2.ConnectError as error:
            return _unreachable(error)
        except (httpcore2.NetworkError, httpcore2.ProtocolError, OSError):
            return _BROKEN

    async def _get(self, target: Target, limit: int) -> bytes | Unfetched:
        origin = target.origin
        url = httpcore2.URL(scheme=origin.scheme, host=origin.host, port=origin.port, target=target.path)
        backend = Pinned(origin, self._resolve, self._net)
        timeouts = {"connect": CONNECT_S}
        trust = self._ssl if origin.scheme == "https" else None
        async with (
            AsyncConnectionPool(ssl_context=trust, network_backend=backend, max_connections=1) as pool,
            pool.stream("GET", url, headers=list(_HEADERS), extensions={"timeout": timeouts}) as response,
        ):
            return _refusal(response, limit) or await _read(response, limit)

    @cached_property
    def _ssl(self) -> ssl.SSLContext:
        """Created by the first fetch, because it reads the machine's certificates."""
        return self._trust or httpcore2.default_ssl_context()


def _refusal(response: httpcore2.Response, limit: int) -> Unfetched | None:
    headers = {name.lower(): value.strip().lower() for name, value in response.headers}
    length = headers.get(b"content-length", b"")
    if 300 <= response.status < 400:
        return Unfetched("redirect", "its host redirects to another address")
    if response.status in (404, 410):
        return Unfetched("status", "it no longer exists")
    if response.status != 200:
        return Unfetched("status", f"its host answered {response.status}")
    if headers.get(b"content-encoding", b"identity") != b"identity":
        return Unfetched("encoded", "its host sent it compressed, which is not supported")
    if not length and b"transfer-encoding" not in headers:
        # The end of such a body looks like a broken connection.
        return Unfetched("broken", "its host did not say how long it is")
    if length.isdigit() and int(length[:20]) > limit:
        return _too_big(limit)
    return None


async def _read(response: httpcore2.Response, limit: int) -> bytes | Unfetched:
    data = bytearray()
    async with aclosing(response.aiter_stream()) as pieces:
        async for piece in pieces:
            data += piece
            if len(data) > limit:
                return _too_big(limit)
    return bytes(data)


def _too_big(limit: int) -> Unfetched:
    return Unfetched("too_big", f"it has more than {_size(limit)}")


def _size(limit: int) -> str:
    return f"{limit >> 20} MB" if limit >= 1 << 20 else f"{limit:,} bytes"


def _unreachable(error: httpcore2.ConnectError) -> Unfetched:
    # The pool drops the chain of causes (httpcore2 2.16), but the error's arguments hold the original one.
    if any(isinstance(cause, ssl.SSLError) for cause in error.args):
        return Unfetched("unreachable", "the certificate of its host was not accepted")
    return Unfetched("unreachable", "its host could not be reached")
