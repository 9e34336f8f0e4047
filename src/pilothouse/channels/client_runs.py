"""The runs of one client: started as messages, waited for until a turn takes them over, and stopped.

A run is named by the id of its message, so it has a name before its turn exists. A message that never becomes a turn is a
run too: withdrawn, refused, or a command, whose reply is the run's answer. Images that come with a run are in base64; they
are checked, and kept in the store.
"""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable
from typing import Any, Generic, Literal, TypeVar

import anyio
import anyio.abc
import msgspec
from msgspec import Struct

from pilothouse.channels.request_errors import INVALID_PARAMS, RequestError
from pilothouse.channels.session_feed import RETRY_S, SessionFeed, query_desk
from pilothouse.core.ask import Ask, Decision
from pilothouse.core.channel import ChannelHost, Desk, Receipt
from pilothouse.core.engine import Blobs
from pilothouse.core.errors import PilothouseError, StoreUnavailable
from pilothouse.core.ids import AskId, ChannelId, MessageId
from pilothouse.core.message import Attachment, Author, InboundMessage, MessageDeleted
from pilothouse.core.queue import QueueRow
from pilothouse.core.turn import LIVE

T = TypeVar("T")

POLL_S = 0.2
LOCAL: frozenset[ChannelId] = frozenset(map(ChannelId, ("acp", "rpc", "terminal")))
"""Channels whose people sit at this machine. A run in another one would answer a message that is not there."""
NO_DIALOG = "This client cannot show the question."
BAD_ANSWERS = "This client answered the question wrongly several times."
DISCONNECT_S = 5.0
"""The longest time in which the runs of a client that left begin or are stopped."""
MOST_ATTEMPTS = 4
"""Times that an ask is shown whose answers are refused, and the denial after them."""

End = Literal["completed", "cancelled", "error"]
ENDS: dict[str, End] = {"done": "completed", "withdrawn": "cancelled"}


class Said(Struct, frozen=True):
    """The person's message of a run."""

    text: str
    files: tuple[Attachment, ...] = ()
    engine_line: str = ""
    """A line for the engine itself, which is never read as a command of Pilothouse."""
    ui_context: str = ""


class Waiting(Struct, Generic[T]):
    """A run of this client whose turn has not been seen yet."""

    feed: SessionFeed[T]
    native_id: str
    reply: str = ""


class ClientRuns(Generic[T]):
    """`active` has the runs that the client follows and whose end it was not told yet; `own` those of them that it started
    itself. `end` tells the end of a run without a turn."""

    def __init__(
        self,
        desk: Desk,
        host: ChannelHost,
        author: Author,
        new_id: Callable[[], str],
        source: str,
        end: Callable[[str, Waiting[T], End], Awaitable[None]],
    ) -> None:
        self.waiting: dict[str, Waiting[T]] = {}
        self.active: dict[str, SessionFeed[T]] = {}
        self.own: set[str] = set()
        self._desk = desk
        self._host = host
        self._author = author
        self._new_id = new_id
        self._source = source
        self._end = end

    async def start(self, feed: SessionFeed[T], said: Said) -> Receipt:
        """Store a message that is a run by itself. Hold the feed's lock, so that its first row comes after this."""
        native_id = self._new_id()
        message = InboundMessage(
            feed.address,
            self._author,
            native_id,
            said.text,
            attachments=said.files,
            private=True,
            source=self._source,
            sent_at=self._host.clock.now(),
            file_text=said.engine_line,
            ui_context=said.ui_context,
            alone=True,
            engine_line=bool(said.engine_line),
        )
        receipt = await self._desk.accept(message)
        if receipt.message_id is not None:
            self.active[receipt.message_id] = feed
            self.own.add(receipt.message_id)
            self.waiting[receipt.message_id] = Waiting(feed, native_id, receipt.text)
        return receipt

    def adopt(self, feed: SessionFeed[T], row: QueueRow) -> None:
        """Wait for a run of an earlier connection that is still queued. It can be cancelled, and its end is told."""
        message = msgspec.json.decode(row.body, type=InboundMessage) if row.kind == "chat" else None
        if message is not None and message.alone and row.id not in self.active:
            self.active[row.id] = feed
            self.waiting[row.id] = Waiting(feed, message.native_id)

    def forget(self, run_id: str) -> None:
        """The run has ended."""
        self.waiting.pop(run_id, None)
        self.active.pop(run_id, None)
        self.own.discard(run_id)

    async def stop(self, feed: SessionFeed[T], run_id: str) -> None:
        """Withdraw the message while it waits, or stop its turn, also one that is held. Its end comes as for any run."""
        waiting = self.waiting.get(run_id)
        if waiting is not None:
            await self._desk.deleted(MessageDeleted(feed.address, self._author, waiting.native_id))
        turns = await feed.query("turns", conversation=feed.conversation)
        unended = [turn for turn in turns if turn.ended_at is None]
        stoppable = [turn for turn in unended if turn.status in LIVE]
        for turn in stoppable or unended:
            facts = await feed.query("turn", id=turn.id)
            if facts is not None and facts.run_id == run_id:
                now = self._host.clock.now()
                await self._desk.command(feed.address, self._author, "/stop", self._new_id(), sent_at=now)

    async def begin_all(self) -> None:
        """Wait until each run of this client has begun or ended: its last line may have started one."""
        while self.own & self.waiting.keys():
            await self._host.clock.sleep(POLL_S)

    async def watch(self) -> None:
        """End the runs whose message never became a turn."""
        while True:
            for run_id, waiting in list(self.waiting.items()):
                await self._look_at(run_id, waiting)
            await self._host.clock.sleep(POLL_S)

    async def _look_at(self, run_id: str, waiting: Waiting[T]) -> None:
        try:
            state = await self._desk.query("message", self._author, id=MessageId(run_id))
        except PilothouseError:
            return
        if state is None or state.turn_id is not None or state.status in ("queued", "claimed"):
            return
        if not state.delivered or run_id not in self.waiting:
            return
        self.forget(run_id)
        await self._end(run_id, waiting, ENDS.get(state.status, "error"))

    def take_reply(self, native_id: str, text: str) -> bool:
        """Take the text that replies to a run without a turn. False if it replies to none."""
        for waiting in self.waiting.values():
            if waiting.native_id == native_id:
                waiting.reply = f"{waiting.reply}\n\n{text}".strip()
                return True
        return False


