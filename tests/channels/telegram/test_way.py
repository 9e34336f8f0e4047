"""How a server is reached: by which name it is asked, by which proxy, and what is said where that cannot be."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream
from tests.channels.telegram.http_house import ME, answer, get_me_with, said_with
from tests.ports import hold_port

from pilothouse.channels.telegram.address import parse_server
from pilothouse.channels.telegram.client import open_client
from pilothouse.channels.telegram.config import TelegramConfig, problem
from pilothouse.channels.telegram.endpoint import Endpoint
from pilothouse.channels.telegram.proxies import is_excepted
from pilothouse.channels.telegram.trouble import NetworkDown, NotTelegram, Trouble
from pilothouse.core.errors import ConfigError
from pilothouse.core.secret import Secret

pytestmark = pytest.mark.anyio

TOKEN = Secret("1:x")
OK = answer(ME)


@asynccontextmanager
async def listening(reply: bytes = OK, host: str = "127.0.0.1") -> AsyncIterator[tuple[int, list[str]]]:
    """A port, and the heads of the requests that came there."""
    heads: list[str] = []

    async def serve(stream: SocketStream) -> None:
        async with stream:
            head = b""
            while b"\r\n\r\n" not in head:
                head += await stream.receive()
            heads.append(head.decode())
            await stream.send(reply)

    listener = await anyio.create_tcp_listener(local_host=host)
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, serve)
        yield listener.extra(SocketAttribute.local_port), heads
        group.cancel_scope.cancel()


async def ask(base: str, proxy: str = "") -> object:
    async with open_client(Endpoint(TOKEN, base, proxy=proxy)) as client:
        return await client.get_me()


async def fetch(base: str, file_base: str) -> object:
    async with open_client(Endpoint(TOKEN, base, file_base)) as client:
        return await client.download("f")


async def test_a_server_with_a_path_and_a_port_is_asked_by_both() -> None:
    async with listening() as (port, heads):
        assert not isinstance(await ask(f"http://localhost:{port}/bots/"), Trouble)
    assert heads[0].startswith("POST /bots/bot1:x/getMe HTTP/1.1\r\n")
    assert f"\r\nHost: localhost:{port}\r\n" in heads[0]


async def test_a_server_that_wants_a_login_gets_the_one_in_its_address_and_nobody_sees_it() -> None:
    refused = b"HTTP/1.1 401 No\r\nContent-Length: 2\r\n\r\nno"
    async with listening(refused) as (port, heads):
        found = await ask(f"http://ada:p%40ss@127.0.0.1:{port}")
    assert "\r\nAuthorization: Basic YWRhOnBAc3M=\r\n" in heads[0]
    assert isinstance(found, NotTelegram)
    assert f"http://127.0.0.1:{port} answered 401" in found.text
    assert "p%40ss" not in found.text


async def test_an_address_of_the_sixth_version_stands_in_brackets() -> None:
    address = parse_server("http://[::1]:8081")
    assert (address.authority, address.host) == ("[::1]:8081", "::1")
    assert parse_server("http://[::1]").authority == "[::1]"


async def test_a_name_in_letters_of_its_own_is_written_in_ascii() -> None:
    address = parse_server("https://bücher.example/päth/")
    assert (address.authority, address.path) == ("xn--bcher-kva.example", "/p%C3%A4th")


@pytest.mark.parametrize(
    "base",
    [
        "",
        "https://",
        "gopher://a",
        "http://a b",
        "http://a:99999",
        "http://a:b",
        "http://[::1",
        "http://.a",
        "http://a\x00b",
        f"http://{'ä' * 64}.example",
    ],
)
async def test_what_is_no_address_is_an_error_of_the_settings(base: str) -> None:
    with pytest.raises(ConfigError, match="no address of a Bot API server"):
        await ask(base)
    if base:
        assert problem(TelegramConfig(token=TOKEN, api_base=base)).startswith("api_base is ")


async def test_a_name_that_nobody_can_have_is_a_network_that_is_down() -> None:
    found = await ask(f"http://{'a' * 64}.invalid")
    assert isinstance(found, NetworkDown)
    assert not found.maybe_done


async def test_a_proxy_gets_its_name_and_password_and_nobody_else_does() -> None:
    async with listening() as (port, heads):
        base = "http://elsewhere.invalid"
        assert not isinstance(await ask(base, f"http://ada:p%40ss@127.0.0.1:{port}"), Trouble)
    assert heads[0].startswith("POST http://elsewhere.invalid/bot1:x/getMe ")
    assert "\r\nProxy-Authorization: Basic YWRhOnBAc3M=\r\n" in heads[0]
    assert "\r\nHost: elsewhere.invalid\r\n" in heads[0]


async def test_a_proxy_that_is_not_there_is_named_instead_of_telegram() -> None:
    with hold_port() as port:
        found = await ask("http://elsewhere.invalid", f"http://ada:word@127.0.0.1:{port}")
    assert isinstance(found, NetworkDown)
    way = f"http://elsewhere.invalid (by way of the proxy 127.0.0.1:{port})"
    assert found.text == f"{way}: the connection was refused"


async def test_a_page_that_a_proxy_may_have_written_names_it() -> None:
    async with listening(answer(b"<html>no</html>", status=b"403 No")) as (port, _):
        found = await ask("http://elsewhere.invalid", f"http://127.0.0.1:{port}")
    assert isinstance(found, NotTelegram)
    assert f"http://elsewhere.invalid (by way of the proxy 127.0.0.1:{port}) answered 403" in found.text


@pytest.mark.parametrize("base", ["http://elsewhere.invalid", "https://elsewhere.invalid"])
async def test_a_proxy_that_wants_a_login_says_so_and_nothing_was_done(base: str) -> None:
    async with listening(answer(b"<html>who?</html>", status=b"407 Who are you")) as (port, _):
        found = await ask(base, f"http://127.0.0.1:{port}")
    assert isinstance(found, NetworkDown)
    assert not found.maybe_done
    assert f"{base} (by way of the proxy 127.0.0.1:{port}): the proxy wants a login" in found.text


async def test_the_server_that_has_the_files_is_named_where_it_was_asked() -> None:
    file = answer(b'{"ok":true,"result":{"file_id":"f","file_path":"documents/a.pdf"}}')
    page = answer(b"<html>404</html>", status=b"404 No")
    with hold_port() as nobody:
        async with listening(file) as (port, _), listening(file) as (again, _), listening(page) as (other, _):
            down = await fetch(f"http://127.0.0.1:{port}", f"http://127.0.0.1:{nobody}")
            foreign = await fetch(f"http://127.0.0.1:{again}", f"http://a:b@127.0.0.1:{other}/f")
    assert isinstance(down, NetworkDown)
    assert down.text == f"http://127.0.0.1:{nobody} (file_base): the connection was refused"
    assert isinstance(foreign, NotTelegram)
    assert foreign.text.startswith(f"http://127.0.0.1:{other}/f (file_base) answered 404 with ")
    assert foreign.text.endswith("is file_base where a Bot API server has its files?")


async def test_a_tunnel_that_a_proxy_refuses_was_never_used() -> None:
    refusal = b"HTTP/1.1 407 Who are you\r\nContent-Length: 0\r\n\r\n"
    async with listening(refusal) as (port, heads):
        found = await ask("https://elsewhere.invalid", f"http://127.0.0.1:{port}")
    assert isinstance(found, NetworkDown)
    assert not found.maybe_done
    assert "407" in found.text
    assert heads[0].startswith("CONNECT elsewhere.invalid:443 ")
    assert "1:x" not in heads[0]


@pytest.mark.parametrize(
    ("proxy", "shown"),
    [
        ("socks5://ada:secret@10.0.0.1:1080", "socks5://10.0.0.1:1080"),
        ("http://ada:secret@10.0.0.1:99999", "http://10.0.0.1:99999"),
        ("http://:3128", "http://:3128"),
        ("http://ada\N{FULLWIDTH COLON}secret@10.0.0.1:3128", "http://10.0.0.1:3128"),
        ("http://ada:secret\N{FULLWIDTH COMMERCIAL AT}10.0.0.1:3128", "http://10.0.0.1:3128"),
        ("http://ada:my://secret@10.0.0.1:3128", "http://10.0.0.1:3128"),
        ("http://ada:my[secret@10.0.0.1:3128", "http://10.0.0.1:3128"),
        ("http://ada:my/secret@10.0.0.1:3128", "http://10.0.0.1:3128"),
        ("http://ada:my#secret@10.0.0.1:3128", "http://10.0.0.1:3128"),
        ("http://ada:secret@[10.0.0.1:3128", "http://[10.0.0.1:3128"),
        ("ada:my://secret@10.0.0.1:x", "10.0.0.1:x"),
    ],
)
async def test_a_proxy_that_cannot_be_used_is_named_without_its_password(proxy: str, shown: str) -> None:
    with pytest.raises(ConfigError) as raised:
        await ask("http://127.0.0.1:1", proxy)
    for said in (str(raised.value), problem(TelegramConfig(token=TOKEN, proxy=proxy))):
        assert shown in said
        assert "secret" not in said and "ada" not in said


@pytest.mark.parametrize("written", ["http://127.0.0.1:{}", "127.0.0.1:{}"])
@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
async def test_the_proxy_of_the_environment_counts(name: str, written: str) -> None:
    async with listening() as (port, heads):
        said = await get_me_with({name: written.format(port)}, "http://elsewhere.invalid")
    assert "b_bot" in said
    assert heads[0].startswith("POST http://elsewhere.invalid/")


@pytest.mark.parametrize(
    ("base", "no_proxy"),
    [
        ("http://bots.corp:8081", "bots.corp"),
        ("http://bots.corp:8081", "BOTS.CORP:8081"),
        ("http://bots.corp:8081", "*.corp"),
        ("http://bots.corp:8081", ".corp"),
        ("http://bots.corp:8081", "corp"),
        ("http://bots.corp", "bots.corp:80"),
        ("http://bots.corp", "elsewhere, bots.corp"),
        ("http://bots.corp", "elsewhere bots.corp"),
        ("http://bots.corp", "*"),
        ("http://10.1.2.3:8081", "10.1.2.3"),
        ("http://10.1.2.3:8081", "10.1.2.3:8081"),
        ("http://10.1.2.3:8081", "10.0.0.0/8"),
        ("http://10.1.2.3:8081", "10.1.2.3/8"),
        ("http://[::1]:8081", "::1"),
        ("http://[::1]:8081", "[::1]"),
        ("http://[::1]:8081", "[0::1]:8081"),
        ("http://[fd00::2:8081]", "fd00::/8"),
    ],
)
def test_who_is_reached_without_a_proxy_may_be_said_as_to_any_program(base: str, no_proxy: str) -> None:
    assert is_excepted(parse_server(base), no_proxy)


@pytest.mark.parametrize(
    ("base", "no_proxy"),
    [
        ("http://bots.corp:8081", ""),
        ("http://bots.corp:8081", "bots.corp:8082, robots.corp, ots.corp, ., 10.0.0.0/8, [::1, corp.:x"),
        ("http://10.1.2.3:8081", "10.1.2.4, 0.1.2.3, 11.0.0.0/8, 10.0.0.0/x, ::1"),
        ("http://[fd00::2:8081]", "fd00::2, [fd00::2]:8081"),
    ],
)
def test_who_is_not_named_is_reached_by_proxy(base: str, no_proxy: str) -> None:
    assert not is_excepted(parse_server(base), no_proxy)


async def test_each_server_has_its_own_proxy_or_none() -> None:
    program = """
