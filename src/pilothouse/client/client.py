"""The client: one process, its requests, and the runs that it follows.

Events wait in their run until they are read. While a run holds `MOST_EVENTS`, the server is read only as long as somebody
waits for a frame: an answer, an event, or the end of a run.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import count
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct

from pilothouse.channels.rpc.notifications import (
    AgentEventParams,
    RunStatusParams,
    UiClipboardParams,
    UiClipboardResult,
    UiConfirmParams,
    UiConfirmResult,
    UiPickParams,
    UiPickResult,
    UiPromptParams,
    UiPromptResult,
)
from pilothouse.channels.rpc.params import (
    InitializeResult,
    SessionHistoryResult,
    SessionListResult,
    SessionRow,
)
from pilothouse.channels.rpc.protocol import PROTOCOL_VERSION, RUN_NOT_FOUND
from pilothouse.client.run import Flow, Run

R = TypeVar("R")

MAX_FRAME_BYTES = 64 * 1024 * 1024
MAX_EVENTS = 100_000
STOP_S = 10.0
ENDED = ("completed", "error", "cancelled")


class ClientError(Exception):
    """The server answered with an error."""

    def __init__(self, code: int, text: str, data: Any = None) -> None:
        super().__init__(text)
        self.code = code
        self.data = data


class ServerLeft(Exception):
    """The server ended; `pilothouse doctor` may say why."""


class Handlers(Struct, frozen=True):
    """Functions that answer the server's dialogs. Without one, that dialog is not offered."""

    confirm: Callable[[UiConfirmParams], Awaitable[UiConfirmResult]] | None = None
    pick: Callable[[UiPickParams], Awaitable[UiPickResult]] | None = None
    prompt: Callable[[UiPromptParams], Awaitable[UiPromptResult]] | None = None
    clipboard_read: Callable[[UiClipboardParams], Awaitable[UiClipboardResult]] | None = None


class _Error(Struct):
    code: int
    message: str
    data: Any = None


class _Frame(Struct):
    id: Any = None
    method: str = ""
    params: Raw = Raw(b"{}")
    result: Raw = Raw(b"null")
    error: _Error | None = None


