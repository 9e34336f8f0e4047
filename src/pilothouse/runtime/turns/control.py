"""Control of a running turn: passes on stops, answers and steering messages, and detects hangs.

It reads the store after each signal, and every few seconds without one. A message that the engine cannot take stays in
the queue, and its sender is told.
"""

from __future__ import annotations

from collections.abc import Callable

import anyio
import msgspec

from pilothouse.core.ask import AskRow
from pilothouse.core.conversation import Conversation
from pilothouse.core.engine import DetectsHangs, EngineSession, Interruptible, Steerable
from pilothouse.core.errors import Fenced, StoreError
from pilothouse.core.event import PromptAdded
from pilothouse.core.ids import MessageId
from pilothouse.core.message import WAKE, Content, InboundMessage
from pilothouse.core.outcome import Failure
from pilothouse.core.queue import QueueRow
from pilothouse.core.store import Tx
from pilothouse.core.turn import Prompt, Turn
from pilothouse.runtime.conversations.binding import bound
from pilothouse.runtime.outbox import say
from pilothouse.runtime.ports import OUTBOX, Ports, Signals, control_of
from pilothouse.runtime.turns.asks import TurnAsks
from pilothouse.runtime.turns.prompt import frame
from pilothouse.runtime.turns.record import Recorder
from pilothouse.runtime.turns.start import sender_has_access

_decode = msgspec.json.Decoder(InboundMessage).decode

WATCH_EVERY_S = 2.0
NOT_PASSED_ON = "The running turn could not take your message. It is queued and runs next."


