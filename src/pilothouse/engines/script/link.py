"""One engine process and the sessions that share it.

Rules: `run` reads every line and hands it to its session; a session that does not read holds the others up for
`stall_s` at most, then its turn is given up; in a crowd of sessions the deltas of each wait a moment for those that
follow, so that a reader wakes for many at once; when the process is gone, for whatever reason, every session is told,
and nothing of it is left.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

import anyio
from msgspec import Struct

from pilothouse.core.errors import EngineError
from pilothouse.core.event import TextDelta, ThinkingDelta, TurnEnded
from pilothouse.core.outcome import Failure
from pilothouse.engines.script import wire
from pilothouse.engines.script.mailbox import Mailbox
from pilothouse.engines.script.port import Port
from pilothouse.engines.script.translate import Exit, explain
from pilothouse.processes import (
    Leash,
    Line,
    LineReader,
    ProcessLimits,
    SpawnFailed,
    StopDeadlines,
    open_process,
)

_LIMITS = ProcessLimits(max_line_bytes=wire.MAX_LINE_BYTES)

CROWD = 16
"""Fewer sessions than these wake for every delta."""
WAKES_A_SECOND = 1000
"""Of all sessions of a crowd together."""
REST_S = 0.004
"""What a crowd says meanwhile is read at once: every look at the pipe costs as much as several lines."""

SHUT_DOWN = Failure("crash", "The engine was shut down.")
NOT_READ = Failure("transport", "Nobody read this turn's events for too long, so it was given up.")
UNREACHABLE = Failure("hang", "The engine's process reads no commands any more and was stopped.")
IGNORES_STOP = Failure("hang", "The engine's process did not obey a stop and was ended, with all its turns.")


class LinkPlan(Struct, frozen=True):
    """How to start the process, and how long to wait for it."""

    argv: Sequence[str]
    cwd: str
    environment: Mapping[str, str]
    grace_s: float
    open_s: float
    stall_s: float
    private: bool
    log: Callable[..., None]


class Link(Leash[Failure]):
    def __init__(self, plan: LinkPlan) -> None:
        super().__init__(UNREACHABLE)
        self._plan = plan
        self._ports: dict[str, Port] = {}
        self._unread: set[Mailbox] = set()
        """Those whose reader has not heard yet that there are deltas."""
        self._some_unread = anyio.Event()
        self.exit = Exit(why=SHUT_DOWN)
        self._ready = anyio.Event()
        self.hello: wire.Hello | None = None
        self.private = plan.private
        self.gone = anyio.Event()

    async def run(self) -> None:
        """The whole life of the process; runs in the engine's task group."""
        last = Exit(why=SHUT_DOWN)
        try:
            last = await self._serve()
        except SpawnFailed as error:
            last = Exit(why=Failure("bad_request", str(error), detail=error.detail))
        finally:
            self._close(last)

    async def wait_ready(self) -> wire.Hello:
        """Raises `EngineError` when the process does not start, or does not speak our protocol."""
        if not self._ready.is_set():
            with anyio.move_on_after(self._plan.open_s):
                await self._ready.wait()
        if self.hello is None:
            silent = f"The engine's process said no hello within {self._plan.open_s:g} s and was stopped."
            self.condemn(Failure("hang", silent))
            await self.gone.wait()
            raise EngineError(explain(self.exit))
        return self.hello

    def lease(self, session: str) -> Port | None:
        """A place on this link; None when it is gone, or serves one session and has it."""
        if not self.alive or (self.private and self._ports):
            return None
        port = self._ports[session] = Port(session)
        return port

    async def give_back(self, port: Port) -> None:
        """Always under a shield, and always with an end."""
        port.free()
        await self.send(wire.Close(port.session))
        self._ports.pop(port.session, None)
        if self.private:
            self.stop()
            await self.gone.wait()

    async def send(self, command: wire.Command) -> None:
        await self._write(wire.encode(command), self._patience(command))

    def _patience(self, command: wire.Command) -> float:
        in_a_hurry = isinstance(command, wire.Interrupt | wire.Close)
        return self._plan.grace_s if in_a_hurry else self._plan.open_s

    async def expect_end(self, port: Port) -> None:
        """Give the running turn its time to stop; then end the process, whoever else uses it."""
        await self._expect(port.over, self._plan.grace_s, IGNORES_STOP)

    async def _serve(self) -> Exit:
        plan = self._plan
        async with open_process(plan.argv, cwd=plan.cwd, env=plan.environment, limits=_LIMITS) as process:
            self._process = process
            plan.log("process.started", engine="script", pid=process.pid)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._ring_for_ever)
                with self._reading:
                    await self._read(process.lines())
                tasks.cancel_scope.cancel()
            self.alive = False
            await process.stop(self._deadlines())
            plan.log("process.ended", engine="script", pid=process.pid, exit_code=process.exit_code)
            return Exit(process.exit_code, process.stderr_tail(), self._why)

    async def _read(self, lines: LineReader) -> None:
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

    def _route(self, line: Line) -> Awaitable[None] | None:
        """What must be waited for before the next line is read; None nearly always."""
        heard = wire.Noise(line.data[: wire.NOISE_BYTES]) if line.cut else wire.decode(line.data)
        match heard:
            case wire.Event() | wire.Media():
                port = self._ports.get(heard.session)
                if port is None or heard.turn != port.turn:
                    return None
                return (
                    None
                    if self._offer(port, heard, len(line.data))
                    else self._deliver(port, heard, len(line.data))
                )
            case wire.Hello():
                self._greet(heard)
            case wire.Noise():
                for port in self._ports.values():
                    port.mailbox.put_noise(heard)
            case _:
                if port := self._ports.get(heard.session):
                    port.reply(heard)
        return None

    def _greet(self, hello: wire.Hello) -> None:
        if hello.protocol != wire.PROTOCOL:
            words = f"speaks protocol {hello.protocol}, and this Pilothouse speaks {wire.PROTOCOL}"
            self.condemn(Failure("bad_request", f"The engine {hello.name!r} {words}. Upgrade the older one."))
            return
        self.hello = self.hello or hello
        self.private = self.private or not hello.capabilities.parallel
        self._ready.set()

    def _offer(self, port: Port, heard: wire.Event | wire.Media, size: int) -> bool:
        """False if the mailbox is full."""
        event = heard.event if isinstance(heard, wire.Event) else None
        quietly = len(self._ports) >= CROWD and isinstance(event, TextDelta | ThinkingDelta)
        if not port.mailbox.offer(heard, size, quietly=quietly):
            return False
        if quietly:
            self._unread.add(port.mailbox)
            self._some_unread.set()
        if isinstance(event, TurnEnded):
            port.over.set()
        return True

    async def _deliver(self, port: Port, heard: wire.Event | wire.Media, size: int) -> None:
        """With a process of its own a slow reader slows only its own engine, for as long as it likes."""
        mailbox = port.mailbox
        with anyio.move_on_after(None if self.private else self._plan.stall_s) as waiting:
            await mailbox.wait_for_room()
        if waiting.cancelled_caught:
            mailbox.close(NOT_READ)
        if heard.turn == port.turn:  # else another turn has begun meanwhile, and this is none of its
            self._offer(port, heard, size)

    def _close(self, last: Exit) -> None:
        self.alive = False
        self.exit = last
        for port in self._ports.values():
            port.close(last)
        self._ready.set()
        self.gone.set()
