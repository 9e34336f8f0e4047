"""JSON-RPC 2.0, one message per line: frames, and a link that matches replies to our requests.

Both sides number their own requests, so the numbers collide: a line with a `method` is the program's own, any other is a
reply. A line that is not JSON is `Noise`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from itertools import count
from typing import Any, TypeVar

import anyio
import msgspec
from msgspec import Raw, Struct

from pilothouse.core.outcome import Failure
from pilothouse.engines.lenient_json import read_fields, repair_surrogates
from pilothouse.engines.link import Exit, Item, Link, LinkPlan
from pilothouse.engines.mailbox import Join

NOISE_BYTES = 1024
NOT_FOUND = -32601

RequestId = int | str
T = TypeVar("T")
S = TypeVar("S", bound=Struct)


class WireError(Struct, frozen=True):
    message: str = ""
    code: int = 0
    data: Any = None


class Reply(Struct, frozen=True):
    """The answer to one of our requests."""

    id: RequestId
    result: dict[str, Any] = {}
    error: WireError | None = None


class Request(Struct, frozen=True):
    """A request of the program, which must be answered."""

    id: RequestId
    method: str
    params: dict[str, Any]


class Noise(Struct, frozen=True):
    """The beginning of a line that is no message, and the number of such lines."""

    raw: bytes
    lines: int = 1


class Frame(Struct, frozen=True):
    """A line whose parts are not read yet."""

    method: str = ""
    id: RequestId | None = None
    params: Raw = Raw(b"{}")
    result: Raw = Raw(b"{}")
    error: Raw = Raw(b"null")

    def read_reply(self) -> Reply:
        result, error = msgspec.json.decode(self.result), msgspec.json.decode(self.error)
        told = read_fields(error, WireError)[0] if isinstance(error, dict) else None
        return Reply(self.id or 0, result if isinstance(result, dict) else {}, told)

    def read_params(self) -> dict[str, Any]:
        params = msgspec.json.decode(self.params)
        return params if isinstance(params, dict) else {}

    def convert(self, kind: type[S]) -> S | None:
        """Read the parameters; where one has another shape than expected, read the others."""
        try:
            return msgspec.json.decode(self.params, type=kind)
        except msgspec.ValidationError:
            return read_fields(self.read_params(), kind)[0]


_frame = msgspec.json.Decoder(Frame)
_encoder = msgspec.json.Encoder()
_FAULTS = (msgspec.MsgspecError, UnicodeError, RecursionError)


def decode_line(line: bytes, read: Callable[[Frame], T]) -> T | Noise:
    """Decode any line; never raises."""
    try:
        return read(_frame.decode(line))
    except _FAULTS:
        repaired = repair_surrogates(line)
        return decode_line(repaired, read) if repaired != line else Noise(line[:NOISE_BYTES])


def encode_message(head: Mapping[str, Any], **parts: Any) -> bytes:
    return _encoder.encode({**head, **parts})


class _Waiter:
    def __init__(self, when: When | None) -> None:
        self.when = when
        self.done = anyio.Event()
        self.reply: Reply | None = None


When = Callable[[Reply], None]


class RpcLink(Link[Item, None]):
    """A link whose program is called `program` in sentences. `head` is a part of every message that we send.

    The greeting of the plan is request 0.
    """

    def __init__(
        self,
        plan: LinkPlan,
        join: Join[Item | Exit | Failure],
        *,
        program: str,
        head: Mapping[str, Any],
        ended: WireError,
    ) -> None:
        super().__init__(plan, join)
        self._program = program
        self._head = head
        self._ended = ended
        """The error of a request whose process has ended."""
        self._numbers = count(1)
        self._waiting: dict[RequestId, _Waiter] = {}

    @abstractmethod
    def _take_greeting(self, reply: Reply) -> Awaitable[None] | None:
        """Take the reply to the greeting, which is no error."""

    async def request(
        self, method: str, params: dict[str, Any], within_s: float, when: When | None = None
    ) -> Reply:
        """Send a request and return the reply. `when` is called with it before any later line is read."""
        id, waiter = self.number(), _Waiter(when)
        self._waiting[id] = waiter
        try:
            await self._write(self._message(id=id, method=method, params=params), within_s)
            if self.alive:
                with anyio.move_on_after(within_s):
                    await waiter.done.wait()
        finally:
            self._waiting.pop(id, None)
        late = WireError(f"{self._program} did not answer {method} within {within_s:g} s")
        return waiter.reply or Reply(id, error=late if self.alive else self._ended)

    async def send(self, method: str, params: dict[str, Any], id: RequestId | None = None) -> None:
        """Send a request without waiting for its reply. `id` is one of `number`, for a caller that looks out for the reply."""
        id = self.number() if id is None else id
        await self._write(self._message(id=id, method=method, params=params), self._plan.grace_s)

    def number(self) -> int:
        """Return the number of the next request."""
        return next(self._numbers)

    async def notify(self, method: str, params: dict[str, Any] | None = None) -> None:
        given = {} if params is None else {"params": params}
        await self._write(self._message(method=method, **given), self._plan.grace_s)

    async def answer(self, request: Request, result: dict[str, Any]) -> None:
        await self._write(self._message(id=request.id, result=result), self._plan.open_s)

    async def answer_error(self, request: Request, why: str) -> None:
        await self._write(
            self._message(id=request.id, error={"code": NOT_FOUND, "message": why}), self._plan.open_s
        )

    def _settle(self, reply: Reply) -> Awaitable[None] | None:
        """Give a reply to the task that waits for it."""
        if reply.id == 0:
            return self._settle_greeting(reply)
        waiter = self._waiting.pop(reply.id, None)
        if waiter is None:
            return None
        waiter.reply = reply
        if waiter.when is not None:
            waiter.when(reply)
        waiter.done.set()
        return None

    def _settle_greeting(self, reply: Reply) -> Awaitable[None] | None:
        if reply.error is not None:
            words = f"{self._program} did not start: {reply.error.message[:300]}"
            self.condemn(Failure("bad_request", words[:1].upper() + words[1:]))
            return None
        return self._take_greeting(reply)

    def _message(self, **parts: Any) -> bytes:
        return encode_message(self._head, **parts)

    def _close(self, last: Exit) -> None:  # pyrefly: ignore[missing-override-decorator]
        super()._close(last)
        for waiter in self._waiting.values():
            waiter.done.set()