class _Shown(Struct):
    """A shown ask. `closed` is set once its dialog is over: answered, or withdrawn from the client."""

    of_app: bool
    scope: anyio.CancelScope
    closed: anyio.Event


class ShownAsks:
    """The asks that one client shows, each until it is answered: here, on another surface, or by its expiry.

    `decide` asks the person; None leaves the ask to others, or denies it if `is_own` says that nobody else is asked.
    The log tells when an ask of a turn is closed; those of Pilothouse itself are looked at by `watch`."""

    def __init__(
        self,
        desk: Desk,
        host: ChannelHost,
        author: Author,
        tasks: anyio.abc.TaskGroup,
        decide: Callable[[Ask, Any], Awaitable[Decision | None]],
        is_own: Callable[[Any], bool],
    ) -> None:
        self._desk = desk
        self._host = host
        self._author = author
        self._tasks = tasks
        self._decide = decide
        self._is_own = is_own
        self._open: dict[AskId, _Shown] = {}

    def show(self, ask: Ask, where: Any) -> None:
        """Show an ask; `where` is what `decide` needs to know about its place."""
        if ask.id not in self._open:
            shown = self._open[ask.id] = _Shown(ask.of_house, anyio.CancelScope(), anyio.Event())
            self._tasks.start_soon(self._answer, shown, ask, where)

    async def close(self, id: AskId) -> None:
        """Withdraw the dialog of an ask; the client is told before anything that follows."""
        if shown := self._open.pop(id, None):
            shown.scope.cancel()
            await shown.closed.wait()

    async def watch(self) -> None:
        while True:
            await self.close_settled()
            await self._host.clock.sleep(POLL_S)

    async def close_settled(self) -> None:
        """Close the asks of Pilothouse itself that were settled."""
        for id in [id for id, shown in self._open.items() if shown.of_app]:
            if await self._find_open(id) is None:
                await self.close(id)

    async def _find_open(self, id: AskId) -> Ask | None:
        row = await query_desk(self._desk, self._host.clock, self._author, "ask", id=id)
        return row.ask if row is not None and row.state == "open" else None

    async def _answer(self, shown: _Shown, ask: Ask, where: Any) -> None:
        try:
            with shown.scope:
                await self._settle(ask.id, where)
        finally:
            shown.closed.set()

    async def _settle(self, id: AskId, where: Any) -> None:
        """Ask the person, again if their answer was refused, such as a choice that does not exist."""
        for attempt in range(1, MOST_ATTEMPTS + 1):
            ask = await self._find_open(id)
            if ask is None:
                return
            decision = await self._decide(ask, where) if attempt < MOST_ATTEMPTS else None
            if decision is None and self._is_own(where):
                decision = Decision("deny", text=NO_DIALOG if attempt == 1 else BAD_ANSWERS)
            if decision is None or await self._tell(ask, decision):
                return

    async def _tell(self, ask: Ask, decision: Decision) -> bool:
        """Give the answer, once the store is available; False if it was refused."""
        while True:
            try:
                with anyio.CancelScope(shield=True):
                    told = await self._desk.answer(ask.id, ask.payload_hash, decision, self._author)
            except StoreUnavailable:
                await self._host.clock.sleep(RETRY_S)
            except PilothouseError as error:
                self._host.log("client.answer_failed", level="warning", ask=ask.id, error=str(error))
                return False
            else:
                if not told.accepted:
                    self._host.log("client.answer_refused", ask=ask.id, text=told.text)
                return told.accepted


IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/webp", "image/gif"})


async def keep_image(blobs: Blobs, kind: str, text: str, number: int) -> Attachment:
    """Store an image. Raises `RequestError` if its type is not known or its text is not base64."""
    if kind not in IMAGE_TYPES:
        known = ", ".join(sorted(IMAGE_TYPES))
        raise RequestError(INVALID_PARAMS, f"The image has the type {kind!r}; possible are {known}.")
    try:
        data = base64.b64decode(text, validate=True)
    except ValueError as error:  # `binascii.Error`, or a character outside of ASCII
        raise RequestError(INVALID_PARAMS, f"The image is not base64: {error}.") from error
    return await blobs.put(data, f"image-{number}.{kind.partition('/')[2]}", kind)
