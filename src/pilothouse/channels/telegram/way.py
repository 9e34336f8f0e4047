"""The way to a Bot API server: connections that are kept, the proxy before them, and whom we trust.

Importing this imports the HTTP library: do it where a client is opened, and nowhere else.
"""

from __future__ import annotations

import os
import ssl
import sys

import httpcore2
from httpcore2 import AsyncConnectionPool

from pilothouse.channels.telegram.address import Address, parse_address, without_login
from pilothouse.core.errors import ConfigError

_SYSTEM_SETTINGS = ("darwin", "win32")


def open_pool(server: Address, proxy: str) -> AsyncConnectionPool:
    """Connections by `proxy` or, without one, by that of the environment."""
    trust = _trust()
    return AsyncConnectionPool(
        ssl_context=trust,
        proxy=_proxy(proxy or _proxy_of_environment(server), trust),
        max_connections=64,
        max_keepalive_connections=16,
        keepalive_expiry=30.0,
    )


def _trust() -> ssl.SSLContext:
    try:
        return httpcore2.default_ssl_context()
    except OSError as error:
        named = [
            f"{name}={os.environ[name]}" for name in ("SSL_CERT_FILE", "SSL_CERT_DIR") if name in os.environ
        ]
        where = " ".join(named) or "those of this machine"
        raise ConfigError(f"The trusted certificates cannot be read ({where}): {error}") from None


def _proxy(text: str, trust: ssl.SSLContext) -> httpcore2.Proxy | None:
    if not text:
        return None
    try:
        # People write `10.0.0.1:3128` into the environment.
        address = parse_address(text if "://" in text else f"http://{text}")
    except ValueError as error:
        raise ConfigError(f"The proxy {without_login(text)} cannot be used: {error}") from None
    return httpcore2.Proxy(
        httpcore2.URL(scheme=address.scheme, host=address.host, port=address.port, target="/"),
        auth=address.login,
        ssl_context=trust if address.scheme == "https" else None,
    )


def _proxy_of_environment(server: Address) -> str:
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
