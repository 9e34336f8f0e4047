"""The rules by which answers are taken, the same for a button, a reply and the shell (law 6).

One transaction checks what was asked, who answers, with which role at this moment, and whether it is still open; then
the answer counts, or it is refused and written down.

Takes answers from channels, and expires what nobody answered (law 6).
"""

from __future__ import annotations

from functools import partial

import msgspec
from msgspec import Struct

from pilothouse.core.ask import Ask, AskRow, Decision, misfit, parse_reply
from pilothouse.core.channel import Answered
from pilothouse.core.errors import Fenced, StoreError
from pilothouse.core.event import clean_values
from pilothouse.core.ids import AskId, ConversationId, IdMaker, UserId
from pilothouse.core.message import Author, InboundMessage, MessageRef, clean_text
from pilothouse.core.people import (
    Authority,
    Role,
    Vote,
    allows,
    counted,
    describe_approvers,
    may_say_no,
    may_say_yes,
    was_put_to,
)
from pilothouse.core.policy import Classify
from pilothouse.core.store import Tx
from pilothouse.core.text import first_line
from pilothouse.runtime.asks.closed import closed_line, decided
from pilothouse.runtime.asks.settle import apply_answer, expire
from pilothouse.runtime.asks.show import ask_of, places_of, tell_places
from pilothouse.runtime.audit import record, record_ask
from pilothouse.runtime.ports import Ports, Topics
from pilothouse.runtime.roles import name_of, role_of
from pilothouse.runtime.settings import Settings
from pilothouse.runtime.signals import ASKS, INBOX, OUTBOX, Signals, control_of

DAY_S = 86_400.0
REFUSALS_A_DAY = 20
"""Of one stranger, and what is written down of all of them together: fifty times as much."""

EXPIRE_AT_ONCE = 200
MOST_INPUT_BYTES = 4_000_000


class Answer(Struct, frozen=True):
    """An answer as it arrived: it names the ask and the hash of what its sender read."""

    ask_id: AskId
    payload_hash: str
    decision: Decision
    by: Author
    at: float


class Taken(Struct, frozen=True):
    answered: Answered
    row: AskRow | None = None
    """The ask, if it is settled now."""
    wake: tuple[ConversationId, ...] = ()
    """Whose turns should look."""


class _Refused(Struct, frozen=True):
    kind: str
    text: str


