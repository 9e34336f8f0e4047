"""Takes answers from channels, and expires what nobody answered (law 6)."""

from __future__ import annotations

import msgspec

from pilothouse.core.ask import Decision
from pilothouse.core.channel import Answered
from pilothouse.core.errors import Fenced, StoreError
from pilothouse.core.event import clean_values
from pilothouse.core.ids import AskId, ConversationId
from pilothouse.core.message import Author, clean_text
from pilothouse.core.store import Tx
from pilothouse.runtime.answers import Answer, Answers
from pilothouse.runtime.asking import expire
from pilothouse.runtime.ports import Ports
from pilothouse.runtime.signals import ASKS, INBOX, OUTBOX, Signals, control_of

EXPIRE_AT_ONCE = 200
MOST_INPUT_BYTES = 4_000_000


class Answering:
    def __init__(self, ports: Ports) -> None:
        self._ports = ports

    async def answer(self, ask_id: AskId, payload_hash: str, decision: Decision, by: Author) -> Answered:
        ports, at = self._ports, self._ports.clock.now()
        text = clean_text(decision.text)
        if len(text) > ports.settings().max_message_chars:
            return Answered(False, "This answer is too long and was not taken.")
        at -= ports.jumped_s()  # the ask's time is that of before the jump, until the jump was made up for
        instead = None if decision.input is None else clean_values(decision.input)
        if instead is not None and len(msgspec.json.encode(instead)) > MOST_INPUT_BYTES:
            return Answered(False, "What you changed it to is too long and was not taken.")
        decision = msgspec.structs.replace(decision, by=by.id, text=text, input=instead)
        answer = Answer(ask_id, payload_hash, decision, by, at)
        answers = Answers(ports.settings(), ports.ids, ports.tool_class)
        taken = await ports.store.write(lambda tx: answers.take(tx, answer))
        ports.signals.poke(OUTBOX)
        if taken.row is not None:
            ports.signals.poke(INBOX, ASKS, *map(control_of, taken.wake))
        ports.log(
            "ask.answered",
            ask_id=ask_id,
            by=by.id,
            verdict=decision.verdict,
            accepted=taken.answered.accepted,
        )
        return taken.answered

    async def run(self) -> None:
        """Expires asks for ever. An ask that expires is a "no"."""
        ports = self._ports
        while True:
            ticket = ports.signals.ticket(ASKS)
            try:
                if not ports.jumped_s():
                    await self.expire()
                next_at = await ports.store.read(lambda tx: tx.asks.next_expiry())
            except Fenced:
                raise
            except StoreError as error:
                ports.log("asks.expiry_postponed", level="warning", error=str(error))
                next_at = None
            pause_s = 5.0 if next_at is None else min(5.0, max(0.05, next_at - ports.clock.now()))
            await Signals.wait(ticket, pause_s)

    async def expire(self) -> None:
        ports, now = self._ports, self._ports.clock.now()
        if not await ports.store.read(lambda tx: tx.asks.expired(now, limit=1)):
            return

        def unit(tx: Tx) -> set[ConversationId]:
            rows = tx.asks.expired(now, limit=EXPIRE_AT_ONCE)
            for row in rows:
                expire(tx, ports.ids, row, now)
            turns = [tx.turns.get(row.turn_id) for row in rows]
            return {turn.conversation_id for turn in turns if turn}

        wake = await ports.store.write(unit)
        ports.signals.poke(ASKS, INBOX, OUTBOX, *map(control_of, wake))
