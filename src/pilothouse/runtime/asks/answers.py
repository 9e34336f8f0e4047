"""Answers to asks, by the same rules for a button, a reply and the shell (law 6); and the expiry of open asks.

One transaction checks the payload hash, the person's current role, and that the ask is still open. The answer then
counts, or it is refused and audited.
"""

from __future__ import annotations

from functools import partial

import msgspec
from msgspec import Struct

from pilothouse.core.ask import Ask, AskRow, Decision, answer_problem, parse_reply
from pilothouse.core.channel import Answered
from pilothouse.core.errors import Fenced, StoreError
from pilothouse.core.event import clean_values
from pilothouse.core.facts import REFUSED_ANSWERS
from pilothouse.core.ids import AskId, ConversationId, EngineId, IdMaker, UserId
from pilothouse.core.message import Author, InboundMessage, MessageRef, clean_text
from pilothouse.core.people import (
    Authority,
    Role,
    Vote,
    allows,
    describe_approvers,
    may_say_no,
    may_say_yes,
    valid_votes,
    was_asked,
)
from pilothouse.core.policy import Classify
from pilothouse.core.store import Tx
from pilothouse.core.text import first_line
from pilothouse.runtime.asks.call import with_input
from pilothouse.runtime.asks.closed import closed_line, decision_text
from pilothouse.runtime.asks.settle import apply_answer, expire
from pilothouse.runtime.asks.show import ask_of, places_of, tell_places
from pilothouse.runtime.audit import record, record_ask
from pilothouse.runtime.ports import Ports, ReadEngineCall, Topics, no_call
from pilothouse.runtime.roles import name_of, role_of
from pilothouse.runtime.settings import Settings
from pilothouse.runtime.signals import ASKS, INBOX, OUTBOX, Signals, control_of

DAY_S = 86_400.0
REFUSALS_A_DAY = 20
"""Audited refusals of one stranger; of all strangers together, fifty times as many."""
EXPIRE_AT_ONCE = 200
MOST_INPUT_BYTES = 4_000_000
NO_ENGINE = EngineId("")


class Answer(Struct, frozen=True):
    """An answer as it arrived, with the hash of the payload that its sender saw."""

    ask_id: AskId
    payload_hash: str
    decision: Decision
    by: Author
    at: float


class AnswerResult(Struct, frozen=True):
    answered: Answered
    row: AskRow | None = None
    """The ask, if it is settled now."""
    wake: tuple[ConversationId, ...] = ()
    """Conversations whose turns must be signalled."""


class _Refusal(Struct, frozen=True):
    kind: str
    text: str