class Answers:
    """The rules by which answers are taken; the same for a button, a reply and the shell."""

    def __init__(
        self,
        settings: Settings,
        ids: IdMaker,
        tool_class: Classify,
        topics: Topics,
    ) -> None:
        self._settings = settings
        self._ids = ids
        self._tool_class = tool_class
        self._topics = topics

    def take(self, tx: Tx, answer: Answer, *, tell: bool = False) -> Taken:
        """`tell` says it in the conversation too: whoever answered was not there."""
        row = tx.asks.get(answer.ask_id)
        if row is not None:
            answer = msgspec.structs.replace(answer, decision=_plain(row.ask, answer.decision))
        refused = self._refusal(tx, row, answer)
        if row is None or refused is not None:
            refused = refused or _Refused("unknown", "There is no such question.")
            self._write_down(tx, answer, refused)
            return Taken(Answered(False, refused.text))
        return self._vote(tx, row, answer) or self._settle(tx, row, answer, tell=tell)

    def apply(self, tx: Tx, row: AskRow, decision: Decision, at: float, *, name: str = "") -> None:
        """Settle an open ask by a decision that was checked."""
        apply_answer(tx, self._ids, self._topics, row, decision, at, name=name)

    def role(self, tx: Tx, authority: Authority, user: UserId) -> Role:
        return role_of(tx, self._settings.people, user, authority.workspace)

    def may_answer(self, tx: Tx, authority: Authority, user: UserId) -> bool:
        if not may_say_yes(authority, user, "owner"):
            return False  # whoever they are: it spares a look at who they are
        return may_say_yes(authority, user, self.role(tx, authority, user))

    def question_for(
        self, tx: Tx, place: ConversationId, message: InboundMessage, at: float
    ) -> AskRow | None:
        """The open question that these words answer: the one that they reply to, else the oldest. Words to others only
        answer what was put to who said them, and where options are asked for, only if they name one."""
        by, overheard = message.author.id, message.overheard

        def accepts(authority: Authority) -> bool:
            return (not overheard or was_put_to(authority, by)) and self.may_answer(tx, authority, by)

        asked = _replied_to(tx, place, message, at)
        if asked is not None and accepts(asked.authority):
            return asked
        row = tx.asks.open_question(place, at, accepts, session_id=message.session_id)
        if row is None or not overheard or row.ask.free_text:
            return row
        return row if parse_reply(row.ask, message.whole_text).options else None

    def still_holds(self, tx: Tx, row: AskRow) -> bool:
        """Whether the stored yes would count today: those who said it may have been revoked meanwhile."""
        if row.decision is None or row.decision.verdict == "deny" or row.decision.by is None:
            return True
        votes = (*row.votes, Vote(row.decision.by, "", 0.0))
        role = partial(self.role, tx, row.authority)
        return len(counted(row.authority, votes, role)) >= row.authority.approvers.quorum

    def _refusal(self, tx: Tx, row: AskRow | None, answer: Answer) -> _Refused | None:
        """Why this answer does not count."""
        if row is None:
            return _Refused("unknown", "There is no such question.")
        decision, by = answer.decision, answer.by.id
        role = self.role(tx, row.authority, by)
        if not allows(role, "desk.answer") or not may_say_no(row.authority, by, role):
            return _Refused("foreign", f"You may not answer this. {_who(row)}".rstrip())
        if row.ask.payload_hash != answer.payload_hash:
            text = "This is not what was asked any more. Nothing was done; look at the question again."
            return _Refused("forged", text)
        if row.state == "answered" and row.decision is not None:
            who = name_of(tx, row.decision.by) if row.decision.by else "a rule"
            text = f"Already answered by {who}: {decided(row.ask, row.decision)}."
            return _Refused("repeated" if _same(row.decision, decision, by) else "replayed", text)
        if row.state != "open" or (row.ask.expires_at is not None and row.ask.expires_at <= answer.at):
            state = row.state if row.state != "open" else "expired"
            return _Refused("stale", f"This question is no longer open ({state}).")
        if wrong := misfit(row.ask, decision):
            return _Refused("misfit", wrong)
        if decision.verdict == "answer" and row.authority.approvers.quorum > 1:
            return _Refused("misfit", "Several people must say yes to this: allow it, or deny it.")
        if decision.verdict != "deny":
            return self._yes_refusal(row, decision, by, role)
        return None

    def _yes_refusal(self, row: AskRow, decision: Decision, by: UserId, role: Role) -> _Refused | None:
        authority = row.authority
        if not may_say_yes(authority, by, role):
            return _Refused("foreign", f"You may not allow this. {_who(row)}".rstrip())
        if not (allows(role, f"button.{decision.verdict}") and allows(role, f"button.{decision.remember}")):
            return _Refused(
                "foreign", "Only an admin may save that for good. Allow it once, or for this session."
            )
        if authority.approvers.quorum > 1 and decision.remember != "once":
            return _Refused(
                "misfit", "Several people must say yes to this: nobody can allow the next one alone."
            )
        if decision.input is None:
            return None
        # What they put in its place is not what was shown: it must be theirs to allow by itself, and alone.
        changed = {**row.ask.payload, "input": decision.input}
        approvers = self._settings.approvals[self._tool_class(changed)]
        instead = msgspec.structs.replace(authority, approvers=approvers)
        if approvers.quorum > 1 or authority.approvers.quorum > 1 or not may_say_yes(instead, by, role):
            return _Refused("foreign", "You may allow this only as it was asked, not something else instead.")
        return None

    def _vote(self, tx: Tx, row: AskRow, answer: Answer) -> Taken | None:
        """A yes that needs others beside it; None if it is enough, or if it is a no."""
        authority, needed = row.authority, row.authority.approvers.quorum
        if needed < 2 or answer.decision.verdict == "deny":
            return None
        role = partial(self.role, tx, authority)
        before = counted(authority, row.votes, role)
        said = any(vote.by == answer.by.id for vote in before)
        votes = before if said else [*before, Vote(answer.by.id, answer.by.name, answer.at)]
        if votes != list(row.votes):
            tx.asks.vote(row.ask.id, votes)
        if len(votes) >= needed:
            return None
        text = f"{len(votes)} of {needed} said yes: {first_line(row.ask.title, 200)}"
        if said:
            return Taken(Answered(False, f"You have said yes already. {text}"))
        record_ask(tx, row, "vote", answer.at, answer.by.id)
        occasion = f"vote:{answer.by.id}:{answer.at}"
        tell_places(
            tx, self._ids, row, f"{text} (the last was {answer.by.name})", occasion=occasion, at=answer.at
        )
        return Taken(Answered(True, text))

    def _settle(self, tx: Tx, row: AskRow, answer: Answer, *, tell: bool) -> Taken:
        decision = msgspec.structs.replace(answer.decision, by=answer.by.id)
        wants_reason = decision.reason_wanted and not decision.text and row.ask.kind != "question"
        decision = msgspec.structs.replace(
            decision, reason_wanted=decision.verdict == "deny" and wants_reason and not row.topic
        )
        self.apply(tx, row, decision, answer.at, name=answer.by.name)
        text = closed_line(row.ask, "answered", decision, answer.by.name)
        if tell or row.shown_in:  # for whoever cannot see the question change
            tell_places(tx, self._ids, row, text, occasion="settled", at=answer.at)
        turn = tx.turns.get(row.turn_id)
        wake = (*places_of(row), *((turn.conversation_id,) if turn else ()))
        return Taken(Answered(True, text), row, wake)

    def _write_down(self, tx: Tx, answer: Answer, refused: _Refused) -> None:
        """What was refused is audited; but nobody may fill our disk with it who was never let in."""
        by, at = answer.by.id, answer.at
        if refused.kind == "repeated":
            return
        if role_of(tx, self._settings.people, by) == "stranger" and not tx.people.of(by):
            if tx.tally(f"refused:{by}", at, DAY_S) > REFUSALS_A_DAY:
                return
            if tx.tally("refused", at, DAY_S) > REFUSALS_A_DAY * 50:
                return
        digest, verdict = answer.payload_hash, answer.decision.verdict
        record(tx, at, by, "ask.refused", ask=answer.ask_id, hash=digest, verdict=verdict, why=refused.kind)


