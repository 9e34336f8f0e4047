"""Decides when each request may be sent (`Pacer`, which awaits nothing), and waits for that moment (`Gate`).

    ≤ 1 a second in a chat · ≤ 20 a minute in a group · ≤ 30 a second in all

Each chat has its own limit, so a busy one slows no other. Finals go first, in order, are never dropped, and have a
share of every limit reserved. A final waits a second after another final, but not after a view: people wait for it, and
Telegram accepts such a pair. Of several views of one message only the newest waits, and one that changes nothing is
not sent. A chat has one request in flight, and its pause counts from the answer: whatever the network does,
Telegram sees at least that pause.

    async with gate.slot(request) as slot:
        if slot.may_send:
            …send; slot.refused(after_s) if Telegram asks for a pause, slot.not_taken() if it failed
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from typing import Any, Literal

import anyio
from msgspec import Struct, field

from pilothouse.core.clock import Clock
from pilothouse.core.errors import TryLater

Kind = Literal["final", "removal", "view"]
"""A message that people wait for, a deletion, the progress of a turn: in this order."""
_ORDER: dict[Kind, int] = {"final": 0, "removal": 1, "view": 2}
ARRIVES_S = 10.0
"""Longest time that a request may take to reach Telegram."""
REMEMBERED = 1000
"""Idle chats that are remembered, for their last minute."""
PATIENCE_S = 5.0
"""A chat that Telegram paused for longer raises `TryLater`, so that the caller is not blocked."""


class Limits(Struct, frozen=True):
    gap_s: float = 1.0
    group_view_gap_s: float = 3.0
    group_window_s: float = 60.0
    group_most: int = 20
    group_reserve: int = 3
    """The share of `group_most` that is reserved for finals."""
    all_window_s: float = 1.0
    all_most: int = 30
    all_reserve: int = 5


class Request(Struct, frozen=True, eq=False):
    """`key` names the message that changes: of several views with one key only the newest waits. `body` is its content."""

    chat: Hashable
    kind: Kind
    key: Hashable = None
    body: Any = None
    group: bool = False


class _Chat(Struct):
    group: bool
    waiting: list[tuple[float, Request]] = field(default_factory=list)
    stamps: deque[float] = field(default_factory=deque)
    """Times of answers, oldest first, as far back as a limit reaches."""
    view_at: float = float("-inf")
    final_at: float = float("-inf")
    blocked_until: float = float("-inf")
    busy: Request | None = None


class Pacer:
    def __init__(self, limits: Limits | None = None) -> None:
        self._limits = limits or Limits()
        self._chats: dict[Hashable, _Chat] = {}
        self._stamps: deque[float] = deque()
        self._in_flight: dict[Request, float] = {}
        """Requests without an answer and when they were sent, oldest first."""
        self._shown: dict[Hashable, Any] = {}

    def offer(self, request: Request, now: float) -> Request | None:
        """Queue a request. Return the view that it replaces, or the request itself if it would change nothing."""
        chat = self._chats.setdefault(request.chat, _Chat(request.group))
        if request.kind != "view":
            chat.waiting.append((now, request))
            return None
        for index, (since, old) in enumerate(chat.waiting):
            if old.kind == "view" and old.key == request.key:
                chat.waiting[index] = (since, request)
                return old
        if self._is_shown(chat, request):
            return request
        chat.waiting.append((now, request))
        return None

    def withdraw(self, request: Request) -> bool:
        """Remove a queued request; false if it is in flight or unknown."""
        chat = self._chats.get(request.chat)
        before = len(chat.waiting) if chat else 0
        if chat:
            chat.waiting = [entry for entry in chat.waiting if entry[1] is not request]
        return chat is not None and len(chat.waiting) < before

    def forget(self, key: Hashable) -> list[Request]:
        """Drop queued views of a message that was deleted; return them."""
        self._shown.pop(key, None)
        dropped: list[Request] = []
        for chat in self._chats.values():
            stale = [request for _, request in chat.waiting if request.kind == "view" and request.key == key]
            chat.waiting = [entry for entry in chat.waiting if entry[1] not in stale]
            dropped += stale
        return dropped

    def next(self, now: float) -> Request | None:
        """Return the request to send now, if any. It is in flight until `done` or `refused` is called."""
        ready = [
            (_ORDER[first[1].kind], first[0], number, chat, first[1])
            for number, chat in enumerate(self._chats.values())
            if (first := _first(chat)) and self._ready_at(chat, first[1], now) <= now
        ]
        if not ready:
            return None
        *_, chat, request = min(ready)
        chat.waiting = [entry for entry in chat.waiting if entry[1] is not request]
        chat.busy = request
        self._in_flight[request] = now
        return request

    def wake_at(self, now: float) -> float | None:
        """Return when `next` may have a request; None if all of them wait for an answer first."""
        firsts = ((chat, _first(chat)) for chat in self._chats.values())
        return min((self._ready_at(chat, first[1], now) for chat, first in firsts if first), default=None)

    def __len__(self) -> int:
        return len(self._chats)

    def done(self, request: Request, now: float, *, shown: bool = True) -> None:
        """Record an answer. `shown` is false if Telegram did not accept the request."""
        chat = self._finish(request, now)
        if request.kind == "view":
            chat.view_at = now
            if shown:
                self._shown[request.key] = request.body
        elif request.kind == "removal":
            self._shown.pop(request.key, None)
        self._tidy(now)

    def refused(self, request: Request, after_s: float, now: float) -> bool:
        """Pause the chat for exactly `after_s`, and put the request first in its queue.

        Return false, and drop the request, if a newer view has replaced it.
        """
        chat = self._finish(request, now)
        chat.blocked_until = max(chat.blocked_until, now + after_s)
        newer = any(old.kind == "view" and old.key == request.key for _, old in chat.waiting)
        if request.kind == "view" and newer:
            return False
        chat.waiting.insert(0, (float("-inf"), request))
        return True

    def wait_s(self, chat: Hashable, now: float) -> float:
        """Return how long the chat is still paused."""
        found = self._chats.get(chat)
        return max(0.0, found.blocked_until - now) if found else 0.0

    def _finish(self, request: Request, now: float) -> _Chat:
        chat = self._chats[request.chat]
        chat.busy = None
        chat.stamps.append(now)
        if request.kind == "final":
            chat.final_at = now
        self._stamps.append(now)
        del self._in_flight[request]
        return chat

    def _is_shown(self, chat: _Chat, request: Request) -> bool:
        """Tell whether Telegram shows this view, or will once the request in flight arrives."""
        if chat.busy is not None and chat.busy.kind == "view" and chat.busy.key == request.key:
            return chat.busy.body == request.body
        return request.key in self._shown and self._shown[request.key] == request.body

    def _ready_at(self, chat: _Chat, request: Request, now: float) -> float:
        limits, is_final = self._limits, request.kind == "final"
        _drop_old(self._stamps, now - limits.all_window_s)
        _drop_old(chat.stamps, now - max(limits.group_window_s, limits.gap_s))
        times = [chat.blocked_until]
        if chat.stamps:
            times.append((chat.final_at if is_final else chat.stamps[-1]) + limits.gap_s)
        if chat.group:
            if request.kind == "view":
                times.append(chat.view_at + limits.group_view_gap_s)
            most = limits.group_most - (0 if is_final else limits.group_reserve)
            times.append(_free_at(chat.stamps, most, limits.group_window_s))
        times.append(self._free_for_all(limits.all_most - (0 if is_final else limits.all_reserve), now))
        return max(times)

    def _free_for_all(self, most: int, now: float) -> float:
        """Return when the overall limit has room. Requests in flight count, since they may arrive at any moment, until
        `ARRIVES_S`: after that they have arrived, and only the answer is slow."""
        landing = [ends for since in self._in_flight.values() if (ends := since + ARRIVES_S) > now]
        if len(landing) < most:
            return _free_at(self._stamps, most - len(landing), self._limits.all_window_s)
        return landing[len(landing) - most]

    def _tidy(self, now: float) -> None:
        """Forget idle chats once there are many."""
        if len(self._chats) <= REMEMBERED:
            return
        old = now - max(self._limits.group_window_s, self._limits.gap_s)
        resting = [
            id
            for id, chat in self._chats.items()
            if not chat.waiting
            and chat.busy is None
            and chat.blocked_until <= now
            and (not chat.stamps or chat.stamps[-1] <= old)
        ]
        for id in resting:
            del self._chats[id]
        if len(self._shown) > REMEMBERED * 4:
            self._shown.clear()


def _first(chat: _Chat) -> tuple[float, Request] | None:
    """Return the chat's next request; None while one is in flight."""
    if chat.busy is not None or not chat.waiting:
        return None
    return min(chat.waiting, key=lambda entry: (_ORDER[entry[1].kind], entry[0]))


