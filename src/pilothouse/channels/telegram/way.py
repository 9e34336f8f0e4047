"""The way to a server: directly, by a proxy that passes requests on, or through its tunnel where nobody may listen."""

from __future__ import annotations

import ssl
from collections.abc import Mapping

import anyio
import h11
from anyio.abc import ByteStream
from anyio.streams.tls import TLSStream

from pilothouse.channels.advice import why_unreachable
from pilothouse.channels.telegram.address import Origin, Server, basic
from pilothouse.channels.telegram.connection import BROKEN, Connection, Headers
from pilothouse.channels.telegram.endpoint import Endpoint
from pilothouse.channels.telegram.proxies import find_proxy
from pilothouse.channels.telegram.trouble import NetworkDown
from pilothouse.channels.telegram.trust import load_trust
from pilothouse.channels.telegram.whole import Whole

CONNECT_S = 15.0
WANTS_LOGIN = (
    "the proxy wants a login (407), or another one: write it into its address, http://NAME:PASSWORD@HOST:PORT"
)


class Way:
    """`proxies` by the server that one leads to; `trust` may be left out where nothing is reached by https."""

    def __init__(
        self, proxies: Mapping[Origin, Server] | None = None, trust: ssl.SSLContext | None = None
    ) -> None:
        self._proxies = proxies or {}
        self._trust = trust

    def proxy_to(self, server: Server) -> Server | None:
        return self._proxies.get(server.origin)

    async def open(self, server: Server) -> Connection | NetworkDown:
        try:
            with anyio.fail_after(CONNECT_S):
                return await self._connect(server)
        except (*BROKEN, UnicodeError) as error:
            return NetworkDown(why_unreachable(error))

    async def _connect(self, server: Server) -> Connection:
        proxy = self.proxy_to(server)
        first = proxy or server
        stream: ByteStream = Whole(await anyio.connect_tcp(*first.origin[1:]))
        try:
            if first.scheme == "https":
                stream = await self._encrypt(stream, first)
            if not proxy:
                return Connection(stream)
            if server.scheme == "http":
                return Connection(stream, f"http://{server.authority}", _login_at(proxy))
            await _dig(stream, server, proxy)
            return Connection(await self._encrypt(stream, server))
        except BaseException:
            await anyio.aclose_forcefully(stream)
            raise

    async def _encrypt(self, stream: ByteStream, server: Server) -> TLSStream:
        assert self._trust, "whoever reaches something by https says whom to trust"
        return await TLSStream.wrap(
            stream, hostname=server.host, ssl_context=self._trust, standard_compatible=False
        )


async def _dig(stream: ByteStream, server: Server, proxy: Server) -> None:
    """Has the proxy pass on whatever follows, unread."""
    http = h11.Connection(h11.CLIENT)
    headers = [(b"Host", server.host_port.encode()), *_login_at(proxy)]
    asked = h11.Request(method="CONNECT", target=server.host_port, headers=headers)
    await stream.send(http.send(asked) or b"")
    while not isinstance(event := http.next_event(), h11.Response):
        if event is h11.NEED_DATA:
            http.receive_data(await stream.receive())
    if event.status_code == 407:
        raise ConnectionError(WANTS_LOGIN)
    if not 200 <= event.status_code < 300:
        reason = event.reason.decode("ascii", "replace")
        raise ConnectionError(f"the proxy opens no tunnel: {event.status_code} {reason}".rstrip())
    if http.trailing_data[0]:
        raise ConnectionError("the proxy talks into its own tunnel")


def _login_at(proxy: Server) -> Headers:
    return [(b"Proxy-Authorization", basic(proxy.login))] if proxy.login else []


def find_way(endpoint: Endpoint) -> Way:
    """Of each server by itself: one may be reached directly, and the other not. Raises `ConfigError` where that cannot be."""
    servers = (endpoint.calls, endpoint.files)
    found = {server.origin: find_proxy(endpoint.proxy, server) for server in servers}
    proxies = {origin: proxy for origin, proxy in found.items() if proxy}
    encrypted = any(one.scheme == "https" for one in (*servers, *proxies.values()))
    return Way(proxies, load_trust() if encrypted else None)
