"""A stream that keeps nothing back.

asyncio reads as much as there is, and anyio hands out as much as was asked for; TLS asks for 64 KiB. The rest waits between
the two, where no look at the socket finds it: what nobody asked for would be the answer to the next request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from anyio.abc import ByteStream

if TYPE_CHECKING:
    from typing_extensions import override
else:

    def override(method):
        return method


_ALL = 1 << 30
"""More than asyncio ever reads at once, which is a quarter of a megabyte."""


class Whole(ByteStream):
    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream

    @override
    async def receive(self, max_bytes: int = _ALL) -> bytes:
        """All that was read, however little was asked for."""
        return await self._stream.receive(_ALL)

    @override
    async def send(self, item: bytes) -> None:
        await self._stream.send(item)

    @override
    async def send_eof(self) -> None:
        await self._stream.send_eof()

    @override
    async def aclose(self) -> None:
        await self._stream.aclose()

    @property
    @override
    def extra_attributes(self) -> Mapping[Any, Callable[[], Any]]:
        return self._stream.extra_attributes
