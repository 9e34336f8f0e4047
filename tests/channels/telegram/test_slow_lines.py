"""A file is waited for as long as a slow line takes for it: given up too soon, it would be sent once more."""

from contextlib import AbstractAsyncContextManager
from typing import cast

import anyio
import h11
import pytest
from anyio.abc import ByteStream
from msgspec import Raw
from tests.http.server import Visits, answer, serving

from pilothouse.channels.telegram.api import REST_S, Api, open_api
from pilothouse.channels.telegram.client import CALL_S, BotClient
from pilothouse.channels.telegram.config import Endpoint
from pilothouse.channels.telegram.payload import DOWNLOAD_BYTES, FileBytes
from pilothouse.channels.telegram.sender import GATE_S
from pilothouse.channels.telegram.trouble import NetworkDown
from pilothouse.core.channel import MIN_BYTES_PER_S
from pilothouse.core.ids import EngineId
from pilothouse.core.secret import Secret
from pilothouse.runtime.settings import Settings

HASTY_S = 0.01
LATE_S = 0.2
FILE = {"file": FileBytes("a.bin", "application/zip", bytes(MIN_BYTES_PER_S))}
"""So much as a slow line carries in a second; this machine's buffers take it at once."""


async def answer_late(stream: ByteStream, visits: Visits) -> None:
    """As on a slow line: what was sent arrives later, and its answer later still."""
    await anyio.sleep(LATE_S)
    http = h11.Connection(h11.SERVER)
    while not isinstance(event := http.next_event(), h11.EndOfMessage):
        if event is h11.NEED_DATA:
            http.receive_data(await stream.receive())
    await stream.send(answer(b'{"ok":true,"result":true}'))


def api(visits: Visits) -> AbstractAsyncContextManager[Api]:
    return open_api(Endpoint(Secret("1:x"), f"http://127.0.0.1:{visits.port}"))


async def test_a_file_that_is_still_on_its_way_is_not_given_up() -> None:
    async with serving(answer_late) as visits, api(visits) as one:
        assert await one.call("sendDocument", {}, FILE, HASTY_S) == Raw(b"true")


async def test_words_are_given_up_when_their_time_is_up() -> None:
    async with serving(answer_late) as visits, api(visits) as one:
        found = await one.call("sendMessage", {"text": "x" * MIN_BYTES_PER_S}, {}, HASTY_S)
    assert isinstance(found, NetworkDown)
    assert found.maybe_done


def test_a_call_ends_before_the_delivery_gives_it_up() -> None:
    """Both count the bytes by one line. A call waits for its turn, for the answer's beginning, and for its end."""
    assert Settings(EngineId("x"), "w").send_timeout_s > GATE_S + CALL_S + REST_S


class Patience:
    """Stands in for the API and notes how long each call would have been waited for."""

    def __init__(self) -> None:
        self.waits: list[float] = []

    async def call(self, method: str, params: object, uploads: object, wait_s: float) -> Raw:
        self.waits.append(wait_s)
        return Raw(b'{"file_id":"f"}')


@pytest.mark.parametrize(
    ("size", "more_s"), [(10 * MIN_BYTES_PER_S, 10), (None, DOWNLOAD_BYTES / MIN_BYTES_PER_S)]
)
async def test_a_server_of_ones_own_gets_time_to_fetch_a_large_file(size: int | None, more_s: float) -> None:
    patience = Patience()
    await BotClient(cast("Api", patience)).download("f", size=size)
    assert patience.waits == [CALL_S + more_s]
