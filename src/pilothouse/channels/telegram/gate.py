"""Where whoever sends waits for its turn: the pacer decides, this waits.

    async with gate.turn(request) as turn:
        if turn.goes:
            …send; turn.refused(after_s) if Telegram wants a pause, turn.not_taken() if it took nothing

A view that a newer one replaced, or that would change nothing, does not go. A chat that must wait longer than
`patience_s` after a refusal is `TryLater` at once: whoever waits here holds up a place in the delivery.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager

import anyio

from pilothouse.channels.telegram.pacing import Pacer, Request
from pilothouse.core.clock import Clock
from pilothouse.core.errors import TryLater

PATIENCE_S = 5.0


class Turn:
    """`goes` says whether to send; what became of it is told here, and counts when the block is left."""

    def __init__(self, goes: bool) -> None:
        self.goes = goes
        self.after_s: float | None = None
        self.shown = True

    def refused(self, after_s: float) -> None:
        self.after_s = after_s

    def not_taken(self) -> None:
        self.shown = False


class Gate:
    def __init__(self, clock: Clock, pacer: Pacer | None = None, patience_s: float = PATIENCE_S) -> None:
        self._clock = clock
        self._pacer = pacer or Pacer()
        self._patience_s = patience_s
        self._waiting: set[Request] = set()
        self._dropped: set[Request] = set()
        self._news = anyio.Event()

    @asynccontextmanager
    async def turn(self, request: Request) -> AsyncIterator[Turn]:
        wait_s = self.pause_s(request.chat)
        if wait_s > self._patience_s:
            raise TryLater(wait_s, f"Telegram asks for a pause of {wait_s:.0f} s in this chat")
        turn = Turn(goes=await self._may_go(request))
        if not turn.goes:
            yield turn
            return
        try:
            yield turn
        except BaseException:
            turn.not_taken()
            raise
        finally:
            self._leave(request, turn)

    def pause_s(self, chat: Hashable) -> float:
        """How long Telegram wants nothing in this chat."""
        return self._pacer.wait_s(chat, self._clock.monotonic())

    def forget(self, key: Hashable) -> None:
        """The message that `key` names is gone, or about to be: what waits to change it does not go any more."""
        for request in self._pacer.forget(key):
            self._drop(request)
        self._tell()

    async def _may_go(self, request: Request) -> bool:
        """Waits; true once it may be sent, false if it shall not be."""
        self._waiting.add(request)
        if replaced := self._pacer.offer(request, self._clock.monotonic()):
            self._drop(replaced)
        self._admit()
        try:
            while request in self._waiting:
                await self._pause()
                self._admit()
        except BaseException:
            self._give_up(request)
            raise
        if request in self._dropped:
            self._dropped.discard(request)
            return False
        return True

    async def _pause(self) -> None:
        """Until something changed, or the pacer may let somebody through."""
        news, now = self._news, self._clock.monotonic()
        at = self._pacer.wake_at(now)
        if at is None:
            await news.wait()
            return

        async def wake(scope: anyio.CancelScope) -> None:
            await news.wait()
            scope.cancel()

        async with anyio.create_task_group() as group:
            group.start_soon(wake, group.cancel_scope)
            await self._clock.sleep(max(0.0, at - now))
            group.cancel_scope.cancel()

    def _admit(self) -> None:
        admitted = False
        while (request := self._pacer.next(self._clock.monotonic())) is not None:
            self._waiting.discard(request)
            admitted = True
        if admitted:
            self._tell()

    def _leave(self, request: Request, turn: Turn) -> None:
        now = self._clock.monotonic()
        if turn.after_s is None:
            self._pacer.done(request, now, shown=turn.shown)
        else:
            # Whoever sends comes again by itself.
            self._pacer.refused(request, turn.after_s, now)
            self._pacer.withdraw(request)
        self._admit()
        self._tell()

    def _give_up(self, request: Request) -> None:
        """Cancelled while it waited, or in the moment when it was let through."""
        if request in self._dropped:
            self._dropped.discard(request)
        elif request in self._waiting:
            self._waiting.discard(request)
            self._pacer.withdraw(request)
        else:
            self._pacer.done(request, self._clock.monotonic(), shown=False)
            self._admit()
        self._tell()

    def _drop(self, request: Request) -> None:
        self._waiting.discard(request)
        self._dropped.add(request)

    def _tell(self) -> None:
        """Wakes all that wait: what they wait for may have moved."""
        self._news.set()
        self._news = anyio.Event()
