"""One leased session, turns in, events out; and the link that carries the protocol of all sessions of one process.

Rules: once `run` has begun, a failure is an event. `leave` frees everything within the grace and the deadlines of a stop,
also when it is cancelled. A session whose process died opens itself again on the next one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import anyio

from pilothouse.core.ask import Decision
from pilothouse.core.engine import Blobs, Brief
from pilothouse.core.errors import EngineError, PilothouseError
from pilothouse.core.event import (
    EngineEvent,
    Notice,
    SessionChanged,
    SessionStarted,
    TextDelta,
    ThinkingDelta,
    TurnEnded,
    merge_deltas,
)
from pilothouse.core.ids import AskId, EngineId
from pilothouse.core.message import Attachment
from pilothouse.core.outcome import Failure
from pilothouse.core.turn import Prompt
from pilothouse.engines.link import Exit, Link, LinkPlan, Port, explain_exit
from pilothouse.engines.script import wire
from pilothouse.engines.script.translate import TurnTranslator
from pilothouse.engines.turn_loop import BUSY
from pilothouse.processes import Line

Item = wire.Event | wire.Media | wire.Noise
Reply = wire.Opened | wire.Refused | wire.Steered
ScriptPort = Port[Item, Reply]
Mail = Item | Exit | Failure


class ScriptLink(Link[Item, Reply]):
    def __init__(self, plan: LinkPlan) -> None:
        super().__init__(plan, join_items)
        self.hello: wire.Hello | None = None

    async def send(self, command: wire.Command) -> None:
        in_a_hurry = isinstance(command, wire.Interrupt | wire.Close)
        await self._write(wire.encode(command), self._plan.grace_s if in_a_hurry else self._plan.open_s)

    async def _end_session(self, port: ScriptPort) -> None:
        await self.send(wire.Close(port.session))

    def _route(self, line: Line) -> Awaitable[None] | None:
        heard = wire.Noise(line.data[: wire.NOISE_BYTES]) if line.cut else wire.decode(line.data)
        match heard:
            case wire.Event() | wire.Media():
                port = self._ports.get(heard.session)
                if port is None or heard.turn != port.turn:
                    return None
                event = heard.event if isinstance(heard, wire.Event) else None
                delta = isinstance(event, TextDelta | ThinkingDelta)
                ends = isinstance(event, TurnEnded)
                return self._hand_over(port, heard, len(line.data), delta=delta, ends=ends)
            case wire.Hello():
                self._check_hello(heard)
            case wire.Noise():
                for port in self._ports.values():
                    port.mailbox.put_last(heard)
            case _:
                if port := self._ports.get(heard.session):
                    port.reply(heard)
        return None

    def _check_hello(self, hello: wire.Hello) -> None:
        if hello.protocol != wire.PROTOCOL:
            words = f"speaks protocol {hello.protocol}, and this Pilothouse speaks {wire.PROTOCOL}"
            self.condemn(Failure("bad_request", f"The engine {hello.name!r} {words}. Upgrade the older one."))
            return
        self.hello = self.hello or hello
        self.private = self.private or not hello.capabilities.parallel
        self._greet()


def join_items(last: Mail, new: Mail) -> Mail | None:
    """Join deltas of one block, and count lines of noise instead of collecting them."""
    match last, new:
        case wire.Event(), wire.Event():
            both = merge_deltas(last.event, new.event)
            return wire.Event(new.session, new.turn, both) if both is not None else None
        case wire.Noise(), wire.Noise():
            return wire.Noise(last.raw, last.lines + new.lines)
        case _:
            return None


MAX_ATTACHED_BYTES = 20 * 1024 * 1024


Lease = Callable[[Brief], Awaitable[tuple[ScriptLink, ScriptPort]]]
ExpectEnd = Callable[[ScriptLink, ScriptPort], None]


class ScriptSession:
    """Has every capability; if its program lacks one, it answers no."""

    accepts_images = True

    def __init__(
        self, engine: EngineId, brief: Brief, blobs: Blobs, lease: Lease, expect_end: ExpectEnd, open_s: float
    ) -> None:
        self._engine = engine
        self._brief = brief
        self._blobs = blobs
        self._lease = lease
        self._expect_end = expect_end
        self._open_s = open_s
        self._resume = brief.resume.value if brief.resume else None
        self._link: ScriptLink | None = None
        self._port: ScriptPort | None = None
        self._turn: TurnTranslator | None = None
        self._one_steer = anyio.Lock()

    async def run(self, prompt: Prompt) -> AsyncIterator[EngineEvent]:
        if self._running:
            yield TurnEnded("failed", failure=BUSY)
            return
        turn, events = await self._begin(prompt)
        while True:
            for event in events:
                self._remember(event)
                yield event
            if turn.ended:
                return
            events = await self._next(turn)

    async def interrupt(self) -> None:
        if self._turn is None or self._link is None or self._port is None or not self._port.busy:
            return
        self._turn.interrupted = True
        self._expect_end(self._link, self._port)
        await self._link.send(wire.Interrupt(self._port.session))

    async def steer(self, prompt: Prompt) -> bool:
        async with self._one_steer:
            if self._link is None or self._port is None or not self._running or not self._can.steer:
                return False
            self._port.drop_replies()
            await self._link.send(wire.Steer(self._port.session, prompt.text))
            with anyio.move_on_after(self._open_s):
                reply = await self._port.wait_for_reply()
                return isinstance(reply, wire.Steered) and reply.accepted
            return False

    async def answer(self, ask_id: AskId, decision: Decision) -> None:
        if self._link and self._port:
            await self._link.send(wire.Answer(self._port.session, ask_id, decision))

    async def enter(self) -> None:
        """Open the session on a living process. Raises `EngineError`."""
        link, port = await self._lease(self._brief)
        self._link, self._port = link, port
        brief = self._brief
        await link.send(
            wire.Open(
                port.session,
                brief.workspace,
                self._resume,
                brief.model,
                system_prompt=brief.system_prompt,
                environment=brief.environment,
                mcp_servers=brief.mcp_servers,
            )
        )
        with anyio.move_on_after(self._open_s):
            match await port.wait_for_reply():
                case wire.Opened():
                    return
                case wire.Refused(failure=failure):
                    raise EngineError(failure)
        raise EngineError(await self._no_reply(link))

    async def leave(self) -> None:
        """Give the session back, after stopping a turn that still runs."""
        with anyio.CancelScope(shield=True):
            if self._link is None or self._port is None:
                return
            self._port.mailbox.discard()
            if self._port.busy:
                await self.interrupt()
                await self._link.expect_end(self._port)
            if not self._link.alive:
                await self._link.ended.wait()
            await self._link.give_back(self._port)
            self._link = self._port = None

    @property
    def _running(self) -> bool:
        return self._turn is not None and not self._turn.ended

    @property
    def _can(self) -> wire.Capabilities:
        hello = self._link.hello if self._link else None
        return hello.capabilities if hello else wire.Capabilities()

    async def _no_reply(self, link: ScriptLink) -> Failure:
        if link.alive:
            link.condemn(
                Failure(
                    "hang", f"The engine did not open the session within {self._open_s:g} s and was stopped."
                )
            )
        await link.ended.wait()
        return explain_exit(link.exit)

    async def _begin(self, prompt: Prompt) -> tuple[TurnTranslator, list[EngineEvent]]:
        try:
            link, port = await self._ready()
        except EngineError as error:
            turn = self._turn = self._translator("", 0)
            return turn, turn.fail(error.failure)
        turn = self._turn = self._translator(port.session, port.begin())
        files, notices = await self._attach(prompt)
        await link.send(wire.Prompt(port.session, port.turn, prompt.text, files))
        if turn.interrupted:  # while the files were read, when the engine had no turn to stop
            await link.send(wire.Interrupt(port.session))
        return turn, [event for notice in notices for event in turn.note(notice)]

    def _translator(self, session: str, turn: int) -> TurnTranslator:
        return TurnTranslator(session, turn, self._brief.workspace, self._engine)

    async def _ready(self) -> tuple[ScriptLink, ScriptPort]:
        """Return a living process on which this session is open and idle."""
        if self._link is not None and self._port is not None and self._port.busy:
            await self._link.expect_end(self._port)
        if self._link is None or not self._link.alive:
            await self.leave()
            await self.enter()
        assert self._link is not None and self._port is not None
        return self._link, self._port

    async def _next(self, turn: TurnTranslator) -> list[EngineEvent]:
        assert self._port is not None, (
            "a session is left only when its turn has ended or is not read any more"
        )
        match await self._port.mailbox.get():
            case Exit() as last:
                return turn.end(last)
            case None:  # the session is left while it is read
                return turn.end(Exit())
            case Failure() as failure:
                await self.interrupt()
                return turn.fail(failure)
            case heard:
                return [done for event in turn.take(heard) for done in await self._keep(turn, event)]

    async def _keep(self, turn: TurnTranslator, event: EngineEvent | wire.Media) -> list[EngineEvent]:
        if not isinstance(event, wire.Media):
            return [event]
        try:
            return turn.keep(await self._blobs.put(event.data, event.name, event.media_type))
        except PilothouseError as error:
            return turn.note(Notice("warning", "media_lost", f"{event.name} could not be kept: {error}"))

    async def _attach(self, prompt: Prompt) -> tuple[tuple[wire.File, ...], list[Notice]]:
        files: list[wire.File] = []
        notices: list[Notice] = []
        room = MAX_ATTACHED_BYTES
        for attachment in prompt.attachments:
            try:
                file = await self._load(attachment, room)
            except PilothouseError as error:
                text = f"{attachment.name} was not given to the engine: {error}"
                notices.append(Notice("warning", "attachment_skipped", text))
            else:
                files.append(file)
                room -= len(file.data)
        return tuple(files), notices

    async def _load(self, attachment: Attachment, room: int) -> wire.File:
        if attachment.size > room:
            raise PilothouseError(f"all files of a prompt together may have {MAX_ATTACHED_BYTES >> 20} MB.")
        return wire.File(attachment.name, attachment.media_type, await self._blobs.get(attachment.blob))

    def _remember(self, event: EngineEvent) -> None:
        if isinstance(event, SessionStarted | SessionChanged | TurnEnded) and event.resume:
            self._resume = event.resume.value
