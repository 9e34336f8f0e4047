"""Which proxy leads to a server: the one that is set or, without one, that of the environment."""

from __future__ import annotations

import os
import re
import sys

from pilothouse.channels.telegram.address import Server, parse_server, without_login
from pilothouse.core.errors import ConfigError

_SYSTEM_SETTINGS = ("darwin", "win32")
CURE = ". Set `proxy` in [channels.telegram] to one that can, or start with NO_PROXY={host} to do without"


def find_proxy(given: str, server: Server) -> Server | None:
    """Raises `ConfigError` for one that cannot be used."""
    text = given or _of_environment(server)
    if not text:
        return None
    try:
        # People write `10.0.0.1:3128` into the environment.
        return parse_server(text if "://" in text else f"http://{text}")
    except ValueError as error:
        cure = "" if given else CURE.format(host=server.host)
        raise ConfigError(f"The proxy {without_login(text)} cannot be used: {error}{cure}") from None


def is_excepted(server: Server, no_proxy: str) -> bool:
    """Whether `NO_PROXY` has it, in any form that other programs understand: a name and all below it, `*.corp`, an
    address, a range such as `10.0.0.0/8`, each with a port or without."""
    return any(_covers(entry.lower(), server) for entry in re.split(r"[\s,]+", no_proxy) if entry)


def _of_environment(server: Server) -> str:
    """What `HTTPS_PROXY` and `NO_PROXY` say."""
    if sys.platform not in _SYSTEM_SETTINGS and not any(
        name.lower().endswith("_proxy") for name in os.environ
    ):
        return ""
    # It brings half of the standard library's HTTP along, for which most have no need.
    from urllib.request import getproxies, proxy_bypass

    proxies = getproxies()
    if is_excepted(server, proxies.get("no", "")) or proxy_bypass(server.host):
        return ""
    return proxies.get(server.scheme) or proxies.get("all") or ""


def _covers(entry: str, server: Server) -> bool:
    host, port = _parted(entry)
    if port and port != str(server.origin[2]):
        return False
    return host == "*" or _is_among(server.host, host) or f".{server.host}".endswith(f".{host.lstrip('*.')}")


def _parted(entry: str) -> tuple[str, str]:
    """Host and port. Colons are an address of the sixth version, unless there is one, or it stands in brackets."""
    if entry.startswith("["):
        host, _, port = entry[1:].partition("]")
        return host, port.removeprefix(":")
    host, _, port = entry.partition(":")
    return (entry, "") if ":" in port else (host, port)


def _is_among(host: str, addresses: str) -> bool:
    from ipaddress import ip_address, ip_network

    try:
        return ip_address(host) in ip_network(addresses, strict=False)
    except ValueError:  # one of them is a name
        return False
