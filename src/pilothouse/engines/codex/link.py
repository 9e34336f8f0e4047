"""The app-server's protocol on a shared process: greeting, requests and their replies, routing of lines to threads.

A request of the server that no running turn can answer is answered with a "no" at once: it would wait for ever otherwise.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
from msgspec import Struct

from pilothouse.core.ids import SessionId
from pilothouse.core.outcome import Failure
from pilothouse.engines.codex import wire
from pilothouse.engines.codex.asks import is_known, needs_item, no_answer
from pilothouse.engines.codex.server import Server, open_server
from pilothouse.engines.codex.thread_list import RunningTurn, is_active, read_running, thread_of, turns_params
from pilothouse.engines.codex.woken import OTHER_CLIENT, RESTART, SessionPairs
from pilothouse.engines.jsonrpc import RpcLink, encode_message
from pilothouse.engines.link import Exit, LinkPlan, Port
from pilothouse.processes import Line
from pilothouse.processes.kept import Kept

GREETING = encode_message(
    {},
    id=0,
    method="initialize",
    params={
        "clientInfo": {"name": "pilothouse", "title": "Pilothouse", "version": "1"},
        "capabilities": {"experimentalApi": True},
    },
)
NOT_HERE = "Pilothouse does not answer this."
MAX_KEPT = 32
ENDED = wire.WireError("the app-server has ended")
IN_USE = wire.WireError("another session here is an active writer of the thread")

CodexPort = Port[wire.Heard, None]
Mail = wire.Heard | Exit | Failure


class _Thread(Struct, frozen=True):
    """An open thread: what it was opened with, and until when it is kept."""

    id: str
    params: dict[str, Any]
    reply: wire.Reply
    owner: str
    """The session that it was opened for."""
    until: float = 0.0
    readable: bool = True
    """False if its running turn waits for an answer to a request that is not understood."""


class WokenThread(Struct, frozen=True):
    """A running turn that nobody here started, with the port that collects it."""

    link: CodexLink
    port: CodexPort
    owner: SessionId
    session: str
    """The thread."""
    wake_source: str


Wakes = Callable[[WokenThread], Callable[[], None]]
"""Announces such a turn; returns the function to call when a session reads it."""


class CodexLink(RpcLink[wire.Heard]):
    """Threads that no session uses stay open for `keep_s`."""

    def __init__(
        self, plan: LinkPlan, keep_s: float, folder: Path, wakes: Wakes, found: Kept | None = None
    ) -> None:
        super().__init__(plan, join_items, program="Codex", head={}, ended=ENDED)
        self._keep_s = keep_s
        self._folder = folder
        self._wakes = wakes
        self._pairs = SessionPairs(folder / "sessions.json")
        self._woken: dict[str, tuple[CodexPort, Callable[[], None]]] = {}
        """Running turns that no session reads yet, by thread; the function notes that one does."""
        self.found = found
        """The server of an earlier gateway that this link adopts, if any."""
        self._server: Server | None = None
        self.limits: wire.RateLimits | None = None
        """The account's limits, as they were reported last."""
        self._threads: dict[str, CodexPort] = {}
        """The port of each thread, and of the sub-agents' threads that it started."""
        self._own: dict[str, _Thread] = {}
        """The thread of each session."""
        self._kept: dict[str, _Thread] = {}
        """Open threads that no session uses, by the time of their last use."""
        self._changed = anyio.Event()
        self._closing: dict[str, anyio.Event] = {}
        self._stopping: set[str] = set()
        """Threads whose turn is to be stopped."""
        self._turns: dict[str, str] = {}
        """The running turn of each thread."""
        self._opening: dict[str, list[wire.ServerRequest]] = {}
        """Threads that are being opened, and the requests of their running turns: Codex sends them before its reply."""
        self._watched: dict[str, anyio.Event] = {}
        """Threads that `_watch` opens now. A session waits, and then takes over the turn that was found."""

    @asynccontextmanager
    async def _open(self) -> AsyncGenerator[Server, None]:  # pyrefly: ignore[missing-override-decorator]
        async with open_server(self._plan, self._folder, self.found) as server:
            self._server = server
            yield server

    def _mark_busy(self) -> None:
        """Let the server outlive the gateway while a turn runs."""
        if self._server is not None:
            self._server.mark_busy(busy=any(port.busy for port in self._ports.values()))

    async def refuse(self, request: wire.ServerRequest) -> None:
        """Say no to a request; one that is not understood gets an error."""
        if is_known(request):
            await self.answer(request, no_answer(request))
        else:
            await self.answer_error(request, NOT_HERE)

    async def fork_thread(
        self, port: CodexPort, thread: str, last_turn: str, params: dict[str, Any]
    ) -> wire.Reply:
        """Start a thread that has the turns of another one up to a turn."""
        named = {"threadId": thread, "lastTurnId": last_turn, "excludeTurns": True}
        return await self.request(
            "thread/fork",
            {**params, **named},
            self._plan.open_s,
            lambda reply: self._bind(port, reply, params),
        )

    async def open_thread(self, port: CodexPort, thread: str, params: dict[str, Any]) -> wire.Reply:
        """Start a thread, or open the given one. One that is still open with the same parameters is taken as it is."""
        if (watched := self._watched.get(thread)) is not None:
            await watched.wait()
        return await self._open_thread(port, thread, params)

    async def _open_thread(self, port: CodexPort, thread: str, params: dict[str, Any]) -> wire.Reply:
        if thread in self._woken:
            return self._take_over(port, thread)
        if thread in self._threads:
            return wire.Reply(0, error=IN_USE)
        kept = self._kept.pop(thread, None)
        if kept is not None and kept.params == params:
            self._bind(port, kept.reply, params)
            return kept.reply
        if kept is not None:
            await self._close_thread(thread)
        known = {"threadId": thread, "excludeTurns": True} if thread else {}
        method = "thread/resume" if thread else "thread/start"
        if thread:
            self._opening[thread] = []
        try:
            return await self.request(
                method, {**params, **known}, self._plan.open_s, lambda reply: self._bind(port, reply, params)
            )
        finally:
            self._opening.pop(thread, None)

    async def find_running(self, port: CodexPort) -> RunningTurn | None:
        """Return the turn that ran already when the thread was opened; None if it has ended, or there was none."""
        if not port.busy:
            return None
        thread = self._own[port.session]
        reply = await self.request(
            "thread/turns/list", turns_params(thread.id, 1, last=True), self._plan.open_s
        )
        running = read_running(reply.result, readable=thread.readable)
        if running is None:
            port.over.set()
        else:
            self._turns[thread.id] = running.id
        self._mark_busy()
        return running

    def take_woken(self, woken: WokenThread) -> tuple[wire.Reply, RunningTurn]:
        """Note that a session reads this turn; return the reply that opened its thread, and the turn."""
        _, taken = self._woken.pop(woken.session)
        taken()
        return self._own[woken.port.session].reply, RunningTurn(self._turns.get(woken.session, ""), ())

    async def wake_running(self) -> None:
        """Announce the turns that an adopted server runs. One that waits for an answer goes on when that is given."""
        loaded = (await self.request("thread/loaded/list", {}, self._plan.open_s)).result.get("data")
        for thread in loaded if isinstance(loaded, list) else ():
            owner = self._pairs.read().get(thread)
            known = await self.request("thread/read", {"threadId": thread}, self._plan.open_s)
            is_used = thread in self._threads or thread in self._opening
            if owner is not None and is_active(known, waiting=False) and not is_used:
                await self._watch(thread, owner, RESTART, {})

    async def _watch(self, thread: str, owner: str, source: str, params: dict[str, Any]) -> None:
        """Open a thread that others use, and announce the turn that runs there."""
        port = self.lease(f"{owner}.{source}")
        if port is None:
            return
        watched = self._watched[thread] = anyio.Event()
        try:
            await self._open_thread(port, thread, params)
            if await self.find_running(port) is None:
                await self.give_back(port)
            else:
                self._announce(port, thread, source)
        finally:
            del self._watched[thread]
            watched.set()

    def _announce(self, port: CodexPort, thread: str, source: str) -> None:
        woken = WokenThread(self, port, SessionId(_owner(port)), thread, source)
        self._woken[thread] = port, self._wakes(woken)

    def _wake(self, thread: _Thread) -> CodexPort | None:
        """Collect a turn that another client began in an idle thread."""
        port = self.lease(f"{thread.owner}.{OTHER_CLIENT}")
        if port is not None:
            port.begin()
            self._threads[thread.id], self._own[port.session] = port, thread
            self._announce(port, thread.id, OTHER_CLIENT)
            self._mark_busy()
        return port

    def _take_over(self, port: CodexPort, thread: str) -> wire.Reply:
        """Let a session have the running turn that was announced for another one."""
        woken, taken = self._woken.pop(thread)
        taken()
        port.turn, port.over, port.mailbox = woken.turn, woken.over, woken.mailbox
        own = self._own[port.session] = self._own.pop(woken.session)
        self._threads = {id: port if one is woken else one for id, one in self._threads.items()}
        self._ports.pop(woken.session, None)
        return own.reply

    def _bind(self, port: CodexPort, reply: wire.Reply, params: dict[str, Any]) -> None:
        id = thread_of(reply)
        if not id:
            return
        self._threads[id] = port
        self._own[port.session] = _Thread(id, params, reply, _owner(port))
        self._pairs.keep(id, _owner(port))
        if is_active(reply):
            # Another client began its turn, with its own parameters: the thread is not kept for ours.
            requests = self._opening.get(id, ())
            self._own[port.session] = _Thread(
                id, {}, reply, _owner(port), readable=not any(map(needs_item, requests))
            )
            port.begin()
            for request in requests:
                port.mailbox.put_last(request)

    async def start_turn(self, port: CodexPort, params: dict[str, Any]) -> wire.Reply:
        def note(reply: wire.Reply) -> None:
            turn = reply.result.get("turn")
            if isinstance(turn, dict):
                self._turns[self._own[port.session].id] = str(turn.get("id"))

        # An end of the turn before, told twice, must not end this one.
        self._turns.pop(self._own[port.session].id, None)
        self._stopping.discard(self._own[port.session].id)
        self._mark_busy()
        return await self.request("turn/start", params, self._plan.open_s, note)

    async def stop_turn(self, port: CodexPort) -> None:
        """Interrupt the running turn; again when it reports its start, because before that Codex knows of none."""
        if (thread := self._own.get(port.session)) is None:
            return
        self._stopping.add(thread.id)
        if turn := self._turns.get(thread.id):
            await self.send("turn/interrupt", {"threadId": thread.id, "turnId": turn})

    async def release_for_ever(self) -> None:
        """Close threads that nobody used for a while: until then, no other program can open them."""
        while self.alive:
            changed, now = self._changed, anyio.current_time()
            for thread in [one for one in self._kept.values() if one.until <= now]:
                del self._kept[thread.id]
                # If another client has it open, its turns are shown here.
                if not await self._close_thread(thread.id):
                    await self._watch(thread.id, thread.owner, OTHER_CLIENT, thread.params)
            next_at = min((one.until for one in self._kept.values()), default=None)
            with anyio.move_on_after(None if next_at is None else max(0.0, next_at - now)):
                await changed.wait()

    async def _end_session(self, port: CodexPort) -> None:
        """Keep the thread open for its next turn."""
        self._mark_busy()
        thread = self._own.pop(port.session, None)
        self._threads = {id: one for id, one in self._threads.items() if one is not port}
        if thread is None or not self.alive:
            return
        self._turns.pop(thread.id, None)
        while len(self._kept) >= MAX_KEPT:
            await self._close_thread(self._kept.pop(next(iter(self._kept))).id)
        self._kept[thread.id] = msgspec.structs.replace(thread, until=anyio.current_time() + self._keep_s)
        self._look_again()

    async def _close_thread(self, thread: str) -> bool:
        """Wait until the thread is closed: before, it cannot be opened again. Returns False if it stays open."""
        closed = self._closing[thread] = anyio.Event()
        try:
            await self.send("thread/unsubscribe", {"threadId": thread})
            with anyio.move_on_after(self._plan.grace_s):
                await closed.wait()
        finally:
            self._closing.pop(thread, None)
        return closed.is_set()

    def _look_again(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    def _route(self, line: Line) -> Awaitable[None] | None:
        heard = wire.Noise(line.data[: wire.NOISE_BYTES]) if line.cut else wire.decode(line.data)
        match heard:
            case wire.Reply():
                return self._settle(heard)
            case wire.LimitsUpdated(rate_limits=limits):
                self.limits = limits
            case wire.Noise():
                for port in self._ports.values():
                    port.mailbox.put_last(heard)
            case wire.ThreadStarted(thread=thread):
                if port := self._threads.get(thread.parent_thread_id or ""):
                    self._threads[thread.id] = port
            case wire.ThreadClosed(thread_id=id):
                if closed := self._closing.get(id):
                    closed.set()
            case wire.Ignored():
                pass
            case _:
                return self._deliver(heard, len(line.data))
        return None

    def _deliver(self, heard: Any, size: int) -> Awaitable[None] | None:
        port = self._threads.get(heard.thread_id)
        if port is None and heard.thread_id in self._opening and isinstance(heard, wire.ServerRequest):
            self._opening[heard.thread_id].append(heard)
            return None
        if port is None and isinstance(heard, wire.TurnStarted) and heard.thread_id in self._kept:
            port = self._wake(self._kept.pop(heard.thread_id))
        if port is None or not port.busy:
            return self.refuse(heard) if isinstance(heard, wire.ServerRequest) else None
        if isinstance(heard, wire.TurnStarted):
            return self._begin_turn(port, heard)
        delta = isinstance(heard, wire.TextPiece | wire.ThoughtPiece | wire.OutputPiece)
        ends = isinstance(heard, wire.TurnCompleted) and heard.turn.id == self._turns.get(heard.thread_id)
        room = self._hand_over(port, heard, size, delta=delta, ends=ends)
        if ends:
            self._mark_busy()
        return room

    async def _begin_turn(self, port: CodexPort, heard: wire.TurnStarted) -> None:
        self._turns[heard.thread_id] = heard.turn.id
        if (room := self._hand_over(port, heard, 0)) is not None:
            await room
        if heard.thread_id in self._stopping:
            await self.stop_turn(port)

    def _take_greeting(self, reply: wire.Reply) -> Awaitable[None] | None:
        self._greet()
        return self.notify("initialized")

    def _close(self, last: Exit) -> None:  # pyrefly: ignore[missing-override-decorator]
        super()._close(last)
        for event in self._closing.values():
            event.set()
        self._look_again()


def _owner(port: CodexPort) -> str:
    """Return the session that a port was leased for."""
    return port.session.rpartition(".")[0]


def join_items(last: Mail, new: Mail) -> Mail | None:
    """Join deltas of one item, and count lines of noise instead of collecting them."""
    match last, new:
        case wire.TextPiece(item_id=a), wire.TextPiece(item_id=b) if a == b:
            return wire.TextPiece(new.thread_id, new.turn_id, a, last.delta + new.delta)
        case wire.ThoughtPiece(), wire.ThoughtPiece():
            return wire.ThoughtPiece(new.thread_id, new.turn_id, last.delta + new.delta)
        case wire.Noise(), wire.Noise():
            return wire.Noise(last.raw, last.lines + new.lines)
        case _:
            return None
