"""Holds keys back from a jailed program: inside are placeholders, and an address of ours that leads to the model.

For each model a listener on loopback forwards what the program sends, with the key in the header that has the placeholder.
Only headers that carry a key may have it: servers quote others in their answers. A request without the placeholder is
refused: other programs on this machine may connect too. The key goes to the server that
the engine named, and to no other. TLS begins at the forwarder, so nothing is intercepted.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from urllib.parse import urlsplit

import anyio
import msgspec
from anyio.abc import SocketAttribute, TaskGroup

from pilothouse.core.engine import ProcessStart
from pilothouse.core.isolation import Network
from pilothouse.isolation import relay
from pilothouse.isolation.hosts import endpoint_hosts, is_loopback
from pilothouse.isolation.network import Failed, handle_alone, open_tasks

PLACEHOLDER = "pilothouse-holds-this-key-"
_CARRY_KEYS = frozenset({b"authorization", b"x-api-key", b"x-goog-api-key", b"api-key"})


@asynccontextmanager
async def open_keys(
    start: ProcessStart, network: Network, failed: Failed
) -> AsyncGenerator[ProcessStart, None]:
    """Yield the start as the program may see it, and serve its models for as long as it lives."""
    if not start.needs.keys:
        yield start
        return
    held = [one for one in start.needs.keys if start.environment.get(one.variable)]
    placeholders = {one.variable: PLACEHOLDER + secrets.token_hex(16) for one in held}
    async with AsyncExitStack() as stack, open_tasks() as tasks:
        addresses: dict[str, str] = {}
        for url in dict.fromkeys(one.url for one in held if can_reach(one.url, network)):
            known = {
                placeholders[one.variable]: start.environment[one.variable] for one in held if one.url == url
            }
            addresses[url] = await _serve(stack, tasks, url, known, failed)
        yield held_back(start, placeholders, addresses)


def can_reach(url: str, network: Network) -> bool:
    """Tell whether a program may reach its model. Without a network it may reach one on this machine alone."""
    found = endpoint_hosts([url]) if urlsplit(url).scheme in ("http", "https") else []
    return bool(found) and (network != "none" or is_loopback(found[0].host))


async def _serve(
    stack: AsyncExitStack, tasks: TaskGroup, url: str, keys: Mapping[str, str], failed: Failed
) -> str:
    """Serve a model on a port of loopback; return the address that stands for its URL."""
    from pilothouse.http.forward import Forward  # heavy

    forward = Forward(url, lambda headers: put_in(headers, keys))
    listener = await anyio.create_tcp_listener(local_host=relay.LOOPBACK, local_port=0)
    await stack.enter_async_context(listener)
    tasks.start_soon(listener.serve, partial(handle_alone, forward.handle, failed))
    port = int(listener.extra(SocketAttribute.local_port))  # noqa: S610 - of a socket
    return f"http://{relay.LOOPBACK}:{port}{urlsplit(url).path}"


def put_in(headers: list[tuple[bytes, bytes]], keys: Mapping[str, str]) -> list[tuple[bytes, bytes]] | None:
    """Put the keys in place of their placeholders; None if there is no placeholder, or one where no key belongs."""
    known = {placeholder.encode(): key.strip().encode() for placeholder, key in keys.items()}
    changed = [(name, _with_key(value, known) if name in _CARRY_KEYS else value) for name, value in headers]
    if changed == headers or any(placeholder in value for _, value in changed for placeholder in known):
        return None
    return changed


def _with_key(value: bytes, keys: Mapping[bytes, bytes]) -> bytes:
    """Return the value with the key, if all of it is a placeholder."""
    scheme, space, last = value.rpartition(b" ")
    return scheme + space + keys[last] if last in keys and scheme.lower() in (b"", b"bearer") else value


def held_back(
    start: ProcessStart, placeholders: Mapping[str, str], addresses: Mapping[str, str]
) -> ProcessStart:
    """Return the start with placeholders for its keys, and our addresses for those of its models."""
    keys = start.needs.keys
    stand_ins = {one.stand_in: addresses.get(one.url, one.url) for one in keys}

    def filled(text: str) -> str:
        for stand_in, address in stand_ins.items():
            text = text.replace(stand_in, address)
        return text

    named = {one.address: addresses[one.url] for one in keys if one.address and one.url in addresses}
    environment = {name: filled(value) for name, value in start.environment.items()}
    environment.update({**placeholders, **named})
    needs = msgspec.structs.replace(start.needs, endpoints=(*start.needs.endpoints, *addresses.values()))
    argv = [filled(word) for word in start.argv]
    return msgspec.structs.replace(start, argv=argv, environment=environment, needs=needs)