class Answers:
    """Checks and applies answers, inside a transaction."""

    def __init__(
        self,
        settings: Settings,
        ids: IdMaker,
        tool_class: Classify,
        topics: Topics,
        read_call: ReadEngineCall = no_call,
    ) -> None:
        self._settings = settings
        self._ids = ids
        self._tool_class = tool_class
        self._topics = topics
        self._read_call = read_call

    def take(self, tx: Tx, answer: Answer, *, tell: bool = False) -> AnswerResult:
        """Take an answer. `tell` posts the result in the conversation too, for answers from elsewhere."""
        row = tx.asks.get(answer.ask_id)
        if row is not None:
            answer = msgspec.structs.replace(answer, decision=_plain(row.ask, answer.decision))
        refused = self._refusal(tx, row, answer)
        if row is None or refused is not None:
            refused = refused or _Refusal("unknown", "There is no such question.")
            self._write_down(tx, answer, refused)
            return AnswerResult(Answered(False, refused.text))
        return self._vote(tx, row, answer) or self._settle(tx, row, answer, tell=tell)

    def apply(self, tx: Tx, row: AskRow, decision: Decision, at: float, *, name: str = "") -> None:
        """Settle an open ask by a checked decision."""
        apply_answer(tx, self._ids, self._topics, row, decision, at, name=name)

    def role(self, tx: Tx, authority: Authority, user: UserId) -> Role:
        return role_of(tx, self._settings.people, user, authority.workspace)

    def may_answer(self, tx: Tx, authority: Authority, user: UserId) -> bool:
        if not may_say_yes(authority, user, "owner"):
            return False  # not even an owner could: saves looking up the role
        return may_say_yes(authority, user, self.role(tx, authority, user))

    def question_for(
        self, tx: Tx, place: ConversationId, message: InboundMessage, at: float
    ) -> AskRow | None:
        """Return the open question that this message answers: the one that it replies to, else the oldest.

        A message to others answers only a question addressed to its author, and if that has options, only by naming one."""
        by, overheard = message.author.id, message.overheard

        def accepts(authority: Authority) -> bool:
            return (not overheard or was_asked(authority, by)) and self.may_answer(tx, authority, by)

        asked = _replied_to(tx, place, message, at)
        if asked is not None and accepts(asked.authority):
            return asked
        row = tx.asks.open_question(place, at, accepts, session_id=message.session_id)
        if row is None or not overheard or row.ask.free_text:
            return row
        return row if parse_reply(row.ask, message.whole_text).options else None

    def still_holds(self, tx: Tx, row: AskRow) -> bool:
        """True if the stored yes would still count: roles may have been revoked since."""
        if row.decision is None or row.decision.verdict == "deny" or row.decision.by is None:
            return True
        votes = (*row.votes, Vote(row.decision.by, "", 0.0))
        role = partial(self.role, tx, row.authority)
        return len(valid_votes(row.authority, votes, role)) >= row.authority.approvers.quorum

    def _refusal(self, tx: Tx, row: AskRow | None, answer: Answer) -> _Refusal | None:
        """Return why this answer does not count; None if it does."""
        if row is None:
            return _Refusal("unknown", "There is no such question.")
        decision, by = answer.decision, answer.by.id
        role = self.role(tx, row.authority, by)
        if not allows(role, "desk.answer") or not may_say_no(row.authority, by, role):
            return _Refusal("foreign", f"You may not answer this. {_who(row)}".rstrip())
        if row.ask.payload_hash != answer.payload_hash:
            text = "The question has changed since you saw it. Nothing was done; look at it again."
            return _Refusal("forged", text)
        if row.state == "answered" and row.decision is not None:
            who = name_of(tx, row.decision.by) if row.decision.by else "a rule"
            text = f"Already answered by {who}: {decision_text(row.ask, row.decision)}."
            return _Refusal("repeated" if _same(row.decision, decision, by) else "replayed", text)
        if row.state != "open" or (row.ask.expires_at is not None and row.ask.expires_at <= answer.at):
            state = row.state if row.state != "open" else "expired"
            return _Refusal("stale", f"This question is no longer open ({state}).")
        if wrong := answer_problem(row.ask, decision):
            return _Refusal("misfit", wrong)
        if decision.verdict == "answer" and row.authority.approvers.quorum > 1:
            return _Refusal("misfit", "Several people must approve this: allow it, or deny it.")
        if decision.verdict != "deny":
            return self._yes_refusal(tx, row, decision, by, role)
        return None

    def _yes_refusal(
        self, tx: Tx, row: AskRow, decision: Decision, by: UserId, role: Role
    ) -> _Refusal | None:
        authority = row.authority
        if not may_say_yes(authority, by, role):
            return _Refusal("foreign", f"You may not allow this. {_who(row)}".rstrip())
        if not (allows(role, f"button.{decision.verdict}") and allows(role, f"button.{decision.remember}")):
            return _Refusal(
                "foreign", "Only an admin may always allow this. Allow it once, or for this session."
            )
        if authority.approvers.quorum > 1 and decision.remember != "once":
            return _Refusal(
                "misfit", "Several people must approve this each time: it can only be allowed once."
            )
        if decision.input is None:
            return None
        # A changed input was not shown to others: the person must be allowed to approve it alone.
        session = tx.sessions.get(row.session_id)
        read = partial(self._read_call, session.engine if session else NO_ENGINE)
        changed = with_input(row.ask, decision.input, read)
        approvers = self._settings.approvals[self._tool_class(changed.call)]
        instead = msgspec.structs.replace(authority, approvers=approvers)
        if approvers.quorum > 1 or authority.approvers.quorum > 1 or not may_say_yes(instead, by, role):
            return _Refusal("foreign", "You may allow this only as it was asked, without changes.")
        return None

    def _vote(self, tx: Tx, row: AskRow, answer: Answer) -> AnswerResult | None:
        """Count one yes of several; None if it is enough, or if the answer is a no."""
        authority, needed = row.authority, row.authority.approvers.quorum
        if needed < 2 or answer.decision.verdict == "deny":
            return None
        role = partial(self.role, tx, authority)
        before = valid_votes(authority, row.votes, role)
        said = any(vote.by == answer.by.id for vote in before)
        votes = before if said else [*before, Vote(answer.by.id, answer.by.name, answer.at)]
        if votes != list(row.votes):
            tx.asks.vote(row.ask.id, votes)
        if len(votes) >= needed:
            return None
        text = f"{len(votes)} of {needed} said yes: {first_line(row.ask.title, 200)}"
        if said:
            return AnswerResult(Answered(False, f"You have already said yes. {text}"))
        record_ask(tx, row, "vote", answer.at, answer.by.id)
        occasion = f"vote:{answer.by.id}:{answer.at}"
        tell_places(
            tx, self._ids, row, f"{text} (the last was {answer.by.name})", occasion=occasion, at=answer.at
        )
        return AnswerResult(Answered(True, text))

    def _settle(self, tx: Tx, row: AskRow, answer: Answer, *, tell: bool) -> AnswerResult:
        decision = msgspec.structs.replace(answer.decision, by=answer.by.id)
        wants_reason = decision.reason_wanted and not decision.text and row.ask.kind != "question"
        decision = msgspec.structs.replace(
            decision, reason_wanted=decision.verdict == "deny" and wants_reason and not row.topic
        )
        self.apply(tx, row, decision, answer.at, name=answer.by.name)
        text = closed_line(row.ask, "answered", decision, answer.by.name)
        if tell or row.shown_in:  # for people who cannot see the question's message change
            tell_places(tx, self._ids, row, text, occasion="settled", at=answer.at)
        turn = tx.turns.get(row.turn_id)
        wake = (*places_of(row), *((turn.conversation_id,) if turn else ()))
        return AnswerResult(Answered(True, text), row, wake)

    def _write_down(self, tx: Tx, answer: Answer, refused: _Refusal) -> None:
        """Audit a refused answer, with a daily limit for strangers so that they cannot fill the disk."""
        by, at = answer.by.id, answer.at
        if refused.kind == "repeated":
            return
        if role_of(tx, self._settings.people, by) == "stranger" and not tx.people.of(by):
            if tx.tally(REFUSED_ANSWERS.of(by), at, DAY_S) > REFUSALS_A_DAY:
                return
            if tx.tally(REFUSED_ANSWERS.name, at, DAY_S) > REFUSALS_A_DAY * 50:
                return
        digest, verdict = answer.payload_hash, answer.decision.verdict
        record(tx, at, by, "ask.refused", ask=answer.ask_id, hash=digest, verdict=verdict, why=refused.kind)