class TurnControl:
    """`scope` is cancelled when the turn must end now: first that of its opening, later that of its reading."""

    def __init__(
        self,
        ports: Ports,
        turn: Turn,
        recorder: Recorder,
        asks: TurnAsks,
        scope: anyio.CancelScope,
        hint: anyio.Event,
        release: Callable[[], None],
    ) -> None:
        self._ports = ports
        self._turn = turn
        self._recorder = recorder
        self._asks = asks
        self._hint = hint
        self._release = release
        self._not_passed_on: set[MessageId] = set()
        self._heard_at = ports.clock.monotonic()
        self.scope = scope
        self.session: EngineSession | None = None
        self.stopping = False
        self.has_steered = False
        """A message was passed on to the session, which alone knows whether the model has read it."""
        self.failure: Failure | None = None
        """The reason, if the gateway stopped the turn; None if a person did."""

    def note_activity(self) -> None:
        self._heard_at = self._ports.clock.monotonic()

    async def run(self) -> None:
        """Poll until cancelled. `hint` was taken before the turn began, so a quick turn costs no read."""
        await self._pause(self._hint)
        while True:
            ticket = self._ports.signals.ticket(control_of(self._turn.conversation_id))
            try:
                await self._look()
            except Fenced:
                raise
            except StoreError as error:
                self._log("turn.look_failed", level="warning", error=str(error))
            self._check_hang()
            self._check_hold()
            await self._pause(ticket)

    async def _pause(self, ticket: anyio.Event) -> None:
        await Signals.wait(ticket, min(WATCH_EVERY_S, self._ports.settings().hang_after_s / 4))

    async def interrupt(self) -> None:
        """Ask the engine to stop, and cancel after a grace period."""
        if self.stopping:
            return
        self.stopping = True
        self._log("turn.stopping")
        if not isinstance(self.session, Interruptible):
            self.scope.cancel()
            return
        self.scope.deadline = anyio.current_time() + self._ports.settings().stop_grace_s
        try:
            await self.session.interrupt()
        except Exception as error:  # noqa: BLE001 - one turn: it is stopped without the engine's help
            self._log("turn.interrupt_failed", level="error", error=error)
            self.scope.cancel()

    def give_up(self, failure: Failure) -> None:
        """End the turn now, with this failure."""
        self.failure = failure
        self.stopping = True
        self.scope.cancel()

    async def _look(self) -> None:
        turn_id, conversation_id = self._turn.id, self._turn.conversation_id

        def unit(tx: Tx) -> tuple[Turn | None, list[AskRow], Conversation | None, list[QueueRow]]:
            settled = self._asks.settled_in(tx)
            stored = tx.conversations.get(conversation_id)
            conversation = None if stored is None else bound(tx, stored)
            return tx.turns.get(turn_id), settled, conversation, tx.inbox.waiting(conversation_id)

        turn, settled, conversation, waiting = await self._ports.store.read(unit)
        if turn is not None and turn.stop_requested:
            await self.interrupt()
        if self.session is None:
            return
        for row in settled:
            self.note_activity()
            await self._asks.settle(self.session, row)
        policy = (conversation.busy if conversation else None) or self._ports.settings().busy
        if policy == "steer":
            await self._pass_on([row for row in waiting if self._is_ours(row)])

    def _check_hang(self) -> None:
        """Treat long silence as a hang, unless a tool runs, an ask is open, or the session detects hangs itself."""
        if isinstance(self.session, DetectsHangs) and self.session.detects_hangs:
            return
        quiet_s = self._ports.clock.monotonic() - self._heard_at
        if quiet_s < self._ports.settings().hang_after_s or self.stopping:
            return
        if self._recorder.view.open_actions or self._asks.open:
            return
        self.give_up(Failure("hang", f"The engine said nothing for {quiet_s:.0f} s and was stopped."))

    def _check_hold(self) -> None:
        """Let the engine go once only answers are missing, for long. Another tool that runs, or a session that cannot be
        resumed, keeps it."""
        asks, quiet_s = self._asks.count, self._ports.clock.monotonic() - self._heard_at
        if not asks or self.stopping or quiet_s < self._ports.settings().hold_s:
            return
        if self._recorder.resume is not None and len(self._recorder.view.open_actions) <= asks:
            self._release()

    async def _pass_on(self, rows: list[QueueRow]) -> None:
        place, settings = self._turn.conversation_id, self._ports.settings()
        for row in rows:
            if not await self._ports.store.read(
                lambda tx, row=row: sender_has_access(tx, settings, place, row)
            ):
                self._not_passed_on.add(row.id)  # the next turn drops it, and says so
                continue
            prompt = frame([_decode(row.body)])
            if await self._steer(prompt):
                self._recorder.take(PromptAdded(prompt.text, prompt.by))
                await self._recorder.commit(lambda tx, row=row, prompt=prompt: self._adopt(tx, row, prompt))
            else:
                await self._leave_waiting(row)

    def _is_ours(self, row: QueueRow) -> bool:
        """False for messages to another session, or that must be a turn of their own."""
        if row.kind == WAKE or row.id in self._not_passed_on:
            return False
        message = _decode(row.body)
        return not message.alone and message.session_id in (None, self._turn.session_id)

    async def _steer(self, prompt: Prompt) -> bool:
        if self.stopping or not isinstance(self.session, Steerable):
            return False
        self.has_steered = True
        try:
            return await self.session.steer(prompt)
        except Exception as error:  # noqa: BLE001 - one turn: the message stays queued, as if refused
            self._log("turn.steer_failed", level="error", error=error)
            return False

    async def _leave_waiting(self, row: QueueRow) -> None:
        self._not_passed_on.add(row.id)
        ports = self._ports
        content = Content(NOT_PASSED_ON, "notice")
        key, now = f"not-passed-on:{row.id}", ports.clock.now()
        await ports.persist(lambda tx: say(tx, ports.ids, row.conversation_id, content, key=key, at=now))
        ports.signals.poke(OUTBOX)

    def _adopt(self, tx: Tx, row: QueueRow, prompt: Prompt) -> None:
        """Give the message to the turn. If the turn runs again, the steered text is part of its prompt."""
        tx.inbox.claim([row.id], turn_id=self._turn.id)
        turn = tx.turns.get(self._turn.id)
        if turn is not None:
            both = msgspec.structs.replace(
                turn.prompt,
                text=f"{turn.prompt.text}\n\n{prompt.text}",
                attachments=(*turn.prompt.attachments, *prompt.attachments),
                authors=tuple(dict.fromkeys((*turn.prompt.authors, *prompt.authors))),
                by_owner=False,  # the text may be another person's
                commands=False,
            )
            tx.turns.note(turn.id, prompt=both)

    def _log(self, event: str, **fields: object) -> None:
        self._ports.log(event, turn_id=self._turn.id, **fields)
