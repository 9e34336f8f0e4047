"""A forwarder speaks TLS to its one server, through the machine's proxy if there is one, and reads strange requests strictly."""

from __future__ import annotations

import anyio
import pytest
from anyio.abc import ByteStream
from tests.http.server import (
    AUTHORITY,
    Serve,
    Visits,
    answer,
    identity,
    said_with,
    saying,
    serving,
    tunnelling,
)

from pilothouse.http.forward import Change, Forward, Headers

OK = answer(b"answer")
PROGRAM = """
import anyio
from pilothouse.http.forward import Forward

async def main():
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, Forward({url!r}, lambda headers: [(b"x-api-key", b"the-key")]).handle)
        async with await anyio.connect_tcp("127.0.0.1", listener.extra(anyio.abc.SocketAttribute.local_port)) as client:
            await client.send(b"GET /v1 HTTP/1.1\\r\\nHost: other.example\\r\\n\\r\\n")
            data = b""
            with anyio.fail_after(20):
                while b"\\r\\n\\r\\n" not in data or len(data.partition(b"\\r\\n\\r\\n")[2]) < 6:
                    data += await client.receive()
            print(data.decode())
        tasks.cancel_scope.cancel()

anyio.run(main)
"""


async def test_a_server_proves_its_name_also_through_a_tunnel_and_else_hears_nothing() -> None:
    trust = {"SSL_CERT_FILE": str(AUTHORITY)}
    async with serving(saying(OK), identity()) as visits, tunnelling() as (proxy, asked):
        program = PROGRAM.format(url=f"{visits.url}/v1")
        assert "answer" in await said_with(trust, program)
        assert "answer" in await said_with({**trust, "HTTPS_PROXY": proxy.url}, program)
        untrusted = await said_with({}, program)
    assert asked[0].startswith(f"CONNECT 127.0.0.1:{visits.port} HTTP/1.1\r\n")
    assert "502" in untrusted
    assert "certificate" in untrusted
    heads = [head for connection in visits.heads for head in connection]
    assert len(heads) == 2
    assert all(
        head.startswith(b"GET /v1 HTTP/1.1\r\nHost: 127.0.0.1:") and b"the-key" in head for head in heads
    )
    assert not any(b"other.example" in head for head in heads)


def passing(headers: Headers) -> Headers:
    return headers


@pytest.mark.parametrize(
    ("sent", "heard"),
    [
        (b"GET http://other.example/x HTTP/1.1\r\nHost: a\r\n\r\n", b"GET / HTTP/1.1\r\n"),
        (
            b"POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
            b"POST /x HTTP/1.1\r\n",
        ),
        (
            b"GET /x HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
            b"GET /x HTTP/1.1\r\n",
        ),
    ],
)
async def test_a_request_is_framed_anew_and_goes_to_the_one_server(sent: bytes, heard: bytes) -> None:
    async with (
        serving(saying(OK)) as visits,
        serving(_forward(visits.url)) as forward,
        await anyio.connect_tcp("127.0.0.1", forward.port) as client,
    ):
        for _ in range(2):
            await client.send(sent)
            data = b""
            with anyio.fail_after(20):
                while not data.endswith(b"answer"):
                    data += await client.receive()
    (heads,) = visits.heads
    assert [head.startswith(heard) for head in heads] == [True, True]
    assert not any(b"pgrade" in head or b"ransfer" in head for head in heads)
    assert all(head.endswith(b"\r\n\r\nabc") for head in heads) == (b"abc" in sent)


@pytest.mark.parametrize("path", [b"/v2/x", b"/v1x", b"/v1/../v2", b"/v1/%2e%2E/v2", b"/v1/..%2fv2", b"/"])
async def test_a_request_beside_the_path_of_the_model_is_refused(path: bytes) -> None:
    async with (
        serving(saying(OK)) as visits,
        serving(_forward(f"{visits.url}/v1")) as forward,
        await anyio.connect_tcp("127.0.0.1", forward.port) as client,
    ):
        await client.send(b"GET %s HTTP/1.1\r\nHost: a\r\n\r\n" % path)
        with anyio.fail_after(60):
            assert b" 403 " in await client.receive()
    assert visits.heads == []


async def test_the_body_of_a_request_without_the_key_is_not_read() -> None:
    async with (
        serving(saying(OK)) as visits,
        serving(_forward(visits.url, lambda _headers: None)) as forward,
        await anyio.connect_tcp("127.0.0.1", forward.port) as client,
    ):
        await client.send(b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n")
        with anyio.fail_after(60):
            assert b" 401 " in await client.receive()
    assert visits.heads == []


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /x\r\n\r\n",
        b"nonsense\r\n\r\n",
        b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"GET /x HTTP/1.1\r\nHost: a\r\nx: a\x00b\r\n\r\n",
    ],
)
async def test_what_is_no_request_reaches_nobody(sent: bytes) -> None:
    async with (
        serving(saying(OK)) as visits,
        serving(_forward(visits.url)) as forward,
        await anyio.connect_tcp("127.0.0.1", forward.port) as client,
    ):
        await client.send(sent)
        with anyio.fail_after(20), pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
            await client.receive()
    assert visits.heads == []


@pytest.mark.parametrize("url", ["", "ftp://a.example", "https://", "a.example"])
def test_what_is_no_address_of_a_server_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="is no http"):
        Forward(url, passing)


def _forward(url: str, change: Change = passing) -> Serve:
    async def serve(stream: ByteStream, visits: Visits) -> None:
        await Forward(url, change).handle(stream)

    return serve
