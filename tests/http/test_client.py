"""One request, one whole answer, or a failure that says how far the request came."""

import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from email import message_from_bytes

import anyio
import pytest
from anyio.abc import ByteStream
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.http.server import (
    AUTHORITY,
    Visits,
    answer,
    identity,
    read_request,
    said_with,
    saying,
    serving,
    tunnelling,
)
from tests.ports import hold_port

from pilothouse.core.errors import ConfigError
from pilothouse.core.secret import Secret
from pilothouse.http.client import LIMITS, SECRET, Failed, File, Form, HttpClient, Reply, open_http

pytestmark = pytest.mark.anyio

LIMIT = 1 << 20
OK = answer(b"x")
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n"


async def ask(
    http: HttpClient,
    url: str,
    content: bytes | Form = b"{}",
    limit: int = LIMIT,
    wait_s: float = 20,
    whole_s: float = 20,
) -> Reply | Failed:
    with anyio.fail_after(60):
        return await http.ask("POST", url, content, limit=limit, wait_s=wait_s, whole_s=whole_s)


async def heard(pieces: list[bytes], limit: int = LIMIT) -> Reply | Failed:
    """Ask a server that sends these pieces and closes."""

    async def serve(stream: ByteStream, visits: Visits) -> None:
        await read_request(stream)
        for piece in pieces:
            await stream.send(piece)

    async with serving(serve) as visits, open_http() as http:
        return await ask(http, visits.url, limit=limit)


@pytest.mark.parametrize("whole", [answer(b"abc" * 9), CHUNKED % (27, b"abc" * 9)])
async def test_an_answer_is_read_whole_however_it_is_cut(whole: bytes) -> None:
    assert await heard([whole[at : at + 1] for at in range(len(whole))]) == Reply(200, b"abc" * 9)
    assert await heard([whole]) == Reply(200, b"abc" * 9)


@pytest.mark.parametrize("whole", [answer(b"abc" * 9), CHUNKED % (27, b"abc" * 9)])
async def test_half_an_answer_is_a_failure_and_the_request_may_have_been_done(whole: bytes) -> None:
    for end in (0, 1, 20, len(whole) - 3):
        found = await heard([whole[:end]] if end else [])
        assert isinstance(found, Failed)
        assert (found.kind, found.sent) == ("broken", True)


@pytest.mark.parametrize(
    "said",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: " + b"y" * 200_000,
    ],
)
async def test_an_answer_that_is_no_http_is_a_failure(said: bytes) -> None:
    found = await heard([said])
    assert isinstance(found, Failed)
    assert found.kind == "broken"


async def test_an_answer_beyond_its_limit_is_not_read() -> None:
    assert await heard([answer(bytes(100))], limit=100) == Reply(200, bytes(100))
    for said in (answer(bytes(101)), CHUNKED % (101, bytes(101))):
        assert await heard([said], limit=100) == Failed("too_big", sent=True)


async def test_a_compressed_answer_is_not_unpacked() -> None:
    said = answer(b"\x1f\x8b nonsense", b"Content-Encoding: gzip")
    assert await heard([said]) == Reply(200, b"\x1f\x8b nonsense")


async def test_a_redirect_is_an_answer_and_is_not_followed() -> None:
    found = await heard([answer(b"", b"Location: http://169.254.169.254/", status=b"302 Found")])
    assert found == Reply(302, b"")


async def test_requests_follow_each_other_on_one_connection() -> None:
    async with serving(saying(OK)) as visits:
        async with open_http() as http:
            for _ in range(5):
                assert await ask(http, visits.url) == Reply(200, b"x")
            assert [len(heads) for heads in visits.heads] == [5]
        await visits.until_open(0)


async def test_a_connection_that_the_server_closed_meanwhile_is_replaced() -> None:
    async with serving(saying(OK, then_close=True)) as visits, open_http() as http:
        for _ in range(5):
            assert await ask(http, visits.url) == Reply(200, b"x")
            await visits.until_open(0)


async def test_a_server_that_is_not_there_got_nothing() -> None:
    with hold_port() as port:
        async with open_http() as http:
            for url in (f"http://127.0.0.1:{port}", "http://nowhere.invalid", f"http://{'a' * 64}.invalid"):
                found = await ask(http, url)
                assert isinstance(found, Failed)
                assert (found.kind, found.sent) == ("unreachable", False)


async def test_a_client_that_is_closed_sends_nothing() -> None:
    async with open_http() as http:
        pass
    assert await ask(http, "http://127.0.0.1:1") == Failed("unreachable", sent=False)


