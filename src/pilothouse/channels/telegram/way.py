"""The way to a server: directly, by a proxy that passes requests on, or through its tunnel where nobody may listen."""

from __future__ import annotations

import os
import ssl
import sys

import anyio
import h11
from anyio.abc import ByteStream
from anyio.streams.tls import TLSStream

from pilothouse.channels.reach import why_unreachable
from pilothouse.channels.telegram.address import Server, basic, parse_server, without_login
from pilothouse.channels.telegram.connection import BROKEN, READ_BYTES, Connection, Headers
from pilothouse.channels.telegram.endpoint import Endpoint
from pilothouse.channels.telegram.trouble import NetworkDown
from pilothouse.channels.telegram.trust import load_trust
from pilothouse.core.errors import ConfigError

CONNECT_S = 15.0
_SYSTEM_SETTINGS = ("darwin", "win32")


class Way:
    """`trust` may be left out where nothing is reached by https."""

    def __init__(self, proxy: Server | None = None, trust: ssl.SSLContext | None = None) -> None:
        self._proxy = proxy
        self._trust = trust

    async def open(self, server: Server) -> Connection | NetworkDown:
        try:
            with anyio.fail_after(CONNECT_S):
                return await self._connect(server)
        except (*BROKEN, UnicodeError) as error:
            by = f" (by way of the proxy {self._proxy.host_port})" if self._proxy else ""
            return NetworkDown(why_unreachable(error) + by)

    async def _connect(self, server: Server) -> Connection:
        first = self._proxy or server
        stream: ByteStream = await anyio.connect_tcp(*first.origin[1:])
        try:
            if first.scheme == "https":
                stream = await self._encrypt(stream, first)
            if not self._proxy:
                return Connection(stream)
            if server.scheme == "http":
                return Connection(stream, f"http://{server.authority}", _login_at(self._proxy))
            await _dig(stream, server, self._proxy)
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
            http.receive_data(await stream.receive(READ_BYTES))
    if not 200 <= event.status_code < 300:
        reason = event.reason.decode("ascii", "replace")
        raise ConnectionError(f"the proxy opens no tunnel: {event.status_code} {reason}".rstrip())
    if http.trailing_data[0]:
        raise ConnectionError("the proxy talks into its own tunnel")


def _login_at(proxy: Server) -> Headers:
    return [(b"Proxy-Authorization", basic(proxy.login))] if proxy.login else []


def find_way(endpoint: Endpoint) -> Way:
    """By the proxy that is set or, without one, by that of the environment. Raises `ConfigError` where one cannot be used."""
    proxy = _proxy(endpoint.proxy, endpoint.calls)
    reached = [endpoint.calls, endpoint.files, *([proxy] if proxy else [])]
    return Way(proxy, load_trust() if any(one.scheme == "https" for one in reached) else None)


def _proxy(given: str, server: Server) -> Server | None:
    text = given or _proxy_of_environment(server)
    if not text:
        return None
    try:
        # People write `10.0.0.1:3128` into the environment.
        return parse_server(text if "://" in text else f"http://{text}")
    except ValueError as error:
        raise ConfigError(f"The proxy {without_login(text)} cannot be used: {error}") from None


def _proxy_of_environment(server: Server) -> str:
    """What `HTTPS_PROXY` and `NO_PROXY` say, as every other program here would read them."""
    if sys.platform not in _SYSTEM_SETTINGS and not any(
        name.lower().endswith("_proxy") for name in os.environ
    ):
        return ""
    # It brings half of the standard library's HTTP along, for which most have no need.
    from urllib.request import getproxies, proxy_bypass

    if proxy_bypass(server.host):
        return ""
    proxies = getproxies()
    return proxies.get(server.scheme) or proxies.get("all") or ""
