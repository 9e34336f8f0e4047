"""A jail without the machine's network: what is allowed passes, what is not has no way out."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any

import anyio
import pytest
from anyio.abc import SocketStream
from tests.isolation.canary import Stage, jails, need_jail
from tests.isolation.test_jail import output, start

from pilothouse.core.engine import PORT, ProcessStart
from pilothouse.core.errors import StoreError
from pilothouse.core.isolation import Isolation, Needs
from pilothouse.isolation.hosts import LOOPBACK, AllowedHost, Target
from pilothouse.isolation.network import open_network
from pilothouse.isolation.proxy import MAX_CONNECTIONS, AskHost, Proxy, is_own, refuse_unknown, usable
from pilothouse.isolation.relay import OUT
from pilothouse.processes import Launcher

CLIENT = """
import os, socket, sys
def ask(port, text):
    try:
        with socket.create_connection(("127.0.0.1", port), 5) as one:
            one.sendall(text.encode()); data = b""
            while piece := one.recv(65536): data += piece
            return data.decode().replace("\\r\\n", " ")
    except OSError as error:
        return type(error).__name__
proxy = int(os.environ.get("HTTP_PROXY", ":0").rpartition(":")[2])
"""


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.server.asked.append(self.path)  # type: ignore[attr-defined]
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"first ")
        self.wfile.flush()
        if self.path == "/slow":
            self.server.released.wait(30)  # type: ignore[attr-defined]
        self.wfile.write(b"answer")

    def log_message(self, *words: Any) -> None:  # pyrefly: ignore[missing-override-decorator, bad-override]
        pass


@contextmanager
def serving() -> Iterator[Any]:
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.asked = list[str]()
    server.released = Event()
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.released.set()
        server.shutdown()
        server.server_close()


def python(stage: Stage, code: str, **changed: object) -> Any:
    return start(stage, "", argv=[sys.executable, "-I", "-c", CLIENT + code], **changed)


async def test_an_endpoint_is_reached_under_its_own_port_and_nothing_else_is(
    stage: Stage, tmp_path: Path
) -> None:
    need_jail()
    with serving() as model, serving() as other:
        ours, theirs = model.server_port, other.server_port
        code = f"""
print("model", ask({ours}, "GET /direct HTTP/1.0\\r\\n\\r\\n"))
print("other", ask({theirs}, "GET /direct HTTP/1.0\\r\\n\\r\\n"))
print("tunnel", ask(proxy, "CONNECT 127.0.0.1:{theirs} HTTP/1.1\\r\\n\\r\\n"))
print("plain", ask(proxy, "GET http://127.1:{theirs}/ HTTP/1.1\\r\\n\\r\\n"))
print("allowed", ask(proxy, "GET http://localhost.:{ours}/by-proxy HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n"))
print("nonsense", ask(proxy, "BREW coffee\\r\\n\\r\\n"))
try: socket.create_connection(("198.51.100.1", 443), 5)
except OSError as error: print("route", error.strerror)
"""
        for network in ("model", "none"):
            made = jails(stage, tmp_path, network=network)
            needs = Needs(endpoints=(f"http://127.0.0.1:{ours}/v1",))
            told = dict(
                line.split(" ", 1)
                for line in (await output(Launcher(made.open), python(stage, code, needs=needs))).splitlines()
                if " " in line
            )
            assert told["model"].endswith("first answer"), told
            assert told["other"] == "ConnectionRefusedError"
            assert "unreachable" in told["route"]
            if network == "model":
                assert "403" in told["tunnel"]
                assert "allow_hosts" in told["tunnel"]
                assert "403" in told["plain"]
                assert told["allowed"].endswith("first answer")
                assert "400" in told["nonsense"]
        assert other.asked == []
        assert model.asked == ["/direct", "/by-proxy", "/direct"]


async def test_a_program_that_serves_is_reached_from_outside_under_the_same_port(
    stage: Stage, tmp_path: Path
) -> None:
    need_jail()
    code = """
