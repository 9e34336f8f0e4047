"""One session's end of a link: its mailbox, the replies to what it asked, and where its running turn stands."""

from __future__ import annotations

from collections import deque

import anyio

from pilothouse.engines.script import wire
from pilothouse.engines.script.mailbox import Mailbox
from pilothouse.engines.script.translate import Exit

MOST_REPLIES = 8
"""To what nobody asked for; a process may write as many as it likes."""

Reply = wire.Opened | wire.Refused | wire.Steered


class Port:
    """`over` is set once the running turn's end has arrived, read or not. One at a time waits for a reply."""

    def __init__(self, session: str) -> None:
        self.session = session
        self.mailbox = Mailbox()
        self.turn = 0
        self.over = anyio.Event()
        self._replies: deque[Reply] = deque()
        self._replied: anyio.Event | None = None
        self._closed = False

    @property
    def busy(self) -> bool:
        return self.turn > 0 and not self.over.is_set()

    def begin(self) -> int:
        self.turn += 1
        self.mailbox.discard()  # whoever waits for room in it waits for nobody
        self.mailbox = Mailbox()
        self.over = anyio.Event()
        return self.turn

    def reply(self, heard: Reply) -> None:
        if not self._closed and len(self._replies) < MOST_REPLIES:
            self._replies.append(heard)
            self._wake()

    async def await_reply(self) -> Reply | None:
        """The next reply; None when none can come any more."""
        while not self._replies and not self._closed:
            self._replied = anyio.Event()
            await self._replied.wait()
        return self._replies.popleft() if self._replies else None

    def drop_replies(self) -> None:
        """Late replies to something that was given up must not answer what is asked next."""
        self._replies.clear()

    def close(self, last: Exit) -> None:
        self.mailbox.close(last)
        self.over.set()
        self._shut()

    def free(self) -> None:
        self.mailbox.discard()
        self.over.set()
        self._shut()

    def _shut(self) -> None:
        self._closed = True
        self._wake()

    def _wake(self) -> None:
        replied, self._replied = self._replied, None
        if replied is not None:
            replied.set()
