"""20 MB down, 50 MB up, 10 MB for a photo: kept before a byte too many is sent or read."""

import tracemalloc

import pytest
from tests.channels.telegram.posts import send_file
from tests.channels.telegram.server.running import Server, open_server
from tests.http.server import answer, saying, serving

from pilothouse.channels.telegram import trouble
from pilothouse.channels.telegram.client import BotClient, open_client
from pilothouse.channels.telegram.config import Endpoint
from pilothouse.channels.telegram.payload import DOWNLOAD_BYTES, PHOTO_BYTES, UPLOAD_BYTES, FileBytes
from pilothouse.channels.telegram.wire import Message
from pilothouse.core.secret import Secret

MB = 1 << 20


async def test_the_largest_files_that_telegram_takes_go_up_and_come_down(
    client: BotClient, server: Server
) -> None:
    ada = server.person()
    up = FileBytes("all.bin", "application/zip", bytes(UPLOAD_BYTES))
    assert isinstance(await send_file(client, ada.id, up), Message)
    post = ada.document("in.bin", b"\1" * DOWNLOAD_BYTES)
    data = await client.download(post.message["document"]["file_id"])
    assert data == b"\1" * DOWNLOAD_BYTES


async def test_a_file_too_large_is_refused_before_anything_is_sent(client: BotClient, server: Server) -> None:
    ada = server.person()
    over = FileBytes("big.bin", "application/zip", bytes(UPLOAD_BYTES + 1))
    photo = FileBytes("big.png", "image/png", bytes(PHOTO_BYTES + 1))
    tries = [
        await send_file(client, ada.id, over),
        await send_file(client, ada.id, photo, kind="photo"),
    ]
    assert [type(one) for one in tries] == [trouble.TooBig] * 2
    assert server.calls == []


async def test_a_file_too_large_is_not_fetched(client: BotClient, server: Server) -> None:
    ada = server.person()
    file_id = ada.document("film.mkv", bytes(DOWNLOAD_BYTES + 1)).message["document"]["file_id"]
    assert isinstance(await client.download(file_id), trouble.TooBig)
    small = ada.document("note.txt", b"0123456789").message["document"]["file_id"]
    assert isinstance(await client.download(small, limit=9), trouble.TooBig)


async def test_a_server_that_sends_more_than_it_said_is_cut_off(client: BotClient, server: Server) -> None:
    ada = server.person()
    file_id = ada.document("note.txt", b"0123456789").message["document"]["file_id"]
    server.faults.garble("download", bytes(MB))
    assert isinstance(await client.download(file_id, limit=100), trouble.TooBig)


@pytest.mark.parametrize("length", [b"Connection: close", b"Content-Length: 3"])
async def test_half_a_file_is_not_taken_for_the_whole(length: bytes) -> None:
    """As a proxy passes on what broke off, with no length or with that of what it has."""
    file = answer(b'{"ok":true,"result":{"file_id":"f","file_size":10,"file_path":"documents/a.pdf"}}')
    half = b"HTTP/1.1 200 OK\r\n" + length + b"\r\n\r\n%PD"
    async with (
        serving(saying(file, half, then_close=True)) as visits,
        open_client(Endpoint(Secret("1:x"), f"http://127.0.0.1:{visits.port}")) as client,
    ):
        found = await client.download("f")
    assert isinstance(found, trouble.NetworkDown), "it is fetched once more"
    assert "3 of 10 bytes" in found.text


async def test_an_upload_is_copied_nowhere() -> None:
    async with open_server() as server, open_client(Endpoint(Secret("1:x"), server.url)) as client:
        up = FileBytes("all.bin", "application/zip", bytes(UPLOAD_BYTES))
        server.faults.drop("sendDocument")
        tracemalloc.start()
        try:
            await client.call("getMe", {}, object)
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            sent = await send_file(client, 1, up)
            peak = tracemalloc.get_traced_memory()[1] - before
        finally:
            tracemalloc.stop()
    assert isinstance(sent, trouble.Trouble)
    # The server is in this process, and holds the one copy that it received.
    assert peak < 75 * MB


@pytest.mark.parametrize("path", ["/etc/passwd", "../../x", "documents/../../x"])
async def test_a_file_path_that_leads_elsewhere_is_not_followed(
    client: BotClient, server: Server, path: str
) -> None:
    server.faults.garble("getFile", b'{"ok":true,"result":{"file_id":"f","file_path":"%s"}}' % path.encode())
    refused = await client.download("f")
    assert isinstance(refused, trouble.NotTelegram)
    assert "file_base" in refused.text


async def test_a_file_that_vanished_between_two_calls_is_trouble(client: BotClient, server: Server) -> None:
    ada = server.person()
    file_id = ada.document("note.txt", b"x").message["document"]["file_id"]
    server.faults.storm("download", status=404)
    gone = await client.download(file_id)
    assert isinstance(gone, trouble.NotTelegram)
    assert not gone.maybe_done


async def test_files_may_have_an_address_of_their_own(server: Server) -> None:
    ada = server.person()
    file_id = ada.document("note.txt", b"words").message["document"]["file_id"]
    own = Endpoint(Secret(server.token), server.url, file_base=f"{server.url}/file/")
    async with open_client(own) as client:
        assert await client.download(file_id) == b"words"
    gone = Endpoint(Secret(server.token), server.url, file_base=f"{server.url}/nowhere")
    async with open_client(gone) as client:
        assert isinstance(await client.download(file_id), trouble.NotTelegram)
