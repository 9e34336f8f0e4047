"""A one-shot message: sent, then followed until everything it caused was delivered. Sets the exit code."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import anyio
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from pilothouse.channels.terminal.ask_prompt import AskPrompt
from pilothouse.channels.terminal.images import ImageProblem, find_images, is_file
from pilothouse.channels.terminal.render import attachment_line, bare
from pilothouse.channels.terminal.screen import PlainScreen, put
from pilothouse.channels.terminal.setup import TICK_S, Setup
from pilothouse.channels.terminal.style import sanitize
from pilothouse.channels.terminal.transcript import DELIVERY_WAIT_S, Transcript
from pilothouse.core.channel import Desk, LoggedEvent, Receipt
from pilothouse.core.errors import PilothouseError, TryLater
from pilothouse.core.event import AskChanged, Asked, Outcome, TurnEnded, encode_event
from pilothouse.core.ids import MessageId, TurnId
from pilothouse.core.message import Part
from pilothouse.core.queue import RowStatus

POLL_S = 0.2
NO_EVENTS = "A command has no events. Its reply:"
FINISHED: frozenset[RowStatus] = frozenset({"done", "failed", "withdrawn"})


class MessageState(Struct, frozen=True):
    """The result of `query("message", id=…)`."""

    status: RowStatus = "queued"
    turn_id: TurnId | None = None
    delivered: bool = False


class OneShotTalk:
    def __init__(self, setup: Setup, text: str) -> None:
        self._setup = setup
        self._text = text.strip()
        streams = setup.streams
        self._screen = PlainScreen(streams)
        self._palette = setup.palette(tty=streams.stderr_tty)
        drawn = streams.stdout_tty and not streams.dumb
        self._display = setup.display(self._palette, drawn=drawn, streamed=streams.stdout_tty, asks=False)
        self._transcript = Transcript(self._screen, self._display, setup.clock, setup.identity.author)
        self._asker = AskPrompt(setup, self._screen, self._transcript.asks)
        self._message: MessageId | None = None
        self._stopped_by: MessageId | None = None
        self._command = ""
        """The id of the message if it is a command: its reply refers to it."""
        self._state = MessageState()
        self._outcome: Outcome | None = None
        self._after_seq = 0
        """The end of the log before the message was sent: older events are not about it."""
        self._rows: deque[LoggedEvent] = deque()
        self._news = anyio.Event()
        self._sorting = anyio.Lock()
        self._trouble = ""
        """The desk's last error, which is printed once, not on every retry."""
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

    @property
    def messages(self) -> tuple[MessageId, ...]:
        """The message, and the command that stops it."""
        return tuple(id for id in (self._message, self._stopped_by) if id is not None)

    async def run(self, desk: Desk, opened: Callable[[], None]) -> None:
        self._desk = desk
        async with anyio.create_task_group() as group:
            self._group = group
            group.start_soon(self._watch_interrupts)
            if self._setup.facts.header and not self._setup.json:
                await self._transcript.note(self._palette.dim(self._setup.facts.header))
            await self._greet(await self._submit())
            opened()
            if self._message is not None:
                for work in (self._follow, self._sift, self._poll, self._tick):
                    group.start_soon(work)
                await self._finished.wait()
                await self._end()
            group.cancel_scope.cancel()

    async def part(self, part: Part) -> None:
        await self._sort()
        kind, turn = part.data.get("kind"), part.data.get("turn_id")
        if kind == "ask" and not part.again:
            return
        if self._command and part.data.get("reply_to") == self._command:
            await self._reply(part.text)
            for file in part.attachments:
                await self._screen.note(attachment_line(file, self._palette, self._setup.columns()))
        elif not turn:
            await self._screen.note(sanitize(part.text))
        elif turn != self._state.turn_id:
            raise TryLater(
                POLL_S, "this terminal shows the answer to one message, and this part is not known to be its"
            )
        elif not self._setup.json:
            await self._transcript.part(part)

    async def _reply(self, text: str) -> None:
        """Shows the reply to a command."""
        if self._setup.json:
            await self._screen.note(f"{self._palette.dim(NO_EVENTS)}\n{bare(text)}")
        else:
            await self._screen.say(bare(text))

    async def _greet(self, receipt: Receipt) -> None:
        """Shows the desk's receipt; for a command that may be the whole reply."""
        self._message = receipt.message_id if receipt.state != "refused" else None
        self._refused = receipt.state == "refused"
        if receipt.text and self._refused:
            await self._screen.note(self._palette.red(self._display.words(receipt.text)))
        elif receipt.text and self._command:
            await self._reply(receipt.text)
        elif receipt.text:
            await self._screen.note(self._palette.dim(self._display.words(receipt.text)))
        if self._message is not None and not self._command and not self._setup.json:
            self._transcript.expect()

    async def _submit(self) -> Receipt:
        if not self._text:
            return Receipt("refused", text="There is nothing to send: give a text, or pipe one in.")
        identity, now = self._setup.identity, self._setup.clock.now()
        try:
            self._after_seq = await self._desk.query(
                "last_seq", identity.author, conversation=self._setup.conversation
            )
            if self._text.startswith("/") and not is_file(self._text):
                self._command = identity.next_id()
                return await self._desk.command(
                    identity.address, identity.author, self._text, self._command, sent_at=now
                )
            files = await find_images(self._text, self._setup)
            message = identity.message(self._text, now, alone=True)
            return await self._desk.accept(replace(message, attachments=files))
        except (PilothouseError, ImageProblem) as error:
            return Receipt("refused", text=str(error))

    async def _follow(self) -> None:
        author = self._setup.identity.author
        async for row in self._desk.follow(self._setup.conversation, self._after_seq, author):
            self._rows.append(row)
            self._news.set()

    async def _sift(self) -> None:
        """Takes followed events in batches; queries the message only if a row may belong to another turn."""
        while True:
            await self._news.wait()
            self._news = anyio.Event()
            if any(row.turn_id != self._state.turn_id for row in self._rows):
                await self._sort()
            else:
                await self._take_rows()

    async def _poll(self) -> None:
        while True:
            await self._sort()
            await self._setup.clock.sleep(POLL_S)

    async def _tick(self) -> None:
        while not self._setup.json:
            await self._setup.clock.sleep(TICK_S)
            await self._transcript.tick()

    async def _sort(self) -> None:
        """Queries the message's state, then takes the followed rows of its turn, in order."""
        if self._message is None:
            return
        async with self._sorting:
            self._state = await self._state_of(self._message)
        await self._take_rows()

    async def _state_of(self, message: MessageId) -> MessageState:
        """Returns the message's state; the last known one if the desk fails."""
        try:
            told = await self._desk.query("message", self._setup.identity.author, id=message)
        except PilothouseError as error:
            await self._complain(error)
            return self._state
        self._trouble = ""
        return self._state if told is None else msgspec.convert(told, MessageState, from_attributes=True)

    async def _complain(self, error: PilothouseError) -> None:
        if str(error) != self._trouble:
            self._trouble = str(error)
            await self._screen.note(self._palette.red(f"  {sanitize(str(error))} Trying again."))

    async def _take_rows(self) -> None:
        async with self._sorting:
            while self._rows and self._state.turn_id is not None:
                row = self._rows.popleft()
                if row.turn_id == self._state.turn_id:
                    await self._take(row)
        self._judge()

    async def _take(self, row: LoggedEvent) -> None:
        if self._setup.json:
            put(self._setup.streams.stdout, encode_event(row.event).decode() + "\n")
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
        """Finishes once everything is delivered and, if there was a turn, its end was followed or is overdue."""
        if self._state.status not in FINISHED or not self._state.delivered:
            return
        now = self._setup.clock.monotonic()
        self._done_at = now if self._done_at is None else self._done_at
        followed = self._state.turn_id is None or self._outcome is not None
        if followed or now - self._done_at >= DELIVERY_WAIT_S:
            self._finished.set()

    async def _end(self) -> None:
        if not self._setup.json:
            await self._transcript.finish()
        self._screen.status("")

    async def _stop(self) -> None:
        identity = self._setup.identity
        native_id = identity.next_id()
        while True:
            try:
                receipt = await self._desk.command(identity.address, identity.author, "/stop", native_id)
            except PilothouseError as error:
                await self._complain(error)
                await self._setup.clock.sleep(POLL_S)
            else:
                self._stopped_by = receipt.message_id
                return

    async def _watch_interrupts(self) -> None:
        with self._setup.streams.interrupts() as pressed:
            async for _ in pressed:
                if self._interrupted or self._message is None:
                    break
                self._interrupted = True
                await self._screen.note(self._palette.dim("Stopping… Ctrl-C again leaves at once."))
                self._group.start_soon(self._stop)
        self._interrupted = True
        self._finished.set()
        if self._message is None:
            self._group.cancel_scope.cancel()