from pilothouse.channels.telegram.endpoint import Endpoint
from pilothouse.channels.telegram.way import find_way
from pilothouse.core.secret import Secret
own = Endpoint(Secret("1:x"), "http://bots.corp", "http://files.corp:8082")
way = find_way(own)
print(*(proxy and proxy.host_port for proxy in map(way.proxy_to, (own.calls, own.files))))
"""
    proxy = {"HTTP_PROXY": "http://127.0.0.1:3128"}
    assert await said_with({**proxy, "NO_PROXY": "files.corp:8082"}, program) == "127.0.0.1:3128 None"
    assert await said_with({**proxy, "NO_PROXY": "bots.corp"}, program) == "None 127.0.0.1:3128"


async def test_no_proxy_says_who_is_reached_directly() -> None:
    async with listening() as (port, heads), listening() as (other, by_proxy):
        env = {"HTTP_PROXY": f"http://127.0.0.1:{other}", "NO_PROXY": "elsewhere.invalid, 127.0.0.1"}
        assert "b_bot" in await get_me_with(env, f"http://127.0.0.1:{port}")
    assert heads[0].startswith("POST /bot1:x/getMe ")
    assert not by_proxy


@pytest.mark.parametrize(
    ("environment", "told"),
    [
        ({"ALL_PROXY": "socks5://ada:word@10.0.0.1:1080"}, "The proxy socks5://10.0.0.1:1080 cannot be used"),
        ({"SSL_CERT_FILE": "/nonexistent.pem"}, "cannot be read (SSL_CERT_FILE=/nonexistent.pem)"),
        ({"HTTPS_PROXY": "10.0.0.1:3128"}, ""),
    ],
)
async def test_what_the_environment_makes_impossible_is_known_before_the_start(
    environment: dict[str, str], told: str
) -> None:
    program = """
from pilothouse.channels.telegram.config import TelegramConfig, problem
from pilothouse.core.secret import Secret
print(problem(TelegramConfig(token=Secret("1:x"))))
"""
    said = await said_with(environment, program)
    assert told in said
    assert bool(said) is bool(told)


async def test_a_proxy_of_the_environment_that_we_cannot_use_is_named() -> None:
    said = await get_me_with({"ALL_PROXY": "socks5://10.0.0.1:1080"}, "http://elsewhere.invalid")
    assert "socks5://10.0.0.1:1080 cannot be used" in said
    assert "`proxy` in [channels.telegram]" in said and "NO_PROXY=elsewhere.invalid" in said
