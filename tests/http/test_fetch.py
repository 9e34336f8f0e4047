"""A host that misbehaves towards a fetch, over a real socket."""

from __future__ import annotations

import gzip
import os
import sys

import anyio
import pytest
from anyio.abc import ByteStream
from tests.http.host import (
    LIMIT,
    PUBLIC,
    Host,
    Names,
    Net,
    Reply,
    answering,
    open_host,
    plain_fetcher,
    saying,
)

from pilothouse.http.allowlist import Hosts, Unfetched
from pilothouse.http.fetch import Fetcher


async def fetch(host: Host, limit: int = LIMIT, timeout_s: float = 20.0) -> bytes | Unfetched:
    return await plain_fetcher(host, timeout_s)(f"http://127.0.0.1:{host.port}/a/b.png?hm=secret", limit)


async def refused(reply: Reply, limit: int = LIMIT, timeout_s: float = 20.0) -> Unfetched:
    async with open_host(reply) as host:
        found = await fetch(host, limit, timeout_s)
    assert isinstance(found, Unfetched)
    assert "secret" not in found.text
    assert "://" not in found.text
    return found


@pytest.mark.parametrize("size", [0, 1, 1000, LIMIT])
async def test_the_bytes_come_as_they_are(size: int) -> None:
    body = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    async with open_host(answering(body)) as host:
        assert await fetch(host) == body
        assert host.heads[0].startswith(b"GET /a/b.png?hm=secret HTTP/1.1\r\n")
        assert b"accept-encoding: identity" in host.heads[0].lower()


async def test_a_body_in_chunks_is_put_together() -> None:
    async with open_host(
        saying(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"3\r\nabc\r\n",
            b"2\r\nde\r\n",
            b"0\r\n\r\n",
        )
    ) as host:
        assert await fetch(host) == b"abcde"


@pytest.mark.parametrize("status", [301, 302, 303, 304, 307, 308])
async def test_a_redirect_is_a_refusal_and_is_not_followed(status: int) -> None:
    async with open_host(answering(b"")) as elsewhere:
        location = b"Location: http://127.0.0.1:%d/" % elsewhere.port
        found = await refused(answering(b"", location, b"Content-Length: 0", status=b"%d Moved" % status))
        assert found.kind == "redirect"
        assert not elsewhere.came


@pytest.mark.parametrize(
    ("status", "words"), [(404, "no longer exists"), (403, "403"), (500, "500"), (206, "206"), (204, "204")]
)
async def test_any_other_status_is_said(status: int, words: str) -> None:
    found = await refused(answering(b"", b"Content-Length: 0", status=b"%d X" % status))
    assert found.kind == "status"
    assert words in found.text


async def test_what_is_announced_as_too_big_is_not_read() -> None:
    async def announce(stream: ByteStream) -> None:
        await stream.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (LIMIT + 1))
        await anyio.sleep_forever()  # nobody waits for the body

    assert (await refused(announce)).kind == "too_big"


async def test_what_is_too_big_without_a_word_about_it_is_cut_off() -> None:
    async def pour(stream: ByteStream) -> None:
        await stream.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            await stream.send(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")

    found = await refused(pour)
    assert found.kind == "too_big"
    assert "1 MB" in found.text


async def test_bytes_beyond_the_announced_length_are_never_taken() -> None:
    async with open_host(answering(b"abcdef", b"Content-Length: 3")) as host:
        assert await fetch(host) == b"abc"


@pytest.mark.parametrize(
    "reply",
    [
        saying(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"),
        saying(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nabc"),
        saying(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"),
        saying(b"HTTP/1.1 200 OK\r\n\r\nabc"),
        saying(b"HTTP/1.1 200 OK\r\nContent-Le"),
        saying(b""),
        saying(b"SSH-2.0-OpenSSH_9.2\r\n"),
        saying(b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n"),
        saying(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd"),
        saying(b"HTTP/1.1 200 OK\r\nX: " + b"y" * 300_000 + b"\r\n\r\n"),
    ],
    ids=[
        "short",
        "half a chunk",
        "no last chunk",
        "no end",
        "half a head",
        "nothing",
        "no http",
        "negative",
        "two",
        "huge head",
    ],
)
async def test_what_breaks_off_or_is_no_http_is_broken(reply: Reply) -> None:
    assert (await refused(reply)).kind == "broken"


async def test_what_comes_compressed_is_refused_unopened() -> None:
    bomb = gzip.compress(b"\0" * 4_000_000)
    length = b"Content-Length: %d" % len(bomb)
    assert (await refused(answering(bomb, b"Content-Encoding: gzip", length))).kind == "encoded"


async def test_a_trickle_ends_with_the_deadline() -> None:
    async def trickle(stream: ByteStream) -> None:
        await stream.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
        while True:
            await stream.send(b"x")
            await anyio.sleep(0.01)

    assert (await refused(trickle, timeout_s=0.3)).kind == "late"


async def test_a_host_that_says_nothing_ends_with_the_deadline() -> None:
    async def silence(stream: ByteStream) -> None:
        await anyio.sleep_forever()

    assert (await refused(silence, timeout_s=0.2)).kind == "late"


async def test_a_name_server_that_says_nothing_ends_with_the_deadline() -> None:
    async def silence(host: str, port: int) -> list[str]:
        await anyio.sleep_forever()
        return []

    found = await Fetcher(Hosts(["a.example"]), timeout_s=0.1, resolve=silence)("https://a.example/", LIMIT)
    assert isinstance(found, Unfetched)
    assert found.kind == "late"


async def test_a_host_that_takes_no_connection_is_unreachable() -> None:
    fetcher = Fetcher(Hosts(["a.example"]), resolve=Names([PUBLIC]), net=Net(0, dead=[PUBLIC]))
    found = await fetcher("https://a.example/", LIMIT)
    assert isinstance(found, Unfetched)
    assert found.kind == "unreachable"


async def test_no_proxy_of_the_environment_sees_a_fetch() -> None:
    program = """
import anyio, sys
from pilothouse.http.fetch import Fetcher
from pilothouse.http.allowlist import Hosts
print(anyio.run(Fetcher(Hosts([], sys.argv[1]), timeout_s=20.0), sys.argv[1], 100))
"""
    async with open_host(answering(b"no")) as proxy, open_host(answering(b"yes")) as host:
        names = ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy")
        env = {**os.environ, **dict.fromkeys(names, f"http://127.0.0.1:{proxy.port}")}
        done = await anyio.run_process(
            [sys.executable, "-c", program, f"http://127.0.0.1:{host.port}/"], env=env
        )
        assert done.stdout.strip() == b"b'yes'"
        assert not proxy.came


async def test_many_fetches_at_once_keep_apart() -> None:
    async with open_host(saying()) as host:

        async def echo(stream: ByteStream) -> None:
            path = host.heads[-1].split()[1]
            await stream.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(path) + path)

        host.reply = echo
        fetcher, found = plain_fetcher(host), dict[int, bytes | Unfetched]()

        async def get(number: int) -> None:
            found[number] = await fetcher(f"http://127.0.0.1:{host.port}/{number}", LIMIT)

        async with anyio.create_task_group() as group:
            for number in range(20):
                group.start_soon(get, number)
    assert found == {number: f"/{number}".encode() for number in range(20)}
