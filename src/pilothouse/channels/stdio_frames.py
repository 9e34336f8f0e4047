"""JSON-RPC 2.0 frames over two pipes, one per line: shared by the channels that a program of this machine drives.

Rules: a frame has a bound; a longer one is skipped to its end and reported, and the next one is read as usual. Nothing is
read ahead of what is handled. A write waits until the reader has room, so a client that stops reading stops us, and
costs no memory. The id of a request is sent back byte for byte.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable
from typing import Any

import anyio
import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from pilothouse.channels.request_errors import INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR
from pilothouse.processes.lines import Line, LineSplitter
from pilothouse.processes.pipes import PipeReader, PipeWriter

MAX_FRAME_BYTES = 64 * 1024 * 1024
BATCH_BYTES = 64 * 1024

NO_ID = Raw(b"null")


class Request(Struct, frozen=True):
    id: Raw
    method: str
    params: Raw


class Notification(Struct, frozen=True):
    method: str
    params: Raw


class Reply(Struct, frozen=True):
    """An answer to a request of ours. `error` is None if it succeeded."""

    id: str
    result: Raw
    error: Raw | None = None


class BadFrame(Struct, frozen=True):
    """A line that is no JSON-RPC message. It is answered with this code, to this id."""

    code: int
    text: str
    id: Raw = NO_ID


Frame = Request | Notification | Reply | BadFrame


class _Envelope(Struct):
    jsonrpc: Raw | UnsetType = UNSET
    id: Raw | UnsetType = UNSET
    method: Raw | UnsetType = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


_envelope = msgspec.json.Decoder(_Envelope)
NO_PARAMS = Raw(b"{}")


def parse_frame(line: Line, bound: int = MAX_FRAME_BYTES) -> Frame | None:
    """Parse one line. None for an empty line; anything that is no JSON-RPC message is a `BadFrame`."""
    if line.cut:
        size = len(line.data) + line.cut
        return BadFrame(PARSE_ERROR, f"The frame has {size} bytes; at most {bound} are read.")
    if not line.data.strip():
        return None
    try:
        line.data.decode()
        found = _envelope.decode(line.data)
    except UnicodeDecodeError as error:
        return BadFrame(PARSE_ERROR, f"The frame is not UTF-8: {error.reason} at byte {error.start}.")
    except msgspec.ValidationError:
        return BadFrame(INVALID_REQUEST, "A frame is one JSON object; batches are not supported.")
    except (msgspec.DecodeError, RecursionError) as error:
        return _find_id(line.data) or BadFrame(PARSE_ERROR, f"The frame is not JSON: {error}")
    try:
        return _read(found)
    except msgspec.DecodeError as error:  # such as a number that is too large
        return BadFrame(INVALID_REQUEST, f"A field of the frame cannot be read: {error}")


def _find_id(data: bytes) -> BadFrame | None:
    """Answer a request that only the standard library can read, such as one with half of a surrogate pair."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return None
    id = found.get("id") if isinstance(found, dict) and "method" in found else None
    if not isinstance(id, str | int) or isinstance(id, bool):
        return None
    text = "The parameters are wrong: a value cannot be read, such as a text with half of a surrogate pair."
    return BadFrame(INVALID_PARAMS, text, Raw(json.dumps(id).encode()))


def _read(found: _Envelope) -> Frame:
    id = found.id
    if id is not UNSET and bytes(id).lstrip()[:1] in (b"[", b"{", b"t", b"f"):
        return BadFrame(INVALID_REQUEST, "The id of a request is a string, a number or null.")
    if _decoded(found.jsonrpc) != "2.0":
        return BadFrame(INVALID_REQUEST, 'The field "jsonrpc" must be "2.0".', NO_ID if id is UNSET else id)
    if found.method is UNSET:
        return _read_reply(found)
    method = _decoded(found.method)
    if not isinstance(method, str):
        return BadFrame(INVALID_REQUEST, 'The field "method" must be a string.', NO_ID if id is UNSET else id)
    params = NO_PARAMS if found.params is UNSET or bytes(found.params) == b"null" else found.params
    if id is UNSET:
        return Notification(method, params)
    return Request(id, method, params)


def _read_reply(found: _Envelope) -> Frame:
    id = _decoded(found.id)
    if found.result is UNSET and found.error is UNSET:
        return BadFrame(INVALID_REQUEST, 'A frame needs a "method", a "result" or an "error".')
    if found.error is not UNSET:
        return Reply(str(id), Raw(b"null"), found.error)
    return Reply(str(id), Raw(b"null") if found.result is UNSET else found.result)


def _decoded(raw: Raw | UnsetType) -> Any:
    return None if raw is UNSET else msgspec.json.decode(raw)


class FrameReader:
    """Yields frames until the input ends. The last line counts although no newline follows it."""

    def __init__(self, pipe: PipeReader, max_bytes: int = MAX_FRAME_BYTES) -> None:
        self._pipe = pipe
        self._max = max_bytes

    async def __aiter__(self) -> AsyncIterator[Frame]:
        splitter = LineSplitter(self._max)
        while portion := await self._pipe.receive():
            for line in splitter.feed(portion):
                if frame := parse_frame(line, self._max):
                    yield frame
        for line in splitter.end():
            if frame := parse_frame(line, self._max):
                yield frame


class FrameWriter:
    """Writes whole frames, one after the other. Raises `BrokenPipeError` when the client is gone.

    The rest of a frame whose writer was cancelled is written before the next frame: a client never reads half of one."""

    def __init__(self, pipe: PipeWriter) -> None:
        self._pipe = pipe
        self._encoder = msgspec.json.Encoder()
        self._turn = anyio.Lock(fast_acquire=True)  # else each frame would wait for a round of the event loop
        self._rest = memoryview(b"")

    async def notify(self, method: str, params: Any) -> None:
        await self._write({"jsonrpc": "2.0", "method": method, "params": params})

    async def notify_all(self, method: str, params: Iterable[Any]) -> None:
        """Write many notifications, several at a time: a long history costs few system calls."""
        batch = bytearray()
        for one in params:
            batch += self._encoder.encode({"jsonrpc": "2.0", "method": method, "params": one}) + b"\n"
            if len(batch) >= BATCH_BYTES:
                await self._send(bytes(batch))
                batch.clear()
        if batch:
            await self._send(bytes(batch))

    async def request(self, id: str, method: str, params: Any) -> None:
        await self._write({"jsonrpc": "2.0", "id": id, "method": method, "params": params})

    async def answer(self, id: Raw, result: Any) -> None:
        await self._write({"jsonrpc": "2.0", "id": id, "result": result})

    async def fail(self, id: Raw, code: int, text: str, data: Any = None) -> None:
        error: dict[str, Any] = {"code": code, "message": text}
        if data is not None:
            error["data"] = data
        await self._write({"jsonrpc": "2.0", "id": id, "error": error})

    async def _write(self, frame: dict[str, Any]) -> None:
        await self._send(self._encoder.encode(frame) + b"\n")

    async def _send(self, data: bytes) -> None:
        async with self._turn:
            await self._flush()
            self._rest = memoryview(data)
            await self._flush()

    async def _flush(self) -> None:
        while self._rest:
            self._rest = self._rest[await self._pipe.write_some(self._rest) :]
