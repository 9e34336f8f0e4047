"""One process that serves many sessions, and the port of each session on it.

An engine subclasses `Link` for its wire: `_route` hands each line to a port, `_end_session` tells the process that a
session is over.

Rules: a session that does not read holds up the others for `stall_s` at most, then its turn is given up. From `CROWD`
sessions on, text deltas wait a moment for those that follow, so that a reader wakes once for many. When the process
ends, every session is told how.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Generic, TypeVar

import anyio
import msgspec
from msgspec import Struct

from pilothouse.core.engine import ProcessStart
from pilothouse.core.errors import EngineError
from pilothouse.core.isolation import OPEN
from pilothouse.core.outcome import Failure
from pilothouse.engines.mailbox import Join, Mailbox
from pilothouse.processes import (
    Launcher,
    Line,
    LineSource,
    ProcessLimits,
    SharedProcess,
    SpawnFailed,
    StopDeadlines,
    Talker,
)

CROWD = 16
"""With fewer sessions, every delta wakes its reader."""
WAKES_A_SECOND = 1000
"""Limit for all sessions of a crowd together."""
REST_S = 0.004
"""A pause between two reads in a crowd: each read of the pipe costs as much as several lines."""
MAX_REPLIES = 8
"""A bound on replies that no session asked for."""
DETAIL_CHARS = 4000
WORDS_CHARS = 300

SHUT_DOWN = Failure("crash", "The engine was shut down.")
NOT_READ = Failure("transport", "Nobody read this turn's events for too long, so it was given up.")
UNREACHABLE = Failure("hang", "The engine's process reads no commands any more and was stopped.")
IGNORES_STOP = Failure(
    "hang", "The engine's process did not stop when asked and was ended, with all its turns."
)

Item = TypeVar("Item")
Reply = TypeVar("Reply")


class Exit(Struct, frozen=True):
    """The end of a process. `why` is set if Pilothouse ended it."""

    code: int | None = None
    stderr: str = ""
    why: Failure | None = None


def explain_exit(last: Exit) -> Failure:
    detail = f"exit code {last.code}\n{last.stderr[-DETAIL_CHARS:]}".strip()
    if last.why is not None:
        return msgspec.structs.replace(last.why, detail=f"{last.why.detail}\n{detail}".strip())
    code = last.code
    ending = f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
    return Failure("crash", f"The engine's process ended unexpectedly ({ending}).", detail=detail)


class EarlyEnd(EngineError):
    """The process ended by itself before it was ready."""


def explain_early_end(last: Exit) -> Failure:
    """Explain such an end by the line of its stderr that names an error, else by the last one."""
    failure, lines = explain_exit(last), last.stderr.strip().splitlines()
    named = next((line for line in lines if line.lower().startswith("error")), lines[-1] if lines else "")
    words = f": {named.strip()[:WORDS_CHARS]}" if named else "."
    text = failure.text.replace("unexpectedly", "before it was ready").removesuffix(".") + words
    return msgspec.structs.replace(failure, text=text)


class LinkPlan(Struct, frozen=True):
    """The process to start, and how long to wait for it. A `private` process serves one session."""

    engine: str
    launcher: Launcher
    start: ProcessStart
    grace_s: float
    open_s: float
    stall_s: float
    private: bool
    log: Callable[..., None]
    limits: ProcessLimits = ProcessLimits()
    greeting: bytes = b""
    """The first line to the process, where it does not greet by itself."""


class Port(Generic[Item, Reply]):
    """One session's end of a link. The last item of a turn is the `Exit` or the `Failure` that cut it off, if any.

    `over` is set once the end of the running turn has arrived, read or not. One task at a time waits for a reply.
    """

    def __init__(self, session: str, join: Join[Item | Exit | Failure] | None = None) -> None:
        self.session = session
        self.turn = 0
        self.over = anyio.Event()
        self._join = join
        self.mailbox = self._new_mailbox()
        self._replies: deque[Reply] = deque()
        self._replied = anyio.Event()
        self._closed = False

    @property
    def busy(self) -> bool:
        return self.turn > 0 and not self.over.is_set()

    def begin(self) -> int:
        self.turn += 1
        self.mailbox.discard()  # the link may wait for room in it
        self.mailbox = self._new_mailbox()
        self.over = anyio.Event()
        return self.turn

    def reply(self, reply: Reply) -> None:
        if not self._closed and len(self._replies) < MAX_REPLIES:
            self._replies.append(reply)
            self._replied.set()

    async def wait_for_reply(self) -> Reply | None:
        """Return the next reply, or None when none can come any more."""
        while not self._replies and not self._closed:
            self._replied = anyio.Event()
            await self._replied.wait()
        return self._replies.popleft() if self._replies else None

    def drop_replies(self) -> None:
        """Forget late replies to an abandoned request, which would answer the next one."""
        self._replies.clear()

    def close(self, last: Exit | None = None) -> None:
        """End the port: with its process, or, without `last`, because the session leaves."""
        if last is None:
            self.mailbox.discard()
        else:
            self.mailbox.put_last(last)
            self.mailbox.close()
        self.over.set()
        self._closed = True
        self._replied.set()

    def _new_mailbox(self) -> Mailbox[Item | Exit | Failure]:
        return Mailbox(join=self._join)


class Link(SharedProcess[Failure], ABC, Generic[Item, Reply]):
    def __init__(self, plan: LinkPlan, join: Join[Item | Exit | Failure] | None = None) -> None:
        super().__init__(UNREACHABLE)
        self._plan = plan
        self._join = join
        self._ports: dict[str, Port[Item, Reply]] = {}
        self._unread: set[Mailbox[Item | Exit | Failure]] = set()
        """Mailboxes with deltas that have not woken their reader yet."""
        self._some_unread = anyio.Event()
        self._greeted = False
        self._ready = anyio.Event()
        self.exit = Exit(why=SHUT_DOWN)
        self.private = plan.private
        self.isolation = plan.start.isolation or OPEN
        self.ended = anyio.Event()

    @abstractmethod
    def _route(self, line: Line) -> Awaitable[None] | None:
        """Hand one line to its session. Return what to wait for before the next line is read; None nearly always."""

    @abstractmethod
    async def _end_session(self, port: Port[Item, Reply]) -> None: ...

    async def run(self) -> None:
        """Run the process from its start to its end, in the engine's task group."""
        last = Exit(why=SHUT_DOWN)
        try:
            last = await self._serve()
        except SpawnFailed as error:
            last = Exit(why=Failure("bad_request", str(error), detail=error.detail))
        finally:
            self._close(last)

    async def wait_ready(self) -> None:
        """Raises `EngineError` when the process does not start, or does not speak the protocol."""
        if not self._ready.is_set():
            with anyio.move_on_after(self._plan.open_s):
                await self._ready.wait()
        if not self._greeted:
            silent = f"The engine's process did not answer its start within {self._plan.open_s:g} s and was stopped."
            self.condemn(Failure("hang", silent))
            await self.ended.wait()
            if self.exit.why is None:
                raise EarlyEnd(explain_early_end(self.exit))
            raise EngineError(explain_exit(self.exit))

    def lease(self, session: str) -> Port[Item, Reply] | None:
        """Return a new port, or None when the process has ended or serves one session and has it."""
        if not self.alive or (self.private and self._ports):
            return None
        port = self._ports[session] = Port(session, self._join)
        return port

    async def give_back(self, port: Port[Item, Reply]) -> None:
        """End a session. Called under a shield; its waits are bounded."""
        port.close()
        await self._end_session(port)
        self._ports.pop(port.session, None)
        if self.private:
            self.stop()
            await self.ended.wait()

    async def expect_end(self, port: Port[Item, Reply]) -> None:
        """Wait for the running turn to stop; after the grace, end the process with all its sessions."""
        await self._expect(port.over, self._plan.grace_s, IGNORES_STOP)

    def _greet(self) -> None:
        """Note that the process is ready for sessions."""
        self._greeted = True
        self._ready.set()

    def _hand_over(
        self, port: Port[Item, Reply], item: Item, size: int, *, delta: bool = False, ends: bool = False
    ) -> Awaitable[None] | None:
        """Give an item to the running turn of a session. Return what to wait for if its mailbox is full."""
        if self._offer(port, item, size, delta=delta, ends=ends):
            return None
        return self._wait_and_offer(port, item, size, delta=delta, ends=ends)

    def _offer(self, port: Port[Item, Reply], item: Item, size: int, *, delta: bool, ends: bool) -> bool:
        quietly = delta and len(self._ports) >= CROWD
        if not port.mailbox.offer(item, size, quietly=quietly):
            return False
        if quietly:
            self._unread.add(port.mailbox)
            self._some_unread.set()
        if ends:
            port.over.set()
        return True

    async def _wait_and_offer(
        self, port: Port[Item, Reply], item: Item, size: int, *, delta: bool, ends: bool
    ) -> None:
        """Wait for room; without a bound if the process is private, for then its reader slows only itself."""
        turn, mailbox = port.turn, port.mailbox
        with anyio.move_on_after(None if self.private else self._plan.stall_s) as waiting:
            await mailbox.wait_for_room()
        if waiting.cancelled_caught:
            mailbox.put_last(NOT_READ)
            mailbox.close()
        if turn == port.turn:  # else the next turn has begun, and the item is not its
            self._offer(port, item, size, delta=delta, ends=ends)

    async def _serve(self) -> Exit:
        plan = self._plan
        async with self._open() as process:
            self._process = process
            plan.log("process.started", engine=plan.engine, pid=process.pid)
            if plan.greeting:
                await self._write(plan.greeting)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._ring_for_ever)
                with self._reading:
                    await self._read(process.lines())
                tasks.cancel_scope.cancel()
            self.alive = False
            await process.stop(self._deadlines())
            plan.log("process.ended", engine=plan.engine, pid=process.pid, exit_code=process.exit_code)
            return Exit(process.exit_code, process.stderr_tail(), self._why)

    def _open(self) -> AbstractAsyncContextManager[Talker]:
        """Start the process."""
        return self._plan.launcher.open(self._plan.start, self._plan.limits)

    async def _read(self, lines: LineSource) -> None:
        async for line in lines:
            if (room := self._route(line)) is not None:
                await room
            if not lines.waiting and len(self._ports) >= CROWD:
                await anyio.sleep(REST_S)

    def _deadlines(self) -> StopDeadlines:
        grace_s = self._plan.grace_s
        patience_s = 0.0 if self._why else grace_s  # a condemned process has had its time
        return StopDeadlines(input_s=patience_s, terminate_s=grace_s, orphans_s=min(1.0, grace_s))

    async def _ring_for_ever(self) -> None:
        while True:
            await self._some_unread.wait()
            await anyio.sleep(len(self._ports) / WAKES_A_SECOND)
            unread, self._unread, self._some_unread = self._unread, set(), anyio.Event()
            for mailbox in unread:
                mailbox.ring()

    def _close(self, last: Exit) -> None:
        self.alive = False
        self.exit = last
        for port in self._ports.values():
            port.close(last)
        self._ready.set()
        self.ended.set()
