"""One request, one whole answer, or trouble that says whether the server may have acted: however the bytes come."""

from itertools import pairwise
from typing import cast

import anyio
import pytest
from anyio.abc import ByteStream
from hypothesis import example, given
from hypothesis import strategies as st
from tests.channels.telegram.http_house import (
    Stuck,
    Told,
    Visits,
    answer,
    connect,
    read_head,
    request,
    saying,
    serving,
)
from typing_extensions import override

from pilothouse.channels.telegram.bodies import PIECE_BYTES, Form, Json
from pilothouse.channels.telegram.connection import Connection, Reply
from pilothouse.channels.telegram.shapes import Upload
from pilothouse.channels.telegram.trouble import NetworkDown, TooBig, Trouble

LIMIT = 1 << 20
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n"
EARLY = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"


async def heard(pieces: list[bytes], limit: int = LIMIT) -> tuple[Reply | Trouble, bool]:
    connection = Connection(cast("ByteStream", Told(pieces)))
    with anyio.fail_after(20):
        reply = await connection.ask(request(Json({"a": 1})), limit, 20)
    return reply, connection.make_ready()


async def until_not_quiet(connection: Connection) -> None:
    with anyio.fail_after(20):
        while connection.is_quiet:
            await anyio.sleep(0.001)


def upload(size: int) -> Form:
    return Form({}, {"file": Upload("a.bin", "application/zip", bytes(size))})


def cut(data: bytes, places: list[int]) -> list[bytes]:
    marks = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in pairwise(marks)]


@given(st.binary(max_size=300), st.booleans(), st.booleans(), st.lists(st.integers(0, 1000), max_size=8))
def test_an_answer_is_read_whole_however_it_is_cut(
    data: bytes, chunked: bool, early: bool, places: list[int]
) -> None:
    said = CHUNKED % (len(data), data) if chunked and data else answer(data)
    pieces = cut(EARLY * early + said, places)
    assert anyio.run(heard, pieces) == (Reply(200, data), True)


@given(st.binary(min_size=1, max_size=100), st.booleans(), st.integers(0, 1000))
@example(b"x", False, 0)
def test_half_an_answer_is_none_and_may_have_been_done(data: bytes, chunked: bool, place: int) -> None:
    whole = CHUNKED % (len(data), data) if chunked else answer(data)
    reply, ready = anyio.run(heard, [whole[: place % len(whole)]])
    assert isinstance(reply, NetworkDown)
    assert reply.maybe_done
    assert reply.text
    assert not ready


