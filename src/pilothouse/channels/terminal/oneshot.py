"""One message: sent, watched until all that came of it was delivered; the exit code tells how it went."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import msgspec
from msgspec import Struct

from pilothouse.channels.terminal.asking import Asker
from pilothouse.channels.terminal.ink import wash
from pilothouse.channels.terminal.pen import Look
from pilothouse.channels.terminal.screen import PlainScreen, put
from pilothouse.channels.terminal.stage import TICK_S, Stage
from pilothouse.channels.terminal.transcript import AWAY, DELIVERY_WAIT_S, Transcript
from pilothouse.core.channel import Desk, LoggedEvent, Receipt
from pilothouse.core.errors import PilothouseError
from pilothouse.core.event import AskChanged, Asked, Outcome, TurnEnded, encode_event
from pilothouse.core.ids import MessageId, TurnId
from pilothouse.core.message import Part
from pilothouse.core.store import RowStatus

POLL_S = 0.2
FINISHED: frozenset[RowStatus] = frozenset({"done", "failed", "withdrawn"})


class MessageState(Struct, frozen=True):
    """What `query("message", id=…)` tells, as a struct or as a dict."""

    status: RowStatus = "queued"
    turn_id: TurnId | None = None
    delivered: bool = False


class OneShotTalk:
    def __init__(self, stage: Stage, text: str) -> None:
        self._stage = stage
        self._text = text.strip()
        streams = stage.streams
        self._screen = PlainScreen(streams)
        self._ink = stage.ink(tty=streams.stderr_tty)
        self._asker = Asker(stage, self._screen)
        drawn = streams.stdout_tty and not streams.dumb
        color = stage.ink(tty=drawn).color
        look = Look(self._ink, stage.columns, drawn, streams.stdout_tty, color, stage.verbose, asks=False)
        self._transcript = Transcript(self._screen, look, stage.clock, stage.seat.author)
        self._message: MessageId | None = None
        self._state = MessageState()
        self._outcome: Outcome | None = None
        self._rows: list[LoggedEvent] = []
        self._sorting = anyio.Lock()
        self._done_at: float | None = None
        self._finished = anyio.Event()
        self._refused = False
        self._interrupted = False

    @property
    def exit_code(self) -> int:
        if self._interrupted:
            return 130
        failed = self._refused or self._state.status in ("failed", "withdrawn")
        return 1 if failed or self._outcome in ("failed", "cancelled") else 0

    async def run(self, desk: Desk, opened: Callable[[], None]) -> None:
        self._desk = desk
        async with anyio.create_task_group() as group:
            self._group = group
            group.start_soon(self._watch_interrupts)
            if self._stage.header and not self._stage.json:
                await self._transcript.note(self._ink.dim(self._stage.header))
            await self._greet(await self._submit())
            opened()
            if self._message is not None:
                for work in (self._follow, self._poll, self._tick):
                    group.start_soon(work)
                await self._finished.wait()
                await self._end()
            group.cancel_scope.cancel()

    async def part(self, part: Part) -> None:
        await self._sort()
        kind, turn = part.data.get("kind"), part.data.get("turn_id")
        ours = turn == self._state.turn_id if turn else kind == "reply"
        if kind == "ask" and not part.again:
            return
        if not ours:
            heading = [self._ink.dim(AWAY)] if turn else []
            await self._screen.note("\n".join([*heading, wash(part.text)]))
        elif not self._stage.json:
            await self._transcript.part(part)

    async def _greet(self, receipt: Receipt) -> None:
        """What the desk said to the message; for a command that may be all there is to say."""
        self._message = receipt.message_id if receipt.state != "refused" else None
        self._refused = receipt.state == "refused"
        if receipt.text and self._refused:
            await self._screen.note(self._ink.red(wash(receipt.text)))
        elif receipt.text and self._message is None and not self._stage.json:
            await self._screen.say(receipt.text)
        elif receipt.text:
            await self._screen.note(self._ink.dim(wash(receipt.text)))
        if self._message is not None and not self._stage.json:
            self._transcript.expect()

    async def _submit(self) -> Receipt:
        if not self._text:
            return Receipt("refused", text="There is nothing to send: give a text, or pipe one in.")
        seat, now = self._stage.seat, self._stage.clock.now()
        try:
            if self._text.startswith("/"):
                return await self._desk.command(seat.address, seat.author, self._text, seat.next_id())
            return await self._desk.accept(seat.message(self._text, now))
        except PilothouseError as error:
            return Receipt("refused", text=str(error))

    async def _follow(self) -> None:
        mark = self._stage.mark()
        async for row in self._desk.follow(self._stage.conversation, mark.load()):
            self._rows.append(row)
            await self._sort()

    async def _poll(self) -> None:
        while True:
            await self._sort()
            await self._stage.clock.sleep(POLL_S)

    async def _tick(self) -> None:
        while not self._stage.json:
            await self._stage.clock.sleep(TICK_S)
            await self._transcript.tick()

    async def _sort(self) -> None:
        """Asks how the message is, and takes what was followed of its turn, in order."""
        if self._message is None:
            return
        async with self._sorting:
            told = await self._desk.query("message", self._stage.seat.author, id=self._message)
            if told is not None:
                self._state = msgspec.convert(told, MessageState, from_attributes=True)
            if self._state.turn_id is not None:
                while self._rows:
                    row = self._rows.pop(0)
                    if row.turn_id == self._state.turn_id:
                        await self._take(row)
        self._judge()

    async def _take(self, row: LoggedEvent) -> None:
        if self._stage.json:
            put(self._stage.streams.stdout, encode_event(row.event).decode() + "\n")
        else:
            await self._transcript.event(row)
        match row.event:
            case Asked(ask=ask):
                self._asker.asked(self._desk, ask, self._group)
            case AskChanged(ask_id=ask_id):
                self._asker.changed(ask_id)
            case TurnEnded(outcome=outcome):
                self._outcome = outcome
            case _:
                pass

    def _judge(self) -> None:
        """Finished once all is delivered and, if there was a turn, its end was followed (or is overdue)."""
        if self._state.status not in FINISHED or not self._state.delivered:
            return
        now = self._stage.clock.monotonic()
        self._done_at = now if self._done_at is None else self._done_at
        followed = self._state.turn_id is None or self._outcome is not None
        if followed or now - self._done_at >= DELIVERY_WAIT_S:
            self._finished.set()

    async def _end(self) -> None:
        if not self._stage.json:
            await self._transcript.finish()
        self._screen.status("")

    async def _watch_interrupts(self) -> None:
        seat = self._stage.seat
        with self._stage.streams.interrupts() as pressed:
            async for _ in pressed:
                if self._interrupted or self._message is None:
                    break
                self._interrupted = True
                await self._screen.note(self._ink.dim("Stopping… Ctrl-C again leaves at once."))
                await self._desk.command(seat.address, seat.author, "/stop", seat.next_id())
        self._interrupted = True
        self._finished.set()
        if self._message is None:
            self._group.cancel_scope.cancel()
