"""One session's end of a link: its mailbox, the replies to what it asked, and where its running turn stands."""

from __future__ import annotations

import anyio

from pilothouse.engines.script import wire
from pilothouse.engines.script.mailbox import Mailbox
from pilothouse.engines.script.translate import Exit


class Port:
    """`over` is set once the running turn's end has arrived, read or not."""

    def __init__(self, session: str) -> None:
        self.session = session
        self.mailbox = Mailbox()
        self.turn = 0
        self.over = anyio.Event()
        self._sink, self._replies = anyio.create_memory_object_stream[
            wire.Opened | wire.Refused | wire.Steered
        ](8)

    @property
    def busy(self) -> bool:
        return self.turn > 0 and not self.over.is_set()

    def begin(self) -> int:
        self.turn += 1
        self.mailbox = Mailbox()
        self.over = anyio.Event()
        return self.turn

    def reply(self, heard: wire.Opened | wire.Refused | wire.Steered) -> None:
        try:
            self._sink.send_nowait(heard)
        except (anyio.WouldBlock, anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # nobody asked for it

    async def await_reply(self) -> wire.Opened | wire.Refused | wire.Steered | None:
        """The next reply; None when none can come any more."""
        try:
            return await self._replies.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            return None

    def drop_replies(self) -> None:
        """Late replies to something that was given up must not answer what is asked next."""
        while self._replies.statistics().current_buffer_used:
            self._replies.receive_nowait()

    def close(self, last: Exit) -> None:
        self.mailbox.close(last)
        self.over.set()
        self._sink.close()

    def free(self) -> None:
        self.mailbox.discard()
        self.over.set()
        self._sink.close()
        self._replies.close()