listening = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print(listening.getsockname()[1], flush=True)
client, _ = listening.accept()
client.sendall(b"inside says " + client.recv(100))
client.recv(1)  # the relay ends with this program: it must have carried the answer before
"""
    for network in ("open", "model"):
        begun = python(stage, code)
        begun = start(stage, "", argv=[*begun.argv, PORT])
        async with Launcher(jails(stage, tmp_path, network=network).open).open(begun) as process:
            async for line in process.lines():
                async with await anyio.connect_tcp("127.0.0.1", int(line.data)) as client:
                    await client.send(b"hello")
                    assert await client.receive() == b"inside says hello"
                break


async def test_a_link_in_place_of_the_inner_socket_leads_to_no_socket_of_the_machine(
    stage: Stage, tmp_path: Path
) -> None:
    need_jail()
    path = tmp_path / "host.sock" if len(str(tmp_path)) < 90 else Path(f"/tmp/{tmp_path.parent.name}-h.sock")
    code = f"""
listening = socket.create_server(("127.0.0.1", int(sys.argv[1])))
os.unlink("/run/pilothouse/in.sock"); os.symlink({str(path)!r}, "/run/pilothouse/in.sock")
print(sys.argv[1], flush=True)
listening.accept()
"""
    begun = python(stage, code)
    begun = start(stage, "", argv=[*begun.argv, PORT])
    asked: list[SocketStream] = []

    async def answer(client: SocketStream) -> None:
        asked.append(client)
        await client.send(b"of the machine")
        await client.aclose()

    made = jails(stage, tmp_path, network="model")
    async with await anyio.create_unix_listener(path) as listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, answer)
        async with Launcher(made.open).open(begun) as process:
            async for line in process.lines():
                async with await anyio.connect_tcp("127.0.0.1", int(line.data)) as client:
                    with pytest.raises(anyio.EndOfStream), anyio.fail_after(60):
                        await client.receive()
                break
        tasks.cancel_scope.cancel()
    assert asked == []


async def test_an_answer_streams_through_the_proxy_while_it_is_being_made(tmp_path: Path) -> None:
    with serving() as model:
        proxy = Proxy([AllowedHost("127.0.0.1", model.server_port)], lambda target: None)
        handled = anyio.Event()

        async def handle(client: SocketStream) -> None:
            await proxy.handle(client)
            handled.set()

        path = str(tmp_path / "p.sock") if len(str(tmp_path)) < 90 else f"/tmp/{tmp_path.parent.name}.sock"
        async with await anyio.create_unix_listener(path) as listener, anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, handle)
            async with await anyio.connect_unix(path) as client:
                await client.send(f"CONNECT 127.0.0.1:{model.server_port} HTTP/1.1\r\n\r\n".encode())
                assert b" 200 " in await client.receive()
                await client.send(b"GET /slow HTTP/1.0\r\n\r\n")
                data = b""
                with anyio.fail_after(60):
                    while not data.endswith(b"first "):
                        data += await client.receive()
                    model.released.set()
                    assert b"answer" in await client.receive()
            await handled.wait()
            tasks.cancel_scope.cancel()


async def test_an_unknown_host_is_asked_about_once_and_a_yes_lets_it_pass(tmp_path: Path) -> None:
    asked: list[Target] = []

    async def ask(target: Target) -> bool:
        asked.append(target)
        return True

    with serving() as model:
        proxy = Proxy([], lambda target: None, ask)
        handled = anyio.Event()

        async def handle(client: SocketStream) -> None:
            await proxy.handle(client)
            handled.set()

        path = str(tmp_path / "p.sock") if len(str(tmp_path)) < 90 else f"/tmp/{tmp_path.parent.name}-2.sock"
        async with await anyio.create_unix_listener(path) as listener, anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, handle)
            async with await anyio.connect_unix(path) as client:
                await client.send(f"GET http://localhost:{model.server_port}/x?y HTTP/1.1\r\n\r\n".encode())
                data = b""
                with anyio.fail_after(60):
                    while not data.endswith(b"answer"):
                        data += await client.receive()
            await handled.wait()
            tasks.cancel_scope.cancel()
        assert model.asked == ["/x?y"]
    assert asked == [Target("127.0.0.1", model.server_port)]


def own_address() -> str:
    """Return an address of this machine that is not its loopback; 127.0.0.1 where it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as tried:
        try:
            tried.connect(("198.51.100.1", 9))
        except OSError:
            return LOOPBACK
        return str(tried.getsockname()[0])