def _who(row: AskRow) -> str:
    if row.authority.only is not None:
        return "It was addressed to another person."
    return describe_approvers(row.authority.approvers) or "Needs the requester, an admin or an owner."


def _plain(ask: Ask, decision: Decision) -> Decision:
    """Turn a text answer to an approval into a no with that text as its reason."""
    if ask.kind == "question" or decision.verdict != "answer" or decision.options:
        return decision
    return Decision("deny", text=decision.text, by=decision.by)


def _same(before: Decision, now: Decision, by: UserId) -> bool:
    """True if a platform delivered the same button press twice."""
    return before.by == by and (before.verdict, before.options) == (now.verdict, now.options)


def _replied_to(tx: Tx, place: ConversationId, message: InboundMessage, at: float) -> AskRow | None:
    """Return the open question that the message replies to."""
    said = tx.outbox.find_ref(MessageRef(message.address, message.reply_to)) if message.reply_to else None
    row = None if said is None else ask_of(tx, said)
    if row is None or row.conversation_id != place or row.state != "open" or row.ask.kind != "question":
        return None
    return None if row.ask.expires_at is not None and row.ask.expires_at <= at else row


class AnswerService:
    """Takes answers from channels, and expires asks."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports

    async def answer(self, ask_id: AskId, payload_hash: str, decision: Decision, by: Author) -> Answered:
        ports, at = self._ports, self._ports.clock.now()
        text = clean_text(decision.text)
        if len(text) > ports.settings().max_message_chars:
            return Answered(False, "Your answer is too long and was not accepted.")
        at -= ports.jumped_s()  # stored expiry times are from before the clock jump until they are shifted
        instead = None if decision.input is None else clean_values(decision.input)
        if instead is not None and len(msgspec.json.encode(instead)) > MOST_INPUT_BYTES:
            return Answered(False, "Your changed input is too long and was not accepted.")
        decision = msgspec.structs.replace(decision, by=by.id, text=text, input=instead)
        answer = Answer(ask_id, payload_hash, decision, by, at)
        answers = Answers(ports.settings(), ports.ids, ports.tool_class, ports.topics, ports.read_call)
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
        """Expire asks until cancelled. An expired ask is a "no"."""
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
                expire(tx, ports.ids, ports.topics, row, now)
            turns = [tx.turns.get(row.turn_id) for row in rows]
            return {turn.conversation_id for turn in turns if turn}

        wake = await ports.store.write(unit)
        ports.signals.poke(ASKS, INBOX, OUTBOX, *map(control_of, wake))
