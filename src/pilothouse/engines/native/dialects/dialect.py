"""The interface of a dialect, and what all of them share. Pure.

A reader is fed the decoded objects of one stream, in order. `done` is true once the vendor said that the reply is whole: a
stream that ends before gives no reply, and the request may be made again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol

import msgspec
from msgspec import Struct

from pilothouse.engines.native.messages import (
    ApiError,
    Block,
    Message,
    ModelCall,
    Piece,
    Replied,
    Result,
    Said,
    Tokens,
    Use,
)

Object = dict[str, Any]
Stop = Literal["end", "length", "refused", "paused"]
"""`paused`: the provider wants the same conversation once more, to go on with its own tools."""


class Reply(Struct, frozen=True):
    blocks: tuple[Block, ...]
    tokens: Tokens
    stop: Stop = "end"


class StreamReader(Protocol):
    done: bool
    error: ApiError | None

    def feed(self, data: Object) -> Sequence[Piece]: ...

    def reply(self) -> Reply:
        """Return what came so far; the whole reply once `done` is true."""
        ...


class Dialect(Protocol):
    name: str
    path: str
    """Follows the base URL."""
    has_search: bool
    """The provider can search the web itself."""

    def headers(self, key: str) -> Mapping[str, str]: ...

    def request(self, call: ModelCall) -> Object: ...

    def reader(self) -> StreamReader: ...


def grouped(messages: Iterable[Message]) -> Iterator[Said | Replied | list[Result]]:
    """Yield the messages with the results of one reply together, in the order of its calls.

    A call without a result, and a result without its call, cannot come from a `Conversation`; both are left out."""
    uses: list[str] = []
    results: dict[str, Result] = {}
    for message in messages:
        if isinstance(message, Result):
            results[message.use_id] = message
            continue
        if uses:
            yield [results[id] for id in uses if id in results]
        uses, results = list[str](), dict[str, Result]()
        yield message
        if isinstance(message, Replied):
            uses = [use.id for use in message.uses]
    if uses:
        yield [results[id] for id in uses if id in results]


def parse_arguments(raw: str) -> tuple[Object, str]:
    """Return the arguments of a call; or nothing, and the text that is not a JSON object."""
    if not raw.strip():
        return {}, ""
    try:
        given = msgspec.json.decode(raw)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return {}, raw
    return (given, "") if isinstance(given, dict) else ({}, raw)


def make_use(id: str, name: str, raw: str) -> Use:
    given, broken = parse_arguments(raw)
    return Use(id, name, given, broken)


def as_dict(value: Any) -> Object:
    return value if isinstance(value, dict) else {}


def as_text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def as_count(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 0


def read_error(status: int, value: Any) -> ApiError:
    """Read the `error` of a body: an object with `type`, `code` and `message`, or a text."""
    error = as_dict(value).get("error", value)
    if isinstance(error, str):
        return ApiError(status, "", error)
    told = as_dict(error)
    code = next((str(told[key]) for key in ("code", "type") if told.get(key) not in (None, "")), "")
    kind = as_text(told.get("type"))
    return ApiError(status, f"{code} {kind}".strip() if kind != code else code, as_text(told.get("message")))
