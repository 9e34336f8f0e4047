"""Nobody but the server that we mean hears the token: directly, by a proxy, and through its tunnel."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import chain
from pathlib import Path

import anyio
import pytest
from anyio.abc import ByteStream
from anyio.streams.tls import TLSAttribute
from tests.channels.telegram.http_house import (
    ME,
    Visits,
    answer,
    get_me_with,
    read_head,
    request,
    saying,
    serving,
)

from pilothouse.channels.telegram.address import parse_server
from pilothouse.channels.telegram.connection import Reply
from pilothouse.channels.telegram.pool import open_pool
from pilothouse.channels.telegram.trouble import NetworkDown, Trouble
from pilothouse.channels.telegram.trust import find_certificates
from pilothouse.channels.telegram.way import Way

HERE = Path(__file__).parent / "certificates"
AUTHORITY = HERE / "authority.pem"
HASHED = "a2d56eaa.0"
"""As `openssl rehash` names it."""
RECORD_BYTES = 16 << 10
"""As much as TLS encrypts at once."""
OVERHEAD_BYTES = 22
"""What that is longer by, in TLS 1.3."""


def identity() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(HERE / "loopback.pem")
    return context


def trust() -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(AUTHORITY))


def by_proxy(proxy: str, address: str) -> Way:
    return Way({parse_server(address).origin: parse_server(proxy)}, trust())


async def ask(address: str, way: Way, times: int = 1) -> Reply | Trouble:
    async with open_pool(way) as pool:
        replies = [await pool.ask(parse_server(address), request(), 1 << 20, 20) for _ in range(times)]
    assert replies == replies[:1] * times
    return replies[0]


@asynccontextmanager
async def tunnelling(
    reply: bytes = b"HTTP/1.1 200 Connection established\r\n\r\n", tls: ssl.SSLContext | None = None
) -> AsyncIterator[tuple[Visits, list[str]]]:
    """A proxy that connects whom it is asked to, and what it was asked."""
    asked: list[str] = []

    async def serve(stream: ByteStream, visits: Visits) -> None:
        head = (await read_head(stream)).decode()
        asked.append(head)
        await stream.send(reply)
        host, _, port = head.split()[1].rpartition(":")
        async with await anyio.connect_tcp(host, int(port)) as far, anyio.create_task_group() as tasks:
            tasks.start_soon(_pass_on, stream, far)
            await _pass_on(far, stream)
            tasks.cancel_scope.cancel()

    async with serving(serve, tls) as visits:
        yield visits, asked


async def _pass_on(source: ByteStream, target: ByteStream) -> None:
    try:
        async for piece in source:
            await target.send(piece)
    except anyio.BrokenResourceError:
        pass


async def test_a_server_that_proves_itself_is_asked_over_one_connection() -> None:
    async with serving(saying(answer(b"x")), identity()) as visits:
        address = f"https://127.0.0.1:{visits.port}"
        assert await ask(address, Way(trust=trust()), times=4) == Reply(200, b"x")
    assert [len(heads) for heads in visits.heads] == [4]


async def test_what_a_server_says_unasked_is_nobodys_answer_though_it_came_with_the_last_one() -> None:
    mine = bytes(2 * RECORD_BYTES - len(answer(bytes(RECORD_BYTES))))
    both = answer(mine) + answer(b"not yours")
    assert both[:RECORD_BYTES] == answer(mine), "what nobody asked for is decrypted later"
    async with serving(saying(both), identity()) as visits:
        assert await ask(f"https://127.0.0.1:{visits.port}", Way(trust=trust()), times=3) == Reply(200, mine)
    assert [len(heads) for heads in visits.heads] == [1] * 3


async def test_what_a_server_says_unasked_is_found_though_tls_has_not_read_it() -> None:
    """It asks for 64 KiB of what has come: here for exactly one answer, encrypted."""
    encrypted = (64 << 10) - 4 * OVERHEAD_BYTES
    mine = bytes(2 * encrypted - len(answer(bytes(encrypted))))

    async def serve(stream: ByteStream, visits: Visits) -> None:
        assert stream.extra(TLSAttribute.tls_version) == "TLSv1.3"
        while True:
            visits.heads.append([await read_head(stream)])
            stream.extra(TLSAttribute.ssl_object).write(answer(mine))
            await stream.send(answer(b"not yours"))  # both in one

    async with serving(serve, identity()) as visits:
        assert await ask(f"https://127.0.0.1:{visits.port}", Way(trust=trust()), times=3) == Reply(200, mine)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_one_that_cannot_prove_itself_hears_nothing(host: str) -> None:
    """An authority that nobody trusts, and a certificate for another name."""
    async with serving(saying(answer(b"x")), identity()) as visits:
        context = trust() if host == "localhost" else ssl.create_default_context()
        found = await ask(f"https://{host}:{visits.port}", Way(trust=context))
    assert isinstance(found, NetworkDown)
    assert not found.maybe_done
    assert "certificate is not trusted" in found.text
    assert ("SSL_CERT_FILE" in found.text) == (host == "127.0.0.1"), "no file makes it the right name"
    assert visits.heads == []


async def test_one_that_does_not_encrypt_hears_nothing() -> None:
    async with serving(saying(answer(b"x"))) as visits:
        with anyio.fail_after(20):
            found = await ask(f"https://127.0.0.1:{visits.port}", Way(trust=trust()))
    assert isinstance(found, NetworkDown)
    assert not found.maybe_done
    assert b"GET" not in b"".join(chain.from_iterable(visits.heads))


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_tunnel_is_dug_and_its_proxy_reads_nothing(scheme: str) -> None:
    async with (
        serving(saying(answer(b"x")), identity()) as visits,
        tunnelling(tls=identity() if scheme == "https" else None) as (proxy, asked),
    ):
        address = f"https://127.0.0.1:{visits.port}"
        way = by_proxy(f"{scheme}://ada:word@127.0.0.1:{proxy.port}", address)
        assert await ask(address, way, times=2) == Reply(200, b"x")
    (head,) = asked
    assert head.startswith(f"CONNECT 127.0.0.1:{visits.port} HTTP/1.1\r\n")
    assert "\r\nProxy-Authorization: Basic YWRhOndvcmQ=\r\n" in head
    assert all(b"Proxy-Authorization" not in head for heads in visits.heads for head in heads)


async def test_a_proxy_that_is_reached_by_tls_passes_on_what_needs_none() -> None:
    async with serving(saying(answer(b"x")), identity()) as proxy:
        way = by_proxy(f"https://127.0.0.1:{proxy.port}", "http://elsewhere.invalid")
        assert await ask("http://elsewhere.invalid", way, times=2) == Reply(200, b"x")
    assert [head.split(b"\r\n")[0] for head in proxy.heads[0]] == [
        b"GET http://elsewhere.invalid/x HTTP/1.1"
    ] * 2


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (b"HTTP/1.1 403 Not from here\r\nContent-Length: 0\r\n\r\n", "opens no tunnel: 403 Not from here"),
        (b"HTTP/1.1 200 OK\r\n\r\nwelcome", "talks into its own tunnel"),
        (b"", "the connection was cut off"),
        (b"who is there?\r\n\r\n", ""),
    ],
)
async def test_a_tunnel_that_is_none_was_never_used(reply: bytes, words: str) -> None:
    async with serving(saying(reply, then_close=True)) as proxy:
        way = by_proxy(f"http://127.0.0.1:{proxy.port}", "https://elsewhere.invalid")
        found = await ask("https://elsewhere.invalid", way)
    assert isinstance(found, NetworkDown)
    assert not found.maybe_done
    assert words in found.text
    assert len(proxy.heads) == 1


async def test_certificates_that_the_environment_names_are_believed(tmp_path: Path) -> None:
    (tmp_path / HASHED).write_bytes(AUTHORITY.read_bytes())
    async with serving(saying(answer(ME)), identity()) as visits:
        base = f"https://127.0.0.1:{visits.port}"
        assert "b_bot" in await get_me_with({"SSL_CERT_FILE": str(AUTHORITY)}, base)
        assert "b_bot" in await get_me_with({"SSL_CERT_DIR": str(tmp_path)}, base)
        untrusted = await get_me_with({}, base)
    assert "not trusted" in untrusted
    assert "SSL_CERT_FILE" in untrusted and "SSL_CERT_DIR" in untrusted, (
        "who knows the authority reads how to name it"
    )


async def test_certificates_that_cannot_be_read_are_an_error_of_the_settings(tmp_path: Path) -> None:
    said = await get_me_with({"SSL_CERT_FILE": str(tmp_path / "gone.pem")}, "https://127.0.0.1:1")
    assert f"SSL_CERT_FILE={tmp_path}/gone.pem" in said
    assert "Traceback" not in said


async def test_a_folder_in_which_nothing_would_be_found_is_an_error_of_the_settings(tmp_path: Path) -> None:
    loose, hashed = tmp_path / "loose", tmp_path / "hashed"
    for folder, name in ((loose, "company.pem"), (hashed, HASHED)):
        folder.mkdir()
        (folder / name).write_bytes(AUTHORITY.read_bytes())
    async with serving(saying(answer(ME)), identity()) as visits:
        base = f"https://127.0.0.1:{visits.port}"
        for useless in (loose, tmp_path / "gone", f"{loose}:{tmp_path / 'gone'}"):
            said = await get_me_with({"SSL_CERT_DIR": str(useless)}, base)
            assert f"SSL_CERT_DIR={useless} holds no certificates" in said
            assert f"openssl rehash {str(useless).partition(':')[0]}`" in said
        assert "b_bot" in await get_me_with({"SSL_CERT_DIR": f"{loose}:{hashed}"}, base)
        both = {"SSL_CERT_FILE": str(AUTHORITY), "SSL_CERT_DIR": str(loose)}
        assert "b_bot" in await get_me_with(both, base)


async def test_a_server_that_needs_none_is_reached_without_certificates(tmp_path: Path) -> None:
    async with serving(saying(answer(ME))) as visits:
        gone = {"SSL_CERT_FILE": str(tmp_path / "gone.pem")}
        assert "b_bot" in await get_me_with(gone, f"http://127.0.0.1:{visits.port}")


def test_certificates_are_found_where_this_python_or_another_system_has_them(tmp_path: Path) -> None:
    bundle, folder = tmp_path / "bundle.pem", tmp_path / "hashed"
    folder.mkdir()
    (folder / "README").touch()

    def found(file: Path | str) -> tuple[str | None, str | None]:
        paths = ssl.DefaultVerifyPaths(str(file), str(folder), "", "", "", "")
        return find_certificates(paths, [str(tmp_path / "elsewhere"), str(bundle)])

    assert found("") == (None, None)
    bundle.touch()
    assert found("") == (str(bundle), None)
    assert found(AUTHORITY) == (str(AUTHORITY), None)
    (folder / HASHED).touch()
    assert found("") == (None, str(folder))
    assert found(AUTHORITY) == (str(AUTHORITY), str(folder))