class Client:
    """Made by `open_client`."""

    def __init__(self, process: asyncio.subprocess.Process, handlers: Handlers) -> None:
        self._process = process
        self._handlers = handlers
        self._numbers = count(1)
        self._waiting: dict[str, asyncio.Future[_Frame]] = {}
        self._runs: dict[str, Run] = {}
        self._replays: list[dict[tuple[str, int], AgentEventParams]] = []
        self._flow = Flow()
        self._dialogs: dict[Any, asyncio.Task[None]] = {}
        self._writing = asyncio.Lock()
        self._has_left = False
        self.server: InitializeResult | None = None

    async def start(self, text: str, *, session_id: str | None = None, **params: Any) -> Run:
        """Start a run. It is stored when this returns."""
        given: dict[str, Any] = {"input": {"type": "text", "text": text}, **params}
        if session_id is not None:
            given["session_id"] = session_id
        return await self._start(given)

    async def _start(self, given: Mapping[str, Any]) -> Run:
        frame = await self._request("run.start", given, starts=True)
        told = msgspec.json.decode(frame.result, type=dict[str, str])
        return self._runs[told["run_id"]]

    async def sessions(self, **params: Any) -> Sequence[SessionRow]:
        told = await self.call("session.list", params)
        return msgspec.convert(told, SessionListResult).sessions

    async def history(
        self, session_id: str, **params: Any
    ) -> tuple[list[AgentEventParams], SessionHistoryResult]:
        """Return the replayed events and the summary of a session. `attach` follows a run that goes on.

        A run of this client that goes on in the session continues after the replay: leave out its events by `max_events`,
        and its loop misses them too.
        """
        replayed: dict[tuple[str, int], AgentEventParams] = {}
        self._replays.append(replayed)
        try:
            answer = await self.call("session.history", {"session_id": session_id, **params})
        finally:
            self._replays.remove(replayed)
        told = msgspec.convert(answer, SessionHistoryResult)
        for state in told.run_states:
            if state.status in ENDED:
                self._note(RunStatusParams(state.run_id, session_id, state.status, state.message))
        runs = {state.run_id for state in told.run_states}
        return [one for one in replayed.values() if one.run_id in runs], told

    async def attach(self, session_id: str, run_id: str) -> Run:
        """Follow a run that was started elsewhere, from its first event. Raises `ClientError` if the session has no such run."""
        if known := self._runs.get(run_id):
            return known
        run = self._runs[run_id] = Run(self._flow, self._cancel, run_id, session_id)
        is_there = False
        try:
            _, told = await self.history(session_id, max_events=MAX_EVENTS)
            is_there = any(state.run_id == run_id for state in told.run_states)
        finally:
            if not is_there:
                self._runs.pop(run_id, None)
        if not is_there:
            raise ClientError(RUN_NOT_FOUND, f"The run {run_id!r} is not among the newest of {session_id}.")
        return run

    async def _cancel(self, run_id: str, reason: str) -> None:
        await self.call("run.cancel", {"run_id": run_id, "reason": reason})

    async def call(self, method: str, params: Mapping[str, Any] | None = None) -> Any:
        """Make any request; `docs/rpc.md` lists them. Raises `ClientError` or `ServerLeft`."""
        return msgspec.json.decode((await self._request(method, params or {})).result)

    async def _request(self, method: str, params: Mapping[str, Any], *, starts: bool = False) -> _Frame:
        id = f"c{next(self._numbers)}" + ("!" if starts else "")
        self._waiting[id] = asked = asyncio.get_running_loop().create_future()
        try:
            await self._write({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
            with self._flow.wanted():
                frame = await asked
        finally:
            self._waiting.pop(id, None)
        if frame.error is not None:
            raise ClientError(frame.error.code, frame.error.message, frame.error.data)
        return frame

    async def _write(self, frame: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        async with self._writing:
            if self._has_left:
                raise ServerLeft("pilothouse rpc has ended.")
            try:
                self._process.stdin.write(msgspec.json.encode(frame) + b"\n")
                await self._process.stdin.drain()
            except (BrokenPipeError, ConnectionError) as error:
                raise ServerLeft("pilothouse rpc has ended.") from error

    async def _read(self) -> None:
        assert self._process.stdout is not None
        decoder = msgspec.json.Decoder(_Frame)
        try:
            while line := await self._process.stdout.readline():
                await self._take(decoder.decode(line))
        finally:
            await self._lose()

    async def _lose(self) -> None:
        self._has_left = True
        for asked in self._waiting.values():
            if not asked.done():
                asked.set_exception(ServerLeft("pilothouse rpc has ended."))
        for run in list(self._runs.values()):
            run.end("error", "pilothouse rpc has ended.")

    async def _take(self, frame: _Frame) -> None:
        if not frame.method:
            self._settle(frame)
        elif frame.id is not None:
            self._dialogs[frame.id] = asyncio.create_task(self._answer(frame))
        elif frame.method == "agent.event":
            told = msgspec.json.decode(frame.params, type=AgentEventParams)
            for replayed in self._replays:  # what came live just before is replayed once more, in its place
                replayed.pop((told.run_id, told.seq), None)
                replayed[told.run_id, told.seq] = told
            if run := self._runs.get(told.run_id):
                run.put(told.seq, told.event)
                await self._flow.hold(run)
        elif frame.method == "run.status":
            self._note(msgspec.json.decode(frame.params, type=RunStatusParams))
        elif frame.method == "ui.request.cancel":
            id = msgspec.json.decode(frame.params)["id"]
            if dialog := self._dialogs.pop(id, None):
                dialog.cancel()

    def _settle(self, frame: _Frame) -> None:
        """Give an answer to its caller. A started run is known before its first event is read."""
        if str(frame.id).endswith("!") and frame.error is None:
            told = msgspec.json.decode(frame.result, type=dict[str, str])
            self._runs[told["run_id"]] = Run(self._flow, self._cancel, told["run_id"], told["session_id"])
        asked = self._waiting.get(str(frame.id))
        if asked is not None and not asked.done():
            asked.set_result(frame)

    def _note(self, told: RunStatusParams) -> None:
        if run := self._runs.get(told.run_id):
            run.status, run.message = told.status, told.message
            if told.status in ENDED:
                self._runs.pop(told.run_id).end(told.status, told.message)

    async def _answer(self, frame: _Frame) -> None:
        try:
            result = await self._ask(frame)
            await self._write({"jsonrpc": "2.0", "id": frame.id, "result": result})
        except ServerLeft:
            pass
        except Exception as error:
            failure = {"code": -32000, "message": f"The dialog failed: {error!r}"}
            await self._write({"jsonrpc": "2.0", "id": frame.id, "error": failure})
            raise
        finally:
            self._dialogs.pop(frame.id, None)

    async def _ask(self, frame: _Frame) -> Struct | None:
        asked = self._handlers
        match frame.method:
            case "ui.confirm.request" if asked.confirm:
                return await asked.confirm(msgspec.json.decode(frame.params, type=UiConfirmParams))
            case "ui.pick.request" if asked.pick:
                return await asked.pick(msgspec.json.decode(frame.params, type=UiPickParams))
            case "ui.prompt.request" if asked.prompt:
                return await asked.prompt(msgspec.json.decode(frame.params, type=UiPromptParams))
            case "ui.clipboard.read" if asked.clipboard_read:
                return await asked.clipboard_read(msgspec.json.decode(frame.params, type=UiClipboardParams))
            case _:
                return None


@asynccontextmanager
async def open_client(
    *,
    workspace: str = ".",
    handlers: Handlers | None = None,
    command: Sequence[str] = (sys.executable, "-m", "pilothouse", "rpc"),
    environment: Mapping[str, str] | None = None,
    arguments: Sequence[str] = (),
) -> AsyncIterator[Client]:
    """Start `pilothouse rpc` in a folder, beside a running gateway or alone, and introduce ourselves."""
    process = await asyncio.create_subprocess_exec(
        *command,
        "--workspace",
        workspace,
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env=environment,
        limit=MAX_FRAME_BYTES,
    )
    handlers = handlers or Handlers()
    client = Client(process, handlers)
    reading = asyncio.create_task(client._read())
    able = {f"supports_{name}": getattr(handlers, name) is not None for name in Handlers.__struct_fields__}
    try:
        told = await client.call(
            "initialize",
            {
                "protocol_version": PROTOCOL_VERSION,
                "client": {"name": "pilothouse.client", "version": PROTOCOL_VERSION},
                "ui_capabilities": able,
            },
        )
        client.server = msgspec.convert(told, InitializeResult)
        yield client
    finally:
        with client._flow.wanted():
            await _close(process, reading)


async def _close(process: asyncio.subprocess.Process, reading: asyncio.Task[None]) -> None:
    assert process.stdin is not None
    process.stdin.close()
    try:
        await asyncio.wait_for(process.wait(), STOP_S)
    except TimeoutError:
        process.terminate()
        await process.wait()
    reading.cancel()
    with suppress(asyncio.CancelledError):
        await reading