def _who(row: AskRow) -> str:
    if row.authority.only is not None:
        return "It was put to somebody else."
    return describe_approvers(row.authority.approvers) or "Needs whoever asked, an admin or an owner."


def _plain(ask: Ask, decision: Decision) -> Decision:
    """Words where a yes or a no was asked for are a no with these words."""
    if ask.kind == "question" or decision.verdict != "answer" or decision.options:
        return decision
    return Decision("deny", text=decision.text, by=decision.by)


def _same(before: Decision, now: Decision, by: UserId) -> bool:
    """A platform brought the same press of the same button twice."""
    return before.by == by and (before.verdict, before.options) == (now.verdict, now.options)


def _replied_to(tx: Tx, place: ConversationId, message: InboundMessage, at: float) -> AskRow | None:
    """The question in whose message a person pressed "reply", if it is open."""
    said = tx.outbox.find_ref(MessageRef(message.address, message.reply_to)) if message.reply_to else None
    row = None if said is None else ask_of(tx, said)
    if row is None or row.conversation_id != place or row.state != "open" or row.ask.kind != "question":
        return None
    return None if row.ask.expires_at is not None and row.ask.expires_at <= at else row


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
        answers = Answers(ports.settings(), ports.ids, ports.tool_class, ports.topics)
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
                expire(tx, ports.ids, ports.topics, row, now)
            turns = [tx.turns.get(row.turn_id) for row in rows]
            return {turn.conversation_id for turn in turns if turn}

        wake = await ports.store.write(unit)
        ports.signals.poke(ASKS, INBOX, OUTBOX, *map(control_of, wake))
