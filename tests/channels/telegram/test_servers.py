"""The address of a server: `api_base`, `file_base`, `proxy`, and the names in messages about its failure."""

import pytest
from msgspec.structs import replace
from tests.http.server import answer, said_with, saying, serving, tunnelling
from tests.ports import hold_port

from pilothouse.channels.telegram.client import open_client
from pilothouse.channels.telegram.config import Endpoint, TelegramConfig, problem
from pilothouse.channels.telegram.trouble import NetworkDown, NotTelegram, Trouble
from pilothouse.core.secret import Secret, without_login

TOKEN = Secret("1:x")
ME = answer(b'{"ok":true,"result":{"id":1,"is_bot":true,"first_name":"b","username":"b_bot"}}')
FILE = answer(b'{"ok":true,"result":{"file_id":"f","file_path":"documents/a b.pdf"}}')


async def get_me(base: str, proxy: str = "") -> object:
    async with open_client(Endpoint(TOKEN, base, proxy=proxy)) as client:
        return await client.get_me()


async def test_a_server_with_a_path_and_a_port_is_asked_by_both() -> None:
    async with serving(saying(ME)) as visits:
        assert not isinstance(await get_me(f"http://localhost:{visits.port}/bots/"), Trouble)
    head = visits.heads[0][0].decode()
    assert head.startswith("POST /bots/bot1:x/getMe HTTP/1.1\r\n")
    assert f"\r\nHost: localhost:{visits.port}\r\n" in head


async def test_files_are_below_api_base_unless_file_base_is_set() -> None:
    async with serving(saying(FILE, answer(b"%PDF"))) as visits, serving(saying(answer(b"own"))) as own:
        async with open_client(Endpoint(TOKEN, visits.url)) as client:
            assert await client.download("f") == b"%PDF"
        assert visits.heads[0][1].startswith(b"GET /file/bot1:x/documents/a%20b.pdf HTTP/1.1\r\n")
    async with serving(saying(FILE)) as visits, serving(saying(answer(b"own"))) as own:
        async with open_client(Endpoint(TOKEN, visits.url, f"{own.url}/f/")) as client:
            assert await client.download("f") == b"own"
        assert own.heads[0][0].startswith(b"GET /f/bot1:x/documents/a%20b.pdf HTTP/1.1\r\n")


async def test_a_login_in_an_address_is_sent_and_not_shown() -> None:
    async with serving(saying(answer(b"no", status=b"401 No"))) as visits:
        found = await get_me(f"http://ada:p%40ss@127.0.0.1:{visits.port}")
    assert b"\r\nAuthorization: Basic YWRhOnBAc3M=\r\n" in visits.heads[0][0]
    assert isinstance(found, NotTelegram)
    assert f"http://127.0.0.1:{visits.port} answered 401" in found.text
    assert "p%40ss" not in found.text


async def test_the_server_that_has_the_files_is_named_when_it_fails() -> None:
    with hold_port() as nobody:
        async with serving(saying(FILE)) as visits, serving(saying(answer(b"?", status=b"404 No"))) as other:
            bases = f"http://127.0.0.1:{nobody}", f"http://a:b@127.0.0.1:{other.port}/f"
            found: list[object] = []
            for base in bases:
                async with open_client(Endpoint(TOKEN, visits.url, base)) as client:
                    found.append(await client.download("f"))
    down, foreign = found
    assert isinstance(down, NetworkDown)
    assert down.text == f"http://127.0.0.1:{nobody} (file_base): the connection was refused"
    assert isinstance(foreign, NotTelegram)
    assert foreign.text.startswith(f"http://127.0.0.1:{other.port}/f (file_base) answered 404 with ")
    assert foreign.text.endswith("is file_base where a Bot API server has its files?")


async def test_a_proxy_that_is_set_is_named_with_the_server() -> None:
    with hold_port() as port:
        found = await get_me("http://elsewhere.invalid", f"http://ada:word@127.0.0.1:{port}")
    assert isinstance(found, NetworkDown)
    way = f"http://elsewhere.invalid (by way of the proxy http://127.0.0.1:{port})"
    assert found.text == f"{way}: the connection was refused"
    async with serving(saying(answer(b"<html>no</html>", status=b"403 No"))) as proxy:
        found = await get_me("http://elsewhere.invalid", proxy.url)
    assert isinstance(found, NotTelegram)
    assert f"(by way of the proxy {proxy.url}) answered 403" in found.text


@pytest.mark.parametrize("base", ["http://elsewhere.invalid", "https://elsewhere.invalid"])
async def test_a_proxy_that_wants_a_login_says_so_and_nothing_was_done(base: str) -> None:
    async with tunnelling(answer(b"<html>who?</html>", status=b"407 Who are you")) as (proxy, _):
        found = await get_me(base, proxy.url)
    assert isinstance(found, NetworkDown)
    assert not found.maybe_done
    assert "the proxy wants a login (407)" in found.text


@pytest.mark.parametrize("name", ["api_base", "file_base", "proxy"])
@pytest.mark.parametrize(
    "address",
    ["https://", "gopher://a", "http://a b", "http://a:99999", "http://a:b", "http://[::1", "a.example"],
)
def test_what_is_no_address_is_a_problem_of_the_settings(name: str, address: str) -> None:
    said = problem(replace(TelegramConfig(token=TOKEN), **{name: address}))
    assert said.startswith(f"{name} is {address!r}; ")


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("socks5://ada:secret@10.0.0.1:1080", "socks5://10.0.0.1:1080"),
        ("http://ada:secret\N{FULLWIDTH COMMERCIAL AT}10.0.0.1:3128", "http://10.0.0.1:3128"),
        ("http://ada:my://secret@10.0.0.1:3128", "http://10.0.0.1:3128"),
        ("http://ada:my[secret@10.0.0.1:3128", "http://10.0.0.1:3128"),
        ("ada:my://secret@10.0.0.1:x", "10.0.0.1:x"),
    ],
)
def test_an_address_is_shown_without_its_password(address: str, shown: str) -> None:
    assert without_login(address) == shown
    said = problem(TelegramConfig(token=TOKEN, proxy=address))
    assert "secret" not in said
    assert "ada" not in said


PROBLEM = """
import sys
from pilothouse.channels.telegram.config import TelegramConfig, problem
from pilothouse.core.secret import Secret
print(problem(TelegramConfig(token=Secret("1:x"), proxy={proxy!r})), "httpx2" in sys.modules)
"""


@pytest.mark.parametrize(
    ("environment", "proxy", "told"),
    [
        ({"ALL_PROXY": "socks5://ada:word@10.0.0.1:1080"}, "", "ALL_PROXY=socks5://10.0.0.1:1080 in the env"),
        ({"ALL_PROXY": "socks5://10.0.0.1:1080"}, "http://10.0.0.1:3128", ""),
        ({"SSL_CERT_FILE": "/nonexistent.pem"}, "", "SSL_CERT_FILE=/nonexistent.pem in the environment"),
        ({"HTTPS_PROXY": "10.0.0.1:3128"}, "", ""),
    ],
)
async def test_what_the_environment_makes_impossible_is_known_before_the_start(
    environment: dict[str, str], proxy: str, told: str
) -> None:
    said, _, imported = (await said_with(environment, PROBLEM.format(proxy=proxy))).rpartition(" ")
    assert told in said
    assert bool(said) is bool(told)
    assert imported == "False"
