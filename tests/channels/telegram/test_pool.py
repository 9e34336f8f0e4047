"""Connections are used again while that is safe, are never more than they may be, and none is left behind."""

import anyio
import pytest
from anyio.abc import ByteStream
from tests.channels.telegram.http_house import Visits, answer, read_head, request, saying, serving
from tests.ports import hold_port

from pilothouse.channels.telegram.address import parse_server
from pilothouse.channels.telegram.connection import Reply
from pilothouse.channels.telegram.pool import AT_ONCE, KEPT, open_pool
from pilothouse.channels.telegram.trouble import NetworkDown
from pilothouse.channels.telegram.way import Way

LIMIT = 1 << 20


async def test_one_connection_serves_requests_that_follow_each_other() -> None:
    async with serving(saying(answer(b"x"))) as visits:
        async with open_pool(Way()) as pool:
            for _ in range(5):
                assert await pool.ask(visits.server, request(), LIMIT, 20) == Reply(200, b"x")
            assert [len(heads) for heads in visits.heads] == [5]
        await visits.until_open(0)


async def test_a_connection_that_the_server_closed_meanwhile_is_replaced_unseen() -> None:
    async with serving(saying(answer(b"x"), then_close=True)) as visits, open_pool(Way()) as pool:
        for _ in range(5):
            assert await pool.ask(visits.server, request(), LIMIT, 20) == Reply(200, b"x")
            await visits.until_open(0)
        assert [len(heads) for heads in visits.heads] == [1] * 5


async def test_what_a_server_says_unasked_is_nobodys_answer() -> None:
    async def serve(stream: ByteStream, visits: Visits) -> None:
        visits.heads.append([await read_head(stream)])
        await stream.send(answer(b"mine") + answer(b"not yours"))
        visits.heads[-1].append(await read_head(stream))

    async with serving(serve) as visits, open_pool(Way()) as pool:
        for _ in range(3):
            assert await pool.ask(visits.server, request(), LIMIT, 20) == Reply(200, b"mine")
            await visits.until_open(0) if len(visits.heads) < 3 else None


@pytest.mark.parametrize("size", [64 << 10, 256 << 10])
async def test_what_a_server_says_unasked_is_found_however_much_came_at_once(size: int) -> None:
    """Streams hand out 64 KiB, and asyncio reads 256: what is left would be the next answer."""
    mine = bytes(2 * size - len(answer(bytes(size))))
    both = answer(mine) + answer(b"not yours")
    assert both[:size] == answer(mine)
    async with serving(saying(both)) as visits, open_pool(Way()) as pool:
        for _ in range(3):
            assert await pool.ask(visits.server, request(), LIMIT, 20) == Reply(200, mine)
    assert [len(heads) for heads in visits.heads] == [1] * 3


async def test_two_servers_do_not_share_a_connection() -> None:
    async with (
        serving(saying(answer(b"a"))) as one,
        serving(saying(answer(b"b"))) as other,
        open_pool(Way()) as pool,
    ):
        for _ in range(2):
            assert await pool.ask(one.server, request(), LIMIT, 20) == Reply(200, b"a")
            assert await pool.ask(other.server, request(), LIMIT, 20) == Reply(200, b"b")
    assert len(one.heads) == len(other.heads) == 1


async def test_many_requests_at_once_wait_for_a_seat_and_few_connections_are_kept() -> None:
    full = anyio.Event()

    async def serve(stream: ByteStream, visits: Visits) -> None:
        while True:
            await read_head(stream)
            if visits.open == AT_ONCE:
                full.set()
            await full.wait()
            await stream.send(answer(b"x"))

    replies: list[object] = []
    async with serving(serve) as visits, open_pool(Way()) as pool:

        async def ask() -> None:
            replies.append(await pool.ask(visits.server, request(), LIMIT, 20))

        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                for _ in range(AT_ONCE + 20):
                    tasks.start_soon(ask)
        assert replies == [Reply(200, b"x")] * (AT_ONCE + 20)
        # What was not kept may still be counted when those who waited find none and open their own.
        assert AT_ONCE <= visits.most <= AT_ONCE + 20 - KEPT
        await visits.until_open(KEPT)


async def test_a_request_that_is_given_up_takes_its_connection_along() -> None:
    async with serving(saying(answer(b"x")[:-1])) as visits, open_pool(Way()) as pool:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(pool.ask, visits.server, request(), LIMIT, 20)
            await visits.until_open(1)
            tasks.cancel_scope.cancel()
        await visits.until_open(0)
        async with serving(saying(answer(b"y"))) as other:
            assert await pool.ask(other.server, request(), LIMIT, 20) == Reply(200, b"y")


async def test_all_connections_are_closed_though_somebody_is_in_a_hurry() -> None:
    full = anyio.Event()

    async def serve(stream: ByteStream, visits: Visits) -> None:
        await read_head(stream)
        if visits.open == 3:
            full.set()
        await full.wait()
        await stream.send(answer(b"x"))
        await read_head(stream)

    async with serving(serve) as visits:
        with anyio.CancelScope() as hurry:
            async with open_pool(Way()) as pool:
                async with anyio.create_task_group() as tasks:
                    for _ in range(3):
                        tasks.start_soon(pool.ask, visits.server, request(), LIMIT, 20)
                assert visits.open == 3
                hurry.cancel()
        await visits.until_open(0)


async def test_a_server_that_is_not_there_was_asked_nothing() -> None:
    with hold_port() as port:
        async with open_pool(Way()) as pool:
            nobody = parse_server(f"http://127.0.0.1:{port}")
            assert await pool.ask(nobody, request(), LIMIT, 20) == NetworkDown("the connection was refused")
