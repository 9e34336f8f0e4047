"""The network of one jail: the machine's own, or none but a relay to our proxy.

Without the machine's network, a program finds on its loopback what it may reach: the proxy, the loopback ports of its
endpoints (our tools, a model on this machine) under their own numbers, and nothing else. A port on which the program itself
serves is held open outside under the same number, and led inside.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path

import anyio
from anyio.abc import SocketAttribute, SocketStream, TaskGroup
from msgspec import Struct, field

from pilothouse.core.engine import PORT, ProcessStart
from pilothouse.core.isolation import Isolation
from pilothouse.isolation import relay
from pilothouse.isolation.hosts import (
    AllowedHost,
    Target,
    allowed_hosts,
    endpoint_hosts,
    is_loopback,
    loopback_ports,
)
from pilothouse.isolation.profile import Mount
from pilothouse.isolation.proxy import BROKEN, AskHost, Proxy, join, refuse_unknown
from pilothouse.processes.procfs import open_socket

INSIDE = "/run/pilothouse"
FIRST_PORT = 3128
NOT_PROXIED = "127.0.0.1,localhost,::1"
CONNECT_AGAIN_S = 0.05

Handle = Callable[[SocketStream], Awaitable[None]]
Failed = Callable[[Exception], None]
"""Hears why a connection was closed that we failed to serve."""


class Wiring(Struct, frozen=True):
    """The network of one start."""

    shares_network: bool = True
    argv: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()


def reachable(isolation: Isolation, start: ProcessStart) -> list[AllowedHost]:
    """Return the hosts that need no question. Without a network these are endpoints on this machine alone."""
    endpoints = endpoint_hosts(start.needs.endpoints)
    if isolation.network == "none":
        return [one for one in endpoints if is_loopback(one.host)]
    return [*endpoints, *allowed_hosts(isolation.allow_hosts)]


@asynccontextmanager
async def open_network(
    isolation: Isolation,
    start: ProcessStart,
    folder: Path,
    note: Callable[[Target], None],
    failed: Failed,
    ask: AskHost = refuse_unknown,
) -> AsyncGenerator[Wiring, None]:
    """Serve a jail's network for as long as it lives. `folder` is empty, and will hold the sockets. `note` hears of every host that
    was refused."""
    if isolation.network == "open":
        yield Wiring(argv=tuple("0" if word == PORT else word for word in start.argv))
        return
    hosts = reachable(isolation, start)
    proxy = Proxy(hosts, note, ask if isolation.network == "model" else refuse_unknown)
    async with AsyncExitStack() as stack, open_tasks() as tasks:
        with _short(folder) as short:
            listener = await anyio.create_unix_listener(f"{short}/{relay.OUT}", mode=0o600)
            await stack.enter_async_context(listener)
            tasks.start_soon(listener.serve, partial(handle_alone, proxy.handle, failed))
            served = 0
            if PORT in start.argv:
                outer = await anyio.create_tcp_listener(local_host=relay.LOOPBACK, local_port=0)
                await stack.enter_async_context(outer)
                served = int(outer.extra(SocketAttribute.local_port))  # noqa: S610 - of a socket
                lead = partial(_lead_inside, f"{short}/{relay.IN}")
                tasks.start_soon(outer.serve, partial(handle_alone, lead, failed))
            yield wiring(isolation, start, str(folder), loopback_ports(hosts), served)


@asynccontextmanager
async def open_tasks() -> AsyncGenerator[TaskGroup, None]:
    """Open a task group that ends with its block, and does not wrap the block's own error."""
    failure: Exception | None = None
    async with anyio.create_task_group() as tasks:
        try:
            yield tasks
        except Exception as error:  # noqa: BLE001 - raised below
            failure = error
        finally:
            tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure


async def handle_alone(handle: Handle, failed: Failed, client: SocketStream) -> None:
    """Serve one connection of a jail. What goes wrong with it ends it alone."""
    try:
        await handle(client)
    except Exception as error:  # noqa: BLE001 - hostile programs send what they like: none of it may end the gateway
        failed(error)


def wiring(isolation: Isolation, start: ProcessStart, folder: str, ports: list[int], served: int) -> Wiring:
    """Return how a program is started behind the relay."""
    proxy_port = next(port for port in range(FIRST_PORT, 65536) if port not in (*ports, served))
    program = [str(served) if word == PORT else word for word in start.argv]
    forwarded = ",".join(map(str, ports))
    words = [
        sys.executable,
        "-I",
        "-S",
        relay.__file__,
        INSIDE,
        str(proxy_port),
        forwarded,
        str(served),
        "--",
    ]
    variables = (
        proxy_variables(f"http://{relay.LOOPBACK}:{proxy_port}") if isolation.network == "model" else {}
    )
    return Wiring(
        shares_network=False,
        argv=(*words, *program),
        environment=variables,
        mounts=(Mount("write", INSIDE, folder),),
    )


def proxy_variables(url: str) -> dict[str, str]:
    """Return the variables by which programs find a proxy. A program that knows none of them reaches nothing."""
    names = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
    both = {form: url for name in names for form in (name, name.lower())}
    return {**both, "NO_PROXY": NOT_PROXIED, "no_proxy": NOT_PROXIED, "NODE_USE_ENV_PROXY": "1"}


async def _lead_inside(path: str, client: SocketStream) -> None:
    """Lead a connection to the port on which the program serves, as soon as the relay is there."""
    async with client:
        with suppress(*BROKEN):
            async with await _connect(path) as inner:
                await join(client, inner)


async def _connect(path: str) -> SocketStream:
    while True:
        try:
            # A program inside may replace it by a link to a socket of the machine.
            with open_socket(path) as own:
                return await anyio.connect_unix(own)
        except (FileNotFoundError, ConnectionRefusedError):  # it is not there, or does not listen yet
            await anyio.sleep(CONNECT_AGAIN_S)


@contextmanager
def _short(folder: Path) -> Iterator[str]:
    """Name a folder by a path that is short enough for a socket in it."""
    if len(os.fsencode(folder)) < 80:
        yield str(folder)
        return
    descriptor = os.open(folder, os.O_PATH)
    try:
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
