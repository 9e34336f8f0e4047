"""The webhook: a request without the secret is refused, and 200 means that the update is kept."""

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import anyio
import pytest
from tests.channels.telegram.server.running import Server

from pilothouse.channels.telegram.client import BotClient
from pilothouse.channels.telegram.config import WebhookConfig
from pilothouse.channels.telegram.webhook import BODY_BYTES, open_webhook
from pilothouse.channels.telegram.wire import Arrived, read_update
from pilothouse.core.secret import Secret
from pilothouse.http.server import CONNECTIONS

SECRET = "s3cret-canary"
ADDRESS = WebhookConfig(secret=Secret(SECRET), port=0)

Heard = list[bytes]


@asynccontextmanager
async def webhook(keep: Callable[[bytes], bool] = lambda raw: True) -> AsyncIterator[tuple[int, Heard]]:
    heard: Heard = []

    async def accept(raw: bytes) -> bool:
        heard.append(raw)
        return keep(raw)

    async with open_webhook(ADDRESS, accept) as port:
        yield port, heard


def request(
    body: bytes = b"{}", *, path: str = "/telegram", secret: str = SECRET, verb: str = "POST"
) -> bytes:
    head = f"{verb} {path} HTTP/1.1\r\nHost: x\r\nX-Telegram-Bot-Api-Secret-Token: {secret}\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


async def ask(port: int, *requests: bytes) -> list[int]:
    """The status of each, on one connection, until the other side closes it."""
    statuses: list[int] = []
    with anyio.fail_after(60):
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            for one in requests:
                try:
                    await stream.send(one)
                    answer = await stream.receive()
                except (anyio.EndOfStream, anyio.BrokenResourceError):
                    break
                statuses.append(int(answer.split()[1]))
    return statuses


async def test_updates_arrive_in_order_and_are_sent_again_until_they_are_kept(
    client: BotClient, server: Server
) -> None:
    refusals = [False, True, False]

    def keep(raw: bytes) -> bool:
        return refusals.pop(0) if refusals else True

    async with webhook(keep) as (port, heard):
        await client.set_webhook(f"http://127.0.0.1:{port}/telegram", SECRET)
        ada = server.person()
        ada.say("one")
        ada.say("two")
        with anyio.fail_after(60):
            await server.world.until(lambda: not server.world.pending)
    arrived = [read_update(raw) for raw in heard]
    texts = [one.update.message.text for one in arrived if isinstance(one, Arrived) and one.update.message]
    assert texts == ["one", "one", "two", "two"]


async def test_whoever_does_not_know_the_secret_is_not_heard() -> None:
    async with webhook() as (port, heard):
        assert await ask(port, request(secret="")) == [401]
        assert await ask(port, request(secret="s3cret-canarz")) == [401]
        assert await ask(
            port, request().replace(b"X-Telegram-Bot-Api-Secret-Token: s3cret-canary\r\n", b"")
        ) == [401]
        assert heard == []
        assert await ask(port, request()) == [200]
        assert heard == [b"{}"]


async def test_other_paths_and_verbs_are_refused_and_many_updates_share_a_connection() -> None:
    async with webhook() as (port, heard):
        assert await ask(port, request(path="/")) == [404]
        assert await ask(port, request(verb="PUT")) == [405]
        assert await ask(port, request(b"1"), request(b"2", path="/telegram?x=1"), request(b"3")) == [200] * 3
        assert heard == [b"1", b"2", b"3"]


async def test_what_is_too_large_or_no_http_at_all_harms_nobody() -> None:
    async with webhook() as (port, heard):
        assert await ask(port, request(b" " * (BODY_BYTES + 1))) in ([413], [])
        assert await ask(port, b"\x16\x03\x01 hello TLS\r\n\r\n") == []
        with socket.create_connection(("127.0.0.1", port)) as rude:
            rude.sendall(request(b"half a body")[:-5])
        assert await ask(port, request(b"after")) == [200]
        assert heard == [b"after"]


async def test_a16_silent_visitors_keep_nobody_out() -> None:
    async with webhook() as (port, _):
        visitors = [await anyio.connect_tcp("127.0.0.1", port) for _ in range(3 * CONNECTIONS)]
        for visitor in visitors[: 2 * CONNECTIONS]:
            with suppress(anyio.BrokenResourceError):
                await visitor.send(request()[:20])
        for _ in range(3):
            assert await ask(port, request(), request()) == [200, 200]
        with anyio.fail_after(60), pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
            await visitors[0].receive()  # the oldest had to go
        await visitors[-1].send(request())
        assert b" 200 " in await visitors[-1].receive()
        for visitor in visitors:
            await visitor.aclose()


async def test_a_visitor_who_knows_the_secret_keeps_the_seat_and_these_are_bounded_too() -> None:
    async with webhook() as (port, _):
        known = [await anyio.connect_tcp("127.0.0.1", port) for _ in range(CONNECTIONS)]
        for visitor in known:
            await visitor.send(request())
            assert b" 200 " in await visitor.receive()
        assert await ask(port, request(), request()) == [503]
        silent = [await anyio.connect_tcp("127.0.0.1", port) for _ in range(2 * CONNECTIONS)]
        for visitor in known:
            await visitor.send(request())
            assert b" 200 " in await visitor.receive()
        for visitor in (*known, *silent):
            await visitor.aclose()


async def test_a_webhook_without_a_secret_does_not_open() -> None:
    async def accept(raw: bytes) -> bool:
        return True

    with pytest.raises(AssertionError):
        async with open_webhook(WebhookConfig(port=0), accept):
            pass