def test_addresses_of_this_machine_are_known() -> None:
    for address in (own_address(), f"64:ff9b::{own_address()}", LOOPBACK):
        assert is_own(address), address
    for address in ("198.51.100.1", "2001:db8::7", "64:ff9b::198.51.100.1"):
        assert not is_own(address), address


def test_a_name_leads_to_no_address_of_this_machine_and_an_address_leads_where_it_says() -> None:
    own, other = own_address(), "198.51.100.1"
    for address in (own, "100.100.100.200", "64:ff9b::7f00:1"):
        assert usable("example.org", [address, other]) == [other]
    for address in (own, LOOPBACK):
        assert usable(address, [address]) == [address]
    assert usable("100.100.100.200", ["100.100.100.200"]) == []


@asynccontextmanager
async def listening(
    folder: Path, ask: AskHost, *endpoints: str
) -> AsyncGenerator[tuple[Callable[[bytes], Awaitable[bytes]], list[Exception]], None]:
    """Serve a jail's network, without the jail. Yields a function that sends bytes as a program inside would, and returns the answer;
    and what went wrong with connections."""
    place, failures = str(folder), list[Exception]()
    needs = Needs(endpoints=endpoints)
    begun = ProcessStart("test", ["true"], place, {}, place, needs=needs)

    async def send(data: bytes) -> bytes:
        with anyio.fail_after(60):
            async with await anyio.connect_unix(f"/proc/self/fd/{descriptor}/{OUT}") as client:
                await client.send(data)
                await client.send_eof()
                return b"".join([piece async for piece in client])

    descriptor = os.open(folder, os.O_PATH)
    try:
        isolation = Isolation("jail", network="model")
        async with open_network(isolation, begun, folder, lambda _: None, failures.append, ask):
            yield send, failures
    finally:
        os.close(descriptor)


@pytest.mark.parametrize(
    "line",
    ["GET http://{host}/ x HTTP/1.1", "GET http://{host}/", "CONNECT {host}", "GET", "", " ", "\xff\xfe \0"],
)
async def test_a_request_that_is_none_is_answered_and_ends_nothing_else(line: str, tmp_path: Path) -> None:
    with serving() as model:
        host = f"127.0.0.1:{model.server_port}"
        async with listening(tmp_path, refuse_unknown, f"http://{host}/v1") as (send, failures):
            told = await send(line.format(host=host).encode("latin-1") + b"\r\n\r\n")
            assert told.startswith(b"HTTP/1.1 400 ")
            assert (await send(f"GET http://{host}/ HTTP/1.1\r\n\r\n".encode())).endswith(b"first answer")
        assert failures == []


async def test_an_ask_that_fails_ends_one_connection(tmp_path: Path) -> None:
    async def ask(target: Target) -> bool:
        raise StoreError("the disk is full")

    with serving() as model:
        host = f"127.0.0.1:{model.server_port}"
        async with listening(tmp_path, ask, f"http://{host}/v1") as (send, failures):
            assert await send(b"CONNECT example.org:443 HTTP/1.1\r\n\r\n") == b""
            assert (await send(f"GET http://{host}/ HTTP/1.1\r\n\r\n".encode())).endswith(b"first answer")
        assert [str(error) for error in failures] == ["the disk is full"]


async def test_one_connection_too_many_is_closed() -> None:
    proxy = Proxy([], lambda target: None)
    pairs = [socket.socketpair() for _ in range(MAX_CONNECTIONS + 1)]
    served = [await SocketStream.from_socket(inner) for inner, _ in pairs]
    async with anyio.create_task_group() as tasks:
        for stream in served[:-1]:
            tasks.start_soon(proxy.handle, stream)
        await anyio.wait_all_tasks_blocked()
        with anyio.fail_after(60):
            await proxy.handle(served[-1])
        tasks.cancel_scope.cancel()
    for _, outer in pairs:
        outer.close()
