"""When what is sent: decides, and awaits nothing. Who uses it asks `next`, sends that, and says what became of it.

    ≤ 1 a second in a chat · ≤ 20 a minute in a group · ≤ 30 a second in all

Each chat has its own clock, so a hot one slows no other. Finals go first, in order, and none is ever dropped; a share
of every limit is kept for them. Of a view only the newest waits, and one that would change nothing is not sent.

A chat has one request on its way at a time, and a pause counts from when its answer came. Whatever the network does,
Telegram then sees at least that pause; counting from when a request began, two could arrive together.

Where whoever sends waits for its turn: the pacer decides, this waits.

    async with gate.turn(request) as turn:
        if turn.goes:
            …send; turn.refused(after_s) if Telegram wants a pause, turn.not_taken() if it took nothing

A view that a newer one replaced, or that would change nothing, does not go. A chat that must wait longer than
`patience_s` after a refusal is `TryLater` at once: whoever waits here holds up a place in the delivery.
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
"""What people wait for; a message that goes away; how a turn looks now. In this order."""

_ORDER: dict[Kind, int] = {"final": 0, "removal": 1, "view": 2}
ARRIVES_S = 10.0
"""So long a request may take to reach Telegram."""
REMEMBERED = 1000
"""How many chats without anything to do are remembered, for their last minute."""

PATIENCE_S = 5.0


class Limits(Struct, frozen=True):
    gap_s: float = 1.0
    group_view_gap_s: float = 3.0
    group_window_s: float = 60.0
    group_most: int = 20
    group_reserve: int = 3
    """How many of them only finals may use."""
    all_window_s: float = 1.0
    all_most: int = 30
    all_reserve: int = 5


class Request(Struct, frozen=True, eq=False):
    """`key` names what it changes: of several views with one key the newest counts. `body` tells two apart."""

    chat: Hashable
    kind: Kind
    key: Hashable = None
    body: Any = None
    group: bool = False


class _Chat(Struct):
    group: bool
    waiting: list[tuple[float, Request]] = field(default_factory=list)
    stamps: deque[float] = field(default_factory=deque)
    """When answers came, oldest first, as far back as a limit reaches."""
    view_at: float = float("-inf")
    blocked_until: float = float("-inf")
    busy: Request | None = None


class Pacer:
    def __init__(self, limits: Limits | None = None) -> None:
        self._limits = limits or Limits()
        self._chats: dict[Hashable, _Chat] = {}
        self._stamps: deque[float] = deque()
        self._flying: dict[Request, float] = {}
        """What is on its way, since when, oldest first."""
        self._shown: dict[Hashable, Any] = {}

    def offer(self, request: Request, now: float) -> Request | None:
        """Puts it in line. Returns the view that it replaces, or itself if it would change nothing."""
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
        """Takes it out of the line; false if it is on its way already, or was never there."""
        chat = self._chats.get(request.chat)
        before = len(chat.waiting) if chat else 0
        if chat:
            chat.waiting = [entry for entry in chat.waiting if entry[1] is not request]
        return chat is not None and len(chat.waiting) < before

    def forget(self, key: Hashable) -> list[Request]:
        """What `key` names is gone: its views that still wait are dropped."""
        self._shown.pop(key, None)
        dropped: list[Request] = []
        for chat in self._chats.values():
            gone = [request for _, request in chat.waiting if request.kind == "view" and request.key == key]
            chat.waiting = [entry for entry in chat.waiting if entry[1] not in gone]
            dropped += gone
        return dropped

    def next(self, now: float) -> Request | None:
        """The request to send now, if there is one. It is on its way until `done` or `refused` is called."""
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
        self._flying[request] = now
        return request

    def wake_at(self, now: float) -> float | None:
        """When `next` may have something; None if all that waits has to wait for an answer first."""
        firsts = ((chat, _first(chat)) for chat in self._chats.values())
        return min((self._ready_at(chat, first[1], now) for chat, first in firsts if first), default=None)

    def __len__(self) -> int:
        """How many chats it remembers."""
        return len(self._chats)

    def done(self, request: Request, now: float, *, shown: bool = True) -> None:
        """Its answer came. `shown` is false if the platform did not take it."""
        chat = self._land(request, now)
        if request.kind == "view":
            chat.view_at = now
            if shown:
                self._shown[request.key] = request.body
        elif request.kind == "removal":
            self._shown.pop(request.key, None)
        self._tidy(now)

    def refused(self, request: Request, after_s: float, now: float) -> bool:
        """Telegram wants a pause in this chat: exactly that long nothing goes there.

        The request keeps its place, and goes first. False if a newer view took its place meanwhile: then it is gone.
        """
        chat = self._land(request, now)
        chat.blocked_until = max(chat.blocked_until, now + after_s)
        newer = any(old.kind == "view" and old.key == request.key for _, old in chat.waiting)
        if request.kind == "view" and newer:
            return False
        chat.waiting.insert(0, (float("-inf"), request))
        return True

    def wait_s(self, chat: Hashable, now: float) -> float:
        """How long Telegram's last refusal still forbids anything in this chat."""
        found = self._chats.get(chat)
        return max(0.0, found.blocked_until - now) if found else 0.0

    def _land(self, request: Request, now: float) -> _Chat:
        chat = self._chats[request.chat]
        chat.busy = None
        chat.stamps.append(now)
        self._stamps.append(now)
        del self._flying[request]
        return chat

    def _is_shown(self, chat: _Chat, request: Request) -> bool:
        """Whether the platform shows it already; what is on its way now will be shown."""
        if chat.busy is not None and chat.busy.kind == "view" and chat.busy.key == request.key:
            return chat.busy.body == request.body
        return request.key in self._shown and self._shown[request.key] == request.body

    def _ready_at(self, chat: _Chat, request: Request, now: float) -> float:
        limits, is_final = self._limits, request.kind == "final"
        _drop_old(self._stamps, now - limits.all_window_s)
        _drop_old(chat.stamps, now - max(limits.group_window_s, limits.gap_s))
        times = [chat.blocked_until]
        if chat.stamps:
            times.append(chat.stamps[-1] + limits.gap_s)
        if chat.group:
            if request.kind == "view":
                times.append(chat.view_at + limits.group_view_gap_s)
            most = limits.group_most - (0 if is_final else limits.group_reserve)
            times.append(_free_at(chat.stamps, most, limits.group_window_s))
        times.append(self._free_for_all(limits.all_most - (0 if is_final else limits.all_reserve), now))
        return max(times)

    def _free_for_all(self, most: int, now: float) -> float:
        """What flies may arrive at any moment, and counts; what flew for long has arrived, and only its answer is slow."""
        landing = [ends for since in self._flying.values() if (ends := since + ARRIVES_S) > now]
        if len(landing) < most:
            return _free_at(self._stamps, most - len(landing), self._limits.all_window_s)
        return landing[len(landing) - most]

    def _tidy(self, now: float) -> None:
        """Chats that rest are forgotten once there are many of them, and with them what they show."""
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
    """What may go next in this chat: nothing while something is on its way."""
    if chat.busy is not None or not chat.waiting:
        return None
    return min(chat.waiting, key=lambda entry: (_ORDER[entry[1].kind], entry[0]))


def _drop_old(stamps: deque[float], until: float) -> None:
    while len(stamps) > 1 and stamps[0] <= until:
        stamps.popleft()


def _free_at(stamps: deque[float], most: int, window_s: float) -> float:
    """When fewer than `most` of the stamps are younger than the window."""
    return stamps[-most] + window_s if len(stamps) >= most else float("-inf")


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
