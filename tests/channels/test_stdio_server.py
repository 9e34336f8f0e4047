"""One client on two pipes: a fault costs one request, and requests that wait do not stop the reading."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from pilothouse.channels.stdio_frames import FrameReader, FrameWriter, Notification, Request
from pilothouse.channels.stdio_server import MOST_AT_ONCE, ClientRequests, Respond, StdioServer
from pilothouse.processes.pipes import PipeReader, PipeWriter

pytestmark = pytest.mark.anyio
FAILURE, BUSY = -32000, -32001


class Peer:
    """The program on the other side of the pipes. The server asks it before it answers `ask`, and `fail` is a fault."""

    def __init__(self, sending: int, reading: PipeReader) -> None:
        self.logged: list[str] = []
        self._sending = sending
        self._reading = reading
        self._rest = b""

    def send(self, **frame: Any) -> None:
        os.write(self._sending, json.dumps({"jsonrpc": "2.0", **frame}).encode() + b"\n")

    def leave(self) -> None:
        os.close(self._sending)

    async def read(self) -> dict[str, Any]:
        while b"\n" not in self._rest:
            self._rest += await self._reading.receive()
        line, _, self._rest = self._rest.partition(b"\n")
        found: dict[str, Any] = json.loads(line)
        return found


@asynccontextmanager
async def open_peer() -> AsyncIterator[Peer]:
    """Serve a peer; the body ends after the server has."""
    (their_input, sending), (reading, their_output) = os.pipe(), os.pipe()
    with (
        os.fdopen(their_input, "rb") as stdin,
        os.fdopen(their_output, "wb", buffering=0) as stdout,
        os.fdopen(reading, "rb") as output,
    ):
        peer = Peer(sending, PipeReader(output))
        writer = FrameWriter(PipeWriter(stdout))

        async def withdraw(id: str) -> None:
            await writer.notify("withdraw", {"id": id})

        asking = ClientRequests(writer, withdraw)

        async def serve(request: Request, respond: Respond) -> None:
            if request.method == "fail":
                raise KeyError("a fault")
            await respond(await asking.ask("question", {}, int) if request.method == "ask" else 0)

        async def hear(told: Notification) -> None:
            raise ValueError(told.method)

        def log(event: str, **fields: Any) -> None:
            peer.logged.append(event)

        server = StdioServer(
            writer, asking, serve, hear, first="initialize", log=log, failure=FAILURE, busy=BUSY
        )
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:

                async def run() -> None:
                    async with anyio.create_task_group() as requests:
                        await server.run(FrameReader(PipeReader(stdin)), requests)
                        requests.cancel_scope.cancel()

                tasks.start_soon(run)
                yield peer


async def test_a_fault_is_the_answer_to_one_request_and_the_next_one_works() -> None:
    async with open_peer() as peer:
        for id, method in enumerate(("fail", "notified", "fine")):
            peer.send(method=method, **({} if method == "notified" else {"id": id}))
        answers = {frame["id"]: frame for frame in [await peer.read(), await peer.read()]}
        assert answers[0]["error"]["code"] == FAILURE and "a fault" in answers[0]["error"]["message"]
        assert answers[2]["result"] == 0
        peer.leave()
    assert sorted(peer.logged) == ["notification.failed", "request.failed"]


async def test_a_reply_is_read_while_as_many_requests_wait_as_can_and_others_are_refused() -> None:
    async with open_peer() as peer:
        for id in range(MOST_AT_ONCE + 1):
            peer.send(id=id, method="ask")
        told = [await peer.read() for _ in range(MOST_AT_ONCE + 1)]
        assert [frame["error"]["code"] for frame in told if "error" in frame] == [BUSY]
        asked = [frame["id"] for frame in told if frame.get("method") == "question"]
        peer.send(id=asked[0], result=7)
        assert (await peer.read())["result"] == 7
        peer.send(id="next", method="fine")
        assert (await peer.read()) == {"jsonrpc": "2.0", "id": "next", "result": 0}
        peer.leave()