@given(st.binary(max_size=200))
@example(b"SSH-2.0-OpenSSH_9.2\r\n")
@example(b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n")
@example(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab")
def test_whatever_answers_it_ends_as_a_reply_or_as_trouble(said: bytes) -> None:
    reply, _ = anyio.run(heard, [said])
    assert isinstance(reply, Reply | Trouble)


async def test_an_endless_head_is_not_read_for_ever() -> None:
    reply, _ = await heard([b"HTTP/1.1 200 OK\r\n", *[b"X: " + b"y" * 8000 + b"\r\n"] * 50])
    assert isinstance(reply, NetworkDown)


async def test_more_than_the_limit_is_refused_and_the_connection_not_used_again() -> None:
    assert await heard([answer(bytes(100))], limit=100) == (Reply(200, bytes(100)), True)
    reply, ready = await heard([answer(bytes(101))], limit=100)
    assert isinstance(reply, TooBig)
    assert not ready


@pytest.mark.parametrize(
    "said",
    [
        answer(b"x", b"Connection: close"),
        answer(b"x").replace(b"1.1", b"1.0"),
        answer(b"x") + answer(b"what nobody asked for"),
        b"HTTP/1.1 200 OK\r\n\r\nx",
    ],
)
async def test_a_connection_whose_next_answer_could_be_anothers_is_not_used_again(said: bytes) -> None:
    assert await heard([said]) == (Reply(200, b"x"), False)


async def test_a_connection_that_was_answered_before_it_was_asked_is_not_used_again() -> None:
    class Hasty(Told):
        @override
        async def receive(self, max_bytes: int = 65536) -> bytes:
            return self._pieces.pop(0)

    connection = Connection(cast("ByteStream", hasty := Hasty([answer(b"x")])))
    assert await connection.ask(request(), LIMIT, 20) == Reply(200, b"x")
    assert (hasty.sent, connection.make_ready()) == (b"", False)


async def test_a_connection_that_has_not_taken_all_of_a_request_is_not_used_again() -> None:
    connection = Connection(cast("ByteStream", stuck := Stuck([answer(b"x")])), silence_s=0.05)
    assert await connection.ask(request(last := upload(PIECE_BYTES - 100)), LIMIT, 20) == Reply(200, b"x")
    assert len(stuck.sent) < last.length
    assert not connection.make_ready()


async def test_requests_follow_each_other_on_one_connection() -> None:
    async with serving(saying(answer(b"one"), answer(b"two"))) as visits:
        connection = await connect(visits)
        assert await connection.ask(request(), LIMIT, 20) == Reply(200, b"one")
        assert connection.make_ready()
        assert connection.is_quiet
        assert await connection.ask(request(), LIMIT, 20) == Reply(200, b"two")
        await connection.close()
        assert not connection.is_quiet
    assert len(visits.heads) == 1


async def test_an_idle_connection_that_the_server_closed_is_not_quiet() -> None:
    async with serving(saying(answer(b"one"), then_close=True)) as visits:
        connection = await connect(visits)
        await connection.ask(request(), LIMIT, 20)
        assert connection.make_ready()
        await until_not_quiet(connection)
        await connection.close()


async def test_an_idle_connection_on_which_the_server_speaks_is_not_quiet() -> None:
    idle = anyio.Event()

    async def serve(stream: ByteStream, visits: Visits) -> None:
        await read_head(stream)
        await stream.send(answer(b"one"))
        await idle.wait()
        await stream.send(answer(b"not yours"))
        await read_head(stream)

    async with serving(serve) as visits:
        connection = await connect(visits)
        await connection.ask(request(), LIMIT, 20)
        assert connection.make_ready()
        assert connection.is_quiet
        idle.set()
        await until_not_quiet(connection)
        await connection.close()


BIG = upload(2 << 20)


async def test_a_refusal_is_heard_before_the_file_is_sent() -> None:
    """As of a server that finds the length too large, reads no more, and leaves the connection open."""
    connection = Connection(cast("ByteStream", Stuck([answer(b"too large", status=b"413 No")])))
    with anyio.fail_after(20):
        assert await connection.ask(request(BIG), LIMIT, 20) == Reply(413, b"too large")
    assert not connection.make_ready()


@pytest.mark.parametrize(("body", "silence_s", "wait_s"), [(BIG, 0.05, 20), (None, 20, 0.05)])
async def test_a_server_that_stands_still_is_given_up(
    body: Form | None, silence_s: float, wait_s: float
) -> None:
    connection = Connection(cast("ByteStream", Stuck([])), silence_s=silence_s)
    with anyio.fail_after(20):
        reply = await connection.ask(request(body), LIMIT, wait_s)
    assert reply == NetworkDown("no answer came in time", maybe_done=True)


async def test_an_upload_takes_longer_than_the_wait_for_its_answer() -> None:
    class Slow(Told):
        @override
        async def send(self, item: bytes) -> None:
            await anyio.sleep(0.02)  # 33 pieces of this are longer than the wait
            self.sent += item
            if len(self.sent) > BIG.length:
                self._asked.set()

    connection = Connection(cast("ByteStream", Slow([answer(b"all of it")])))
    assert await connection.ask(request(BIG), LIMIT, 0.3) == Reply(200, b"all of it")
    assert connection.make_ready()


@pytest.mark.parametrize("headers", [(), (b"Connection: close",)])
async def test_an_answer_takes_longer_than_the_wait_for_it_as_long_as_it_comes(
    headers: tuple[bytes, ...],
) -> None:
    deadlines: list[float] = []

    class Slow(Told):
        @override
        async def receive(self, max_bytes: int = 65536) -> bytes:
            piece = await super().receive(max_bytes)
            await anyio.sleep(0.001)  # so that the clock is another
            deadlines.append(anyio.current_effective_deadline())
            return piece

    whole = answer(b"abc", *headers)
    connection = Connection(cast("ByteStream", Slow([whole[:-3], b"a", b"b", b"c"])))
    assert await connection.ask(request(), LIMIT, 20) == Reply(200, b"abc")
    assert len(set(deadlines)) == len(deadlines) == 4


async def test_a_request_that_cannot_be_written_was_never_sent() -> None:
    connection = Connection(cast("ByteStream", told := Told([answer(b"")])), prefix="http://a b")
    reply = await connection.ask(request(), LIMIT, 20)
    assert isinstance(reply, NetworkDown)
    assert not reply.maybe_done
    assert told.sent == b""
