"""Serves one program on two pipes: each of its requests is answered once, and each of ours waits for its reply.

Requests run side by side, at most `MOST_AT_ONCE`; a further one is refused. Reading never waits for a request, which may
itself wait for a reply or for the end of the input. Requests and notifications begin in the order in which they were
sent. A request that is named as `first` is answered before the next frame is read.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any, TypeVar

import anyio
import anyio.abc
import msgspec
from msgspec import Raw, Struct

from pilothouse.channels.request_errors import INVALID_PARAMS, RequestError
from pilothouse.channels.stdio_frames import (
    BadFrame,
    Frame,
    FrameReader,
    FrameWriter,
    Notification,
    Reply,
    Request,
)
from pilothouse.core.errors import PilothouseError, find_fenced

MOST_AT_ONCE = 64
CLOSE_S = 2.0
MOST_FAULT_CHARS = 500

F = TypeVar("F")
P = TypeVar("P")
R = TypeVar("R")
Respond = Callable[[Any], Awaitable[None]]
Serve = Callable[[Request, Respond], Awaitable[None]]
Log = Callable[..., None]


class ReplyFailed(Exception):
    """The client answered our request with an error, or with a result of another shape."""


def read_params(raw: Raw, kind: type[P]) -> P:
    """Decode parameters. Raises `RequestError` with the field that is wrong."""
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise RequestError(INVALID_PARAMS, f"The parameters are wrong: {error}") from error


class _Pending(Struct):
    done: anyio.Event
    reply: Reply | None = None


class ClientRequests:
    """Requests that we make of the client. They have no deadline: `withdraw` is told when one needs no reply any more."""

    def __init__(self, writer: FrameWriter, withdraw: Callable[[str], Awaitable[None]]) -> None:
        self._writer = writer
        self._withdraw = withdraw
        self._numbers = count(1)
        self._pending: dict[str, _Pending] = {}

    def settle(self, reply: Reply) -> None:
        """Take a reply of the client. A reply to a request that ended is ignored."""
        if pending := self._pending.pop(reply.id, None):
            pending.reply = reply
            pending.done.set()

    async def ask(self, method: str, params: Any, result: type[R]) -> R:
        """Send a request and wait for its reply. A cancelled wait withdraws it. Raises `ReplyFailed`."""
        id = f"ui_{next(self._numbers)}"
        self._pending[id] = pending = _Pending(anyio.Event())
        try:
            await self._writer.request(id, method, params)
            await pending.done.wait()
        finally:
            if self._pending.pop(id, None) is not None:
                with anyio.move_on_after(CLOSE_S, shield=True):
                    await self._close(id)
        assert pending.reply is not None
        if pending.reply.error is not None:
            raise ReplyFailed(f"The client answered {method} with an error.")
        try:
            return msgspec.json.decode(pending.reply.result, type=result)
        except msgspec.MsgspecError as error:
            raise ReplyFailed(f"The client's answer to {method} has the wrong shape: {error}") from error

    async def _close(self, id: str) -> None:
        try:
            await self._withdraw(id)
        except BrokenPipeError:
            return


class StdioServer:
    """`serve` answers a request by its `Respond`, or raises; `hear` takes a notification."""

    def __init__(
        self,
        writer: FrameWriter,
        requests: ClientRequests,
        serve: Serve,
        hear: Callable[[Notification], Awaitable[None]],
        *,
        first: str,
        log: Log,
        failure: int,
        busy: int,
    ) -> None:
        self._writer = writer
        self._requests = requests
        self._serve_request = serve
        self._hear = hear
        self._first = first
        self._log = log
        self._failure = failure
        self._busy = busy
        self._free = anyio.Semaphore(MOST_AT_ONCE)
        self._hearing = anyio.Semaphore(MOST_AT_ONCE)

    async def run(self, reader: FrameReader, tasks: anyio.abc.TaskGroup) -> None:
        """Serve until the client's output ends."""
        async for frame in reader:
            await self._take(frame, tasks)

    async def finish(self) -> None:
        """After the client's output ended, wait a moment for the requests in it, such as a run that is being stored."""
        with anyio.move_on_after(CLOSE_S):
            for _ in range(MOST_AT_ONCE):
                await self._free.acquire()

    async def _take(self, frame: Frame, tasks: anyio.abc.TaskGroup) -> None:
        match frame:
            case BadFrame(code=code, text=text, id=id):
                await self._writer.fail(id, code, text)
            case Reply():
                self._requests.settle(frame)
            case Request(method=method) if method == self._first:
                await self._answer(frame)
            case Request():
                await self._start(frame, tasks)
            case Notification():  # what they do ends by itself, so reading may wait for it
                await self._hearing.acquire()
                tasks.start_soon(self._release_after, self._hearing, self._note, frame)

    async def _start(self, request: Request, tasks: anyio.abc.TaskGroup) -> None:
        try:
            self._free.acquire_nowait()
        except anyio.WouldBlock:
            text = f"{MOST_AT_ONCE} requests have no answer yet. Wait for one of them."
            await self._writer.fail(request.id, self._busy, text)
        else:
            tasks.start_soon(self._release_after, self._free, self._answer, request)

    async def _release_after(
        self, place: anyio.Semaphore, work: Callable[[F], Awaitable[None]], frame: F
    ) -> None:
        try:
            await work(frame)
        finally:
            place.release()

    async def _answer(self, request: Request) -> None:
        answered = False

        async def respond(result: Any) -> None:
            nonlocal answered
            answered = True
            await self._writer.answer(request.id, result)

        try:
            await self._serve_request(request, respond)
        except RequestError as error:
            await self._writer.fail(request.id, error.code, error.text, error.data)
        except PilothouseError as error:
            if find_fenced(error):
                raise
            if not answered:
                await self._writer.fail(request.id, self._failure, str(error))
        except BrokenPipeError:
            raise  # the client is gone
        except Exception as error:
            if find_fenced(error):
                raise
            self._log("request.failed", level="error", method=request.method[:100], error=error)
            if not answered:
                text = f"The request failed because of a fault in Pilothouse: {type(error).__name__}: {error}"
                await self._writer.fail(request.id, self._failure, text[:MOST_FAULT_CHARS])

    async def _note(self, told: Notification) -> None:
        try:
            await self._hear(told)
        except BrokenPipeError:
            raise
        except Exception as error:
            if find_fenced(error):
                raise
            self._log("notification.failed", level="error", method=told.method[:100], error=error)
