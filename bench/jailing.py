"""`bench/isolation [STARTS]`: what a jail adds to the start of a process, and the proxy and the holder of keys to a request on loopback.

Bounds: 15 ms more per start with the machine's network, 2 ms more per request (p50) by either. Missing one is exit code 1. The start with
a network of its own is measured too: it starts Python for the relay.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import anyio
from anyio.abc import ByteStream, SocketAttribute, SocketStream

from pilothouse.core.engine import ProcessStart
from pilothouse.core.isolation import HeldKey, Isolation, Needs, Network
from pilothouse.isolation.hosts import AllowedHost
from pilothouse.isolation.jail import Jails, Places
from pilothouse.isolation.keys import open_keys
from pilothouse.isolation.proxy import Proxy
from pilothouse.isolation.support import find_support
from pilothouse.processes import Launcher

STARTS, REQUESTS = 40, 400
START_BOUND_MS, REQUEST_BOUND_MS = 15.0, 2.0


async def measure_start(launcher: Launcher, start: ProcessStart) -> float:
    """Return the milliseconds until a program has written its first line."""
    began = time.perf_counter()
    async with launcher.open(start) as process:
        async for _ in process.lines():
            return (time.perf_counter() - began) * 1000
    raise RuntimeError("the program wrote nothing")


def no_log(event: str, **fields: object) -> None:
    """Nobody reads it."""


async def measure_starts(folder: Path, starts: int) -> dict[str, float]:
    """Return the fastest start of each kind, which a busy machine disturbs least. The kinds take turns."""
    place = str(folder / "work")
    os.mkdir(place)
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder / "home")}
    start = ProcessStart("bench", ["/bin/echo", "ready"], place, environment, place)

    def jailed(network: Network) -> Launcher:
        isolation = Isolation("jail", network=network)
        places = Places(str(folder / "jails"), (), str(folder / "home"))
        return Launcher(Jails(lambda workspace: isolation, places, no_log).open)

    kinds = {"no jail": Launcher(), "jail": jailed("open"), "jail, network model": jailed("model")}
    found: dict[str, list[float]] = {name: [] for name in kinds}
    for _ in range(starts):
        for name, launcher in kinds.items():
            found[name].append(await measure_start(launcher, start))
    return {name: min(times) for name, times in found.items()}


async def echo(client: SocketStream) -> None:
    async with client:
        async for piece in client:
            await client.send(piece)


async def ask(stream: ByteStream) -> float:
    began = time.perf_counter()
    await stream.send(b"x" * 1000)
    await stream.receive()
    return (time.perf_counter() - began) * 1000


async def measure_requests(folder: Path) -> tuple[float, float]:
    """Return the median of a request to an echo, directly and through the proxy."""
    async with anyio.create_task_group() as tasks:
        server = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
        port = int(server.extra(SocketAttribute.local_port))
        proxy = Proxy([AllowedHost("127.0.0.1", port)], lambda target: None)
        listener = await anyio.create_unix_listener(str(folder / "p.sock"))
        tasks.start_soon(server.serve, echo)
        tasks.start_soon(listener.serve, proxy.handle)
        async with (
            await anyio.connect_tcp("127.0.0.1", port) as direct,
            await anyio.connect_unix(str(folder / "p.sock")) as through,
        ):
            await through.send(f"CONNECT 127.0.0.1:{port} HTTP/1.1".encode() + b"\r\n\r\n")
            await through.receive()
            times = [(await ask(direct), await ask(through)) for _ in range(REQUESTS)]
        tasks.cancel_scope.cancel()
    await server.aclose()
    await listener.aclose()
    return median(one for one, _ in times), median(other for _, other in times)


BODY = b"x" * 1000
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + BODY


async def answer(client: SocketStream) -> None:
    """Serve requests with a body of `BODY`, as a model would."""
    async with client:
        data = b""
        async for piece in client:
            data += piece
            if (end := data.find(b"\r\n\r\n")) >= 0 and len(data) >= end + 4 + len(BODY):
                data = b""
                await client.send(ANSWER)


async def call(stream: ByteStream, key: str) -> float:
    began = time.perf_counter()
    head = f"POST /v1/messages HTTP/1.1\r\nHost: model\r\nx-api-key: {key}\r\nContent-Length: {len(BODY)}\r\n\r\n"
    await stream.send(head.encode() + BODY)
    data = b""
    while not data.endswith(BODY):
        data += await stream.receive()
    return (time.perf_counter() - began) * 1000


async def measure_keys() -> tuple[float, float]:
    """Return the median of a call of a model, directly and with a key that we hold."""
    async with anyio.create_task_group() as tasks:
        server = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
        tasks.start_soon(server.serve, answer)
        port = int(server.extra(SocketAttribute.local_port))
        needs = Needs(keys=(HeldKey("KEY", f"http://127.0.0.1:{port}", "URL"),))
        start = ProcessStart("bench", ["true"], "/", {"KEY": "the-key"}, "/", needs=needs)
        async with open_keys(start, "open", print) as told:
            ours = int(told.environment["URL"].rpartition(":")[2])
            async with (
                await anyio.connect_tcp("127.0.0.1", port) as direct,
                await anyio.connect_tcp("127.0.0.1", ours) as through,
            ):
                key = told.environment["KEY"]
                times = [(await call(direct, key), await call(through, key)) for _ in range(REQUESTS)]
        tasks.cancel_scope.cancel()
    await server.aclose()
    return median(one for one, _ in times), median(other for _, other in times)


async def run(starts: int) -> int:
    if problem := find_support().problem:
        print(f"not measured: {problem}")
        return 1
    with TemporaryDirectory() as name:
        best = await measure_starts(Path(name), starts)
        direct, through = await measure_requests(Path(name))
        plain, held = await measure_keys()
    for kind, value in best.items():
        print(f"start, {kind}: {value:.1f} ms")
    added = {kind: value - best["no jail"] for kind, value in best.items() if kind != "no jail"}
    more, slower = max(added.values()), through - direct
    for kind, value in added.items():
        print(f"a {kind} adds {value:.1f} ms (bound {START_BOUND_MS:g})")
    print(
        f"request: {direct:.2f} ms directly, {through:.2f} ms by the proxy: {slower:.2f} more (bound {REQUEST_BOUND_MS:g})"
    )
    longer = held - plain
    print(
        f"call of a model: {plain:.2f} ms directly, {held:.2f} ms with a held key: {longer:.2f} more (bound {REQUEST_BOUND_MS:g})"
    )
    return int(more > START_BOUND_MS or max(slower, longer) > REQUEST_BOUND_MS)


if __name__ == "__main__":
    sys.exit(anyio.run(run, int(sys.argv[1]) if len(sys.argv) > 1 else STARTS))