@pytest.mark.parametrize("url", ["http://a b", "http://[::1", "http://a:99999", "gopher://a", "x"])
async def test_an_address_that_is_none_is_unreachable(url: str) -> None:
    async with open_http() as http:
        found = await ask(http, url)
    assert isinstance(found, Failed)
    assert found.kind == "unreachable"


@pytest.mark.parametrize(("wait_s", "whole_s"), [(0.05, 20), (20, 0.05)])
async def test_a_server_that_is_silent_is_given_up_and_may_have_acted(wait_s: float, whole_s: float) -> None:
    async def serve(stream: ByteStream, visits: Visits) -> None:
        await read_request(stream)
        await stream.receive()

    async with serving(serve) as visits, open_http() as http:
        found = await ask(http, visits.url, wait_s=wait_s, whole_s=whole_s)
        assert isinstance(found, Failed)
        assert (found.kind, found.sent) == ("late", True)
        await visits.until_open(0)


BIG = Form({"a": b"1"}, {"file": File("a.bin", "application/zip", bytes(16 << 20))})


async def test_an_upload_that_broke_off_was_not_sent() -> None:
    async def serve(stream: ByteStream, visits: Visits) -> None:
        await stream.receive()

    async with serving(serve) as visits, open_http() as http:
        found = await ask(http, visits.url, BIG)
    assert isinstance(found, Failed)
    assert (found.kind, found.sent) == ("broken", False)


async def test_a_refusal_that_comes_before_the_end_of_an_upload_is_read() -> None:
    """As of nginx, which refuses by the length and discards what still comes."""

    async def serve(stream: ByteStream, visits: Visits) -> None:
        await stream.receive()
        await stream.send(answer(b"<html>too large</html>", b"Connection: close", status=b"413 No"))
        while True:
            await stream.receive()

    async with serving(serve) as visits, open_http() as http:
        assert await ask(http, visits.url, BIG) == Reply(413, b"<html>too large</html>")


