"""The token is in no log line of any library, in no exception, in no repr, and in no text that we make."""

import logging
from urllib.parse import quote

import pytest
from tests.channels.telegram.posts import send_file
from tests.channels.telegram.server.running import TOKEN, Server
from tests.ports import hold_port

from pilothouse.channels.telegram.client import BotClient, open_client
from pilothouse.channels.telegram.config import Endpoint
from pilothouse.channels.telegram.payload import FileBytes
from pilothouse.channels.telegram.trouble import Trouble
from pilothouse.core.secret import Secret

CANARY = "canary_canary"
LOCAL_FILE = f'{{"ok":true,"result":{{"file_id":"f","file_path":"/var/lib/{TOKEN}/a.pdf"}}}}'.encode()
"""What a server answers that runs with --local."""


async def everything_that_may_log(client: BotClient, server: Server) -> list[object]:
    ada = server.person()
    file_id = ada.document("note.txt", b"x").message["document"]["file_id"]
    faults = server.faults
    results: list[object] = [
        await client.get_me(),
        await send_file(client, ada.id, FileBytes("a.txt", "text/plain", b"x")),
        await client.download(file_id),
        await client.get_updates(0, timeout_s=0),
    ]
    faults.garble("getFile", LOCAL_FILE)
    results.append(await client.download(file_id))
    faults.drop("getMe")
    faults.storm("getMe", status=500)
    faults.garble("getMe", f"<a href='/bot{TOKEN}/getMe'>no</a>".encode())
    faults.refuse("getMe", 400, f"Bad Request: /bot{TOKEN}/getMe is strange")
    return results + [await client.get_me() for _ in range(4)]


async def test_the_token_is_in_no_log_line_and_in_no_result(
    client: BotClient, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        results = await everything_that_may_log(client, server)
    said = "\n".join(f"{record.getMessage()} {record.args!r}" for record in caplog.records)
    assert CANARY not in said
    assert CANARY not in repr(results)
    assert sum(isinstance(result, Trouble) for result in results) == 5


async def test_a_file_that_a_server_keeps_to_itself_is_named_without_the_token(
    client: BotClient, server: Server
) -> None:
    server.faults.garble("getFile", LOCAL_FILE)
    found = await client.download("f")
    assert isinstance(found, Trouble)
    assert "'/var/lib/[token]/a.pdf'" in found.text
    assert found.text.endswith("run it without")


async def test_no_part_of_the_token_is_left_where_what_was_said_is_cut(
    client: BotClient, server: Server
) -> None:
    for before in (*range(1, 90, 7), *range(250, 320, 7)):
        server.faults.garble("getMe", f"{'-' * before}/bot{TOKEN}/getMe".encode())
        server.faults.refuse("getMe", 400, f"{'-' * before}/bot{TOKEN}/getMe")
        said = repr([await client.get_me(), await client.get_me()])
        assert ("-/bot[token]" in said) == (before < 290)
        assert TOKEN[:12] not in said


async def test_the_token_is_found_as_it_stands_in_an_address(client: BotClient, server: Server) -> None:
    server.faults.garble("getMe", f"no /bot{quote(TOKEN)}/getMe".encode())
    assert "no /bot[token]/getMe" in repr(await client.get_me())


async def test_the_token_is_in_no_repr(server: Server) -> None:
    endpoint = Endpoint(Secret(server.token), server.url)
    async with open_client(endpoint) as client:
        seen = [repr(endpoint), repr(client), repr(vars(client)), repr(vars(client._api))]
    with hold_port() as port:
        nobody = f"http://127.0.0.1:{port}"
        async with open_client(Endpoint(Secret(server.token), nobody)) as client:
            seen.append(repr(await client.get_me()))
    assert CANARY not in "".join(seen)