def _drop_old(stamps: deque[float], until: float) -> None:
    while len(stamps) > 1 and stamps[0] <= until:
        stamps.popleft()


def _free_at(stamps: deque[float], most: int, window_s: float) -> float:
    """Return when fewer than `most` stamps are within the window."""
    return stamps[-most] + window_s if len(stamps) >= most else float("-inf")


class Slot:
    """One request's permission to send. Its result is recorded when the block ends."""

    def __init__(self, may_send: bool) -> None:
        self.may_send = may_send
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
    async def slot(self, request: Request) -> AsyncIterator[Slot]:
        wait_s = self.pause_s(request.chat)
        if wait_s > self._patience_s:
            raise TryLater(wait_s, f"Telegram asks for a pause of {wait_s:.0f} s in this chat")
        slot = Slot(may_send=await self._may_go(request))
        if not slot.may_send:
            yield slot
            return
        try:
            yield slot
        except BaseException:
            slot.not_taken()
            raise
        finally:
            self._leave(request, slot)

    def pause_s(self, chat: Hashable) -> float:
        """Return how long the chat is still paused."""
        return self._pacer.wait_s(chat, self._clock.monotonic())

    def forget(self, key: Hashable) -> None:
        """Drop queued views of a message that is deleted, or about to be."""
        for request in self._pacer.forget(key):
            self._drop(request)
        self._tell()

    async def _may_go(self, request: Request) -> bool:
        """Wait until the request may be sent; false if it was dropped."""
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
        """Wait until the queue changes, or the pacer may have a request."""
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

    def _leave(self, request: Request, slot: Slot) -> None:
        now = self._clock.monotonic()
        if slot.after_s is None:
            self._pacer.done(request, now, shown=slot.shown)
        else:
            # The caller retries.
            self._pacer.refused(request, slot.after_s, now)
            self._pacer.withdraw(request)
        self._admit()
        self._tell()

    def _give_up(self, request: Request) -> None:
        """Clean up a request that was cancelled while it waited, or just as it was admitted."""
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
        """Wake every waiting request to look again."""
        self._news.set()
        self._news = anyio.Event()