async def test_requests_that_are_given_up_leave_their_connections_to_nobody() -> None:
    """More of them than there may be connections."""
    stuck = True

    async def serve(stream: ByteStream, visits: Visits) -> None:
        while True:
            await read_request(stream)
            await stream.send(OK[:-1] if stuck else OK)

    async with serving(serve) as visits, open_http() as http:
        for _ in range((LIMITS.max_connections or 0) // 16 + 1):
            async with anyio.create_task_group() as tasks:
                for _ in range(16):
                    tasks.start_soon(ask, http, visits.url)
                await visits.until_open(16)
                tasks.cancel_scope.cancel()
            await visits.until_open(0)
        stuck = False
        assert await ask(http, visits.url) == Reply(200, b"x")


async def test_a_long_poll_holds_nothing_up() -> None:
    polled = anyio.Event()

    async def serve(stream: ByteStream, visits: Visits) -> None:
        while True:
            if b"/poll" in await read_request(stream):
                polled.set()
                await stream.receive()
            await stream.send(OK)

    async with serving(serve) as visits, open_http() as http, anyio.create_task_group() as tasks:
        tasks.start_soon(ask, http, f"{visits.url}/poll")
        await polled.wait()
        for _ in range(3):
            assert await ask(http, f"{visits.url}/send") == Reply(200, b"x")
        tasks.cancel_scope.cancel()


async def test_a_secret_is_sent_and_is_in_no_log_line_and_no_error(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    secret = Secret("123:canary")
    async with serving(saying(OK, b"nonsense", then_close=True)) as visits, open_http() as http:
        found = [
            await http.ask(
                "GET", f"{url}/p%20q/bot{SECRET}/x?a=b", secret=secret, limit=9, wait_s=20, whole_s=20
            )
            for url in (visits.url, visits.url, "http://nowhere.invalid")
        ]
    head = visits.heads[0][0]
    assert head.startswith(b"GET /p%20q/bot123:canary/x?a=b HTTP/1.1\r\n")
    assert b"\r\nHost: 127.0.0.1:%d\r\n" % visits.port in head
    causes = [one.cause for one in found if isinstance(one, Failed)]
    assert len(causes) == 2
    said = [record.getMessage() for record in caplog.records]
    assert any("HTTP Request" in line for line in said), "the library still logs"
    assert "canary" not in repr([said, found, causes, [getattr(one, "request", None) for one in causes]])


async def test_a_login_in_an_address_is_sent_and_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with serving(saying(OK)) as visits, open_http() as http:
        await ask(http, f"http://ada:p%40ss@127.0.0.1:{visits.port}")
    assert b"\r\nAuthorization: Basic YWRhOnBAc3M=\r\n" in visits.heads[0][0]
    assert not any("ss@" in record.getMessage() for record in caplog.records)


NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


@settings(max_examples=30)
@given(st.text(max_size=20), NAMES, st.binary(max_size=200) | st.just(b"\r\n--\r\n"))
def test_a_form_arrives_as_it_was(field: str, name: str, data: bytes) -> None:
    form = Form({"text": field.encode(errors="replace")}, {"file": File(name, "image/png", data)})
    (fields, file), (_, filename, media_type, received) = anyio.run(sent_form, form)
    assert (fields, file) == ("text", field.encode(errors="replace"))
    assert (media_type, received) == ("image/png", data)
    assert filename
    assert "\n" not in filename


@pytest.mark.parametrize(
    ("name", "media_type"),
    [
        ('a"; filename="b', "text/plain"),
        ("a\r\nX-Evil: 1\r\n\r\nbody", "text/plain"),
        ("a.txt", "text/plain\r\nX-Evil: 1"),
        ("", ""),
    ],
)
async def test_a_name_or_a_type_cannot_break_a_form(name: str, media_type: str) -> None:
    form = Form({"chat_id": b"1"}, {"file": File(name, media_type, b"bytes")})
    field, file = await sent_form(form)
    assert field == ("chat_id", b"1")
    assert (file[0], file[3]) == ("file", b"bytes")
    assert file[2] in ("text/plain", "application/octet-stream")


async def sent_form(form: Form) -> tuple[tuple[str, bytes], tuple[str, str, str, bytes]]:
    """Send a form of one field and one file, and read it with the standard library."""
    async with serving(saying(OK)) as visits, open_http() as http:
        assert await ask(http, visits.url, form) == Reply(200, b"x")
    request = visits.heads[0][0].partition(b"\r\n")[2]
    type_line = next(line for line in request.split(b"\r\n") if line.lower().startswith(b"content-type:"))
    boundary = type_line.partition(b"boundary=")[2]
    body = request.partition(b"\r\n\r\n")[2]
    parts = [part[2:-2] for part in body.split(b"--" + boundary)[1:-1]]
    assert len(parts) == 2
    heads = [message_from_bytes(part.partition(b"\r\n\r\n")[0] + b"\r\n\r\n") for part in parts]
    assert all(set(head.keys()) <= {"Content-Disposition", "Content-Type"} for head in heads)
    values = [part.partition(b"\r\n\r\n")[2] for part in parts]
    names = [str(head.get_param("name", header="Content-Disposition")) for head in heads]
    filename = str(heads[1].get_param("filename", header="Content-Disposition"))
    return (names[0], values[0]), (names[1], filename, heads[1].get_content_type(), values[1])


async def test_a_proxy_gets_whole_addresses_and_its_own_login() -> None:
    async with (
        serving(saying(OK)) as proxy,
        open_http(f"http://ada:p%40ss@127.0.0.1:{proxy.port}") as http,
    ):
        url = f"http://elsewhere.invalid/bot{SECRET}/x"
        found = await http.ask("GET", url, secret=Secret("1:x"), limit=9, wait_s=20, whole_s=20)
    assert found == Reply(200, b"x")
    (head,) = proxy.heads[0]
    assert head.startswith(b"GET http://elsewhere.invalid/bot1:x/x HTTP/1.1\r\n")
    assert b"\r\nProxy-Authorization: Basic YWRhOnBAc3M=\r\n" in head


async def test_a_tunnel_that_a_proxy_refuses_was_never_used() -> None:
    refusal = b"HTTP/1.1 407 Who are you\r\nContent-Length: 0\r\n\r\n"
    async with tunnelling(refusal) as (proxy, asked), open_http(proxy.url) as http:
        found = await ask(http, "https://elsewhere.invalid/secret")
    assert isinstance(found, Failed)
    assert (found.kind, found.sent) == ("proxy", False)
    assert str(found.cause).startswith("407")
    assert asked[0].startswith("CONNECT elsewhere.invalid:443 ")
    assert "secret" not in asked[0]


@pytest.mark.parametrize("reply", [b"who is there?\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\nwelcome"])
async def test_a_tunnel_that_is_none_was_never_used(reply: bytes) -> None:
    async with serving(saying(reply, then_close=True)) as proxy, open_http(proxy.url) as http:
        found = await ask(http, "https://elsewhere.invalid")
    assert isinstance(found, Failed)
    assert not found.sent


ASK = """
import anyio
from pilothouse.http.unreachable import why_unreachable
from pilothouse.core.errors import ConfigError
from pilothouse.http.client import Reply, open_http
async def main():
    async with open_http() as http:
        for url in {urls!r}:
            found = await http.ask("GET", url, limit=99, wait_s=20, whole_s=20)
            print(found if isinstance(found, Reply) else why_unreachable(found.cause))
try:
    anyio.run(main)
except ConfigError as error:
    print("ConfigError", error)
"""


async def asked_with(environment: dict[str, str], *urls: str) -> str:
    return await said_with(environment, ASK.format(urls=urls))


async def test_the_proxy_of_the_environment_counts_and_no_proxy_excepts_from_it() -> None:
    async with serving(saying(answer(b"proxied"))) as proxy, serving(saying(answer(b"direct"))) as visits:
        environment = {"HTTP_PROXY": f"127.0.0.1:{proxy.port}", "NO_PROXY": "10.0.0.0/8,127.0.0.1"}
        said = await asked_with(environment, "http://elsewhere.invalid/", visits.url)
    assert "proxied" in said.splitlines()[0]
    assert "direct" in said.splitlines()[1]
    assert [len(heads) for heads in proxy.heads] == [1]


async def test_a_direct_client_asks_no_proxy_of_the_environment() -> None:
    async with serving(saying(answer(b"proxied"))) as proxy, serving(saying(answer(b"direct"))) as visits:
        program = ASK.replace("open_http()", "open_http(direct=True)").format(urls=(visits.url,))
        assert "direct" in await said_with({"HTTP_PROXY": f"127.0.0.1:{proxy.port}"}, program)
    assert proxy.heads == []


async def test_a_stream_is_read_until_it_breaks() -> None:
    async def serve(stream: ByteStream, visits: Visits) -> None:
        await read_request(stream)
        await stream.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n")
        await stream.send(b"3\r\ntwo\r\n")

    async with (
        serving(serve) as visits,
        open_http() as http,
        http.follow(visits.url, headers={"X": "y"}, wait_s=20) as pieces,
    ):
        assert isinstance(pieces, AsyncIterator)
        assert b"".join([piece async for piece in pieces]) == b"onetwo"


@pytest.mark.parametrize(("reply", "wanted"), [(answer(b"", status=b"401 No"), "Reply"), (b"", "Failed")])
async def test_a_stream_that_is_refused_says_so(reply: bytes, wanted: str) -> None:
    async with (
        serving(saying(reply, then_close=True)) as visits,
        open_http() as http,
        http.follow(visits.url, headers={}, wait_s=20) as pieces,
    ):
        assert type(pieces).__name__ == wanted


async def test_certificates_that_the_environment_names_are_trusted_also_through_a_tunnel() -> None:
    trust = {"SSL_CERT_FILE": str(AUTHORITY)}
    async with serving(saying(OK), identity()) as visits, tunnelling() as (proxy, asked):
        assert "Reply" in await asked_with(trust, visits.url)
        assert "Reply" in await asked_with({**trust, "HTTPS_PROXY": proxy.url}, visits.url)
        untrusted = await asked_with({}, visits.url)
        wrong_name = await asked_with(trust, f"https://localhost:{visits.port}")
    assert asked[0].startswith(f"CONNECT 127.0.0.1:{visits.port} HTTP/1.1\r\n")
    assert "certificate is not trusted" in untrusted
    assert "SSL_CERT_FILE" in untrusted
    assert "certificate is not trusted" in wrong_name
    assert len(visits.heads) == 2, "who could not prove their name heard nothing"


async def test_a_server_without_tls_hears_nothing() -> None:
    async def serve(stream: ByteStream, visits: Visits) -> None:
        greeted.append(await stream.receive())
        await stream.send(OK)

    greeted: list[bytes] = []
    async with serving(serve) as visits, open_http() as http:
        found = await ask(http, f"https://127.0.0.1:{visits.port}")
    assert isinstance(found, Failed)
    assert not found.sent
    assert b"POST" not in greeted[0]


@pytest.mark.parametrize(
    "proxy", ["socks5://ada:word@10.0.0.1:1080", "gopher://ada:word@10.0.0.1", "http://ada:word@10.0.0.1:x"]
)
async def test_a_proxy_that_cannot_be_used_is_an_error_of_the_settings(proxy: str) -> None:
    async with AsyncExitStack() as stack:
        with pytest.raises(ConfigError) as raised:
            await stack.enter_async_context(open_http(proxy))
    assert "word" not in str(raised.value)
    said = await asked_with({"ALL_PROXY": proxy}, "http://127.0.0.1:1")
    assert "ConfigError" in said
    assert "ALL_PROXY" in said
    assert "word" not in said


async def test_certificates_that_cannot_be_read_are_an_error_of_the_settings() -> None:
    said = await asked_with({"SSL_CERT_FILE": "/nonexistent.pem"}, "http://127.0.0.1:1")
    assert "ConfigError" in said
    assert "SSL_CERT_FILE" in said
