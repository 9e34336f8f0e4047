"""Answers to asks, by the same rules for a button, a reply and the shell (law 6).

One transaction checks the payload hash, the person's current role, and that the ask is still open. The answer then
counts, or it is refused and audited.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import msgspec
from msgspec import Struct

from pilothouse.core.ask import Ask, AskRow, Decision, answer_problem, parse_reply, parse_word
from pilothouse.core.ask_view import subject
from pilothouse.core.channel import Answered
from pilothouse.core.event import clean_values
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
from pilothouse.core.schedule import split_task_place
from pilothouse.core.store import Tx
from pilothouse.runtime.asks.outcome import closed_line, decision_text
from pilothouse.runtime.asks.settle import apply_answer, unseen_places
from pilothouse.runtime.asks.show import ask_of, places_of, tell_places, with_input
from pilothouse.runtime.audit import record, record_ask
from pilothouse.runtime.facts import REFUSED_ANSWERS
from pilothouse.runtime.outbox import was_shown_before
from pilothouse.runtime.ports import (
    ASKS,
    INBOX,
    OUTBOX,
    PLACES,
    Ports,
    ReadEngineCall,
    Topics,
    control_of,
    no_call,
)
from pilothouse.runtime.roles import name_of, note_use, role_of
from pilothouse.runtime.settings import Settings

DAY_S = 86_400.0
REFUSALS_A_DAY = 20
"""Audited refusals of one stranger; of a known person three times as many, of all strangers together fifty times."""
MOST_INPUT_BYTES = 4_000_000
NO_ENGINE, NOWHERE = EngineId(""), ConversationId("")
TASK_TOPICS = "schedule."
"""The topics of asks about a schedule begin so."""


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


class Answers(Struct, frozen=True):
    """Checks and applies answers, inside a transaction."""

    settings: Settings
    ids: IdMaker
    tool_class: Classify
    topics: Topics
    read_call: ReadEngineCall = no_call

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
        apply_answer(tx, self.ids, self.topics, row, decision, at, name=name)

    def role(self, tx: Tx, authority: Authority, user: UserId) -> Role:
        return role_of(tx, self.settings.people, user, authority.workspace)

    def may_answer(self, tx: Tx, authority: Authority, user: UserId) -> bool:
        if not may_say_yes(authority, user, "owner"):
            return False  # not even an owner could: saves looking up the role
        return may_say_yes(authority, user, self.role(tx, authority, user))

    def question_for(
        self, tx: Tx, place: ConversationId, message: InboundMessage, at: float
    ) -> AskRow | None:
        """Return the open question that this message answers: the one that it replies to, else the oldest, if that was
        shown before the message was sent.

        A message to others answers only a question addressed to its author, and if that has options, only by naming one."""
        by, overheard = message.author.id, message.overheard

        def accepts(authority: Authority) -> bool:
            return (not overheard or was_asked(authority, by)) and self.may_answer(tx, authority, by)

        asked = _replied_to(tx, place, message, at)
        if asked is not None and accepts(asked.authority):
            return asked
        row = tx.asks.open_question(place, at, accepts, session_id=message.session_id)
        if row is None or not was_shown_before(tx, row, place, message):
            return None
        if not overheard or row.ask.free_text:
            return row
        return row if parse_reply(row.ask, message.whole_text).options else None

    def typed_answer(
        self, tx: Tx, place: ConversationId, message: InboundMessage, at: float, *, elsewhere: bool
    ) -> tuple[AskRow, Decision] | None:
        """Return the ask that a typed message answers, and its decision; None if it is a message like any other.
        `elsewhere` tells that it replies to a message of another conversation.

        In its own conversation, any text answers a question. Everything else needs words that can mean nothing else:
        yes, no, or an option, while exactly one ask is open to this person in this place, or in reply to it. Nothing that
        was sent before the ask was shown answers it."""
        text = message.whole_text
        question = None if elsewhere else self.question_for(tx, place, message, at)
        if question is not None:
            return question, parse_reply(question.ask, text)
        replied = _shown_by(tx, place, message)
        if message.overheard or (elsewhere and replied is None):
            return None
        by = message.author.id
        accepts = partial(self._may_settle, tx, by)
        if replied is None:
            found = tx.asks.open_at(place, at, accepts)
        else:
            found = [replied] if _is_open(replied, at) and accepts(replied.authority) else []
        if len(found) != 1:
            return None
        if replied is None and not (
            _takes_a_word(found[0]) and was_shown_before(tx, found[0], place, message)
        ):
            return None
        decision = parse_word(found[0].ask, text)
        if decision is None and found[0].ask.kind == "question":
            reply = parse_reply(found[0].ask, text)
            decision = reply if reply.options or replied is not None else None
        return None if decision is None else (found[0], decision)

    def _may_settle(self, tx: Tx, user: UserId, authority: Authority) -> bool:
        """Tell whether the person may answer. An ask that not even an owner could answer needs no look at roles."""
        return may_say_no(authority, user, "owner") and may_say_no(
            authority, user, self.role(tx, authority, user)
        )

    def still_holds(self, tx: Tx, row: AskRow) -> bool:
        """True if the stored yes would still count: roles may have been revoked since."""
        if row.decision is None or row.decision.verdict == "deny" or row.decision.by is None:
            return True
        votes = (*row.votes, Vote(row.decision.by, "", 0.0))
        return len(self._valid_votes(tx, row, votes)) >= self._quorum(row)

    def _authorities(self, row: AskRow) -> tuple[Authority, ...]:
        """Return who may answer by the rules when it was asked and, for a call of an engine, by those of now: a rule that
        was tightened meanwhile holds too."""
        if row.topic or row.ask.kind == "question":
            return (row.authority,)
        current = self.settings.approvals[self.tool_class(row.ask.call, row.authority.workspace)]
        return row.authority, msgspec.structs.replace(row.authority, approvers=current)

    def _quorum(self, row: AskRow) -> int:
        return max(authority.approvers.quorum for authority in self._authorities(row))

    def _valid_votes(self, tx: Tx, row: AskRow, votes: Iterable[Vote]) -> list[Vote]:
        found, role = list(votes), partial(self.role, tx, row.authority)
        for authority in self._authorities(row):
            found = valid_votes(authority, found, role)
        return found

    def _refusal(self, tx: Tx, row: AskRow | None, answer: Answer) -> _Refusal | None:
        """Return why this answer does not count; None if it does."""
        if row is None:
            return _Refusal("unknown", "There is no such question.")
        decision, by = answer.decision, answer.by.id
        role = self.role(tx, row.authority, by)
        if not allows(role, "desk.answer") or not may_say_no(row.authority, by, role):
            return _Refusal("foreign", f"You may not answer this. {_who(row.authority)}")
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
        if decision.verdict == "answer" and self._quorum(row) > 1:
            return _Refusal("misfit", "Several people must approve this: allow it, or deny it.")
        if decision.verdict != "deny":
            return self._yes_refusal(tx, row, decision, by, role)
        return None

    def _yes_refusal(
        self, tx: Tx, row: AskRow, decision: Decision, by: UserId, role: Role
    ) -> _Refusal | None:
        authority = row.authority
        for rule in self._authorities(row):
            if not may_say_yes(rule, by, role):
                return _Refusal("foreign", f"You may not allow this. {_who(rule)}")
        if not (allows(role, f"button.{decision.verdict}") and allows(role, f"button.{decision.remember}")):
            return _Refusal(
                "foreign", "Only an admin may always allow this. Allow it once, or for this session."
            )
        if self._quorum(row) > 1 and decision.remember != "once":
            return _Refusal(
                "misfit", "Several people must approve this each time: it can only be allowed once."
            )
        if decision.input is None:
            return None
        # A changed input was not shown to others: the person must be allowed to approve it alone.
        session = tx.sessions.get(row.session_id)
        read = partial(self.read_call, session.engine if session else NO_ENGINE)
        changed = with_input(row.ask, decision.input, read)
        approvers = self.settings.approvals[self.tool_class(changed.call, authority.workspace)]
        instead = msgspec.structs.replace(authority, approvers=approvers)
        if approvers.quorum > 1 or self._quorum(row) > 1 or not may_say_yes(instead, by, role):
            return _Refusal("foreign", "You may allow this only as it was asked, without changes.")
        return None

    def _vote(self, tx: Tx, row: AskRow, answer: Answer) -> AnswerResult | None:
        """Count one yes of several; None if it is enough, or if the answer is a no."""
        needed = self._quorum(row)
        if needed < 2 or answer.decision.verdict == "deny":
            return None
        before = self._valid_votes(tx, row, row.votes)
        said = any(vote.by == answer.by.id for vote in before)
        votes = before if said else [*before, Vote(answer.by.id, answer.by.name, answer.at)]
        if votes != list(row.votes):
            tx.asks.vote(row.ask.id, votes)
        if len(votes) >= needed:
            return None
        text = f"{len(votes)} of {needed} said yes: {subject(row.ask)}"
        if said:
            return AnswerResult(Answered(False, f"You have already said yes. {text}"))
        record_ask(tx, row, "vote", answer.at, answer.by.id)
        occasion = f"vote:{answer.by.id}:{answer.at}"
        tell_places(
            tx, self.ids, row, f"{text} (the last was {answer.by.name})", occasion=occasion, at=answer.at
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
        by_other = answer.by.id not in row.authority.requesters
        if tell or row.shown_in or by_other:  # for people who cannot see the question's message change
            unseen = unseen_places(tx, row)
            tell_places(tx, self.ids, row, text, occasion="settled", at=answer.at, but=unseen)
        turn = tx.turns.get(row.turn_id)
        wake = (*places_of(row), *((turn.conversation_id,) if turn else ()))
        return AnswerResult(Answered(True, text), row, wake)

    def _write_down(self, tx: Tx, answer: Answer, refused: _Refusal) -> None:
        """Audit a refused answer, with a daily limit for each person so that nobody can fill the disk."""
        by, at = answer.by.id, answer.at
        if refused.kind == "repeated":
            return
        stranger = role_of(tx, self.settings.people, by) == "stranger" and not tx.people.of(by)
        if tx.tally(REFUSED_ANSWERS.of(by), at, DAY_S) > REFUSALS_A_DAY * (1 if stranger else 3):
            return
        if stranger and tx.tally(REFUSED_ANSWERS.name, at, DAY_S) > REFUSALS_A_DAY * 50:
            return
        digest, verdict = answer.payload_hash, answer.decision.verdict
        record(tx, at, by, "ask.refused", ask=answer.ask_id, hash=digest, verdict=verdict, why=refused.kind)


def _who(authority: Authority) -> str:
    if authority.only is not None:
        return "It was addressed to another person."
    return describe_approvers(authority.approvers) or "Only the requester, an admin or an owner may answer."


def _plain(ask: Ask, decision: Decision) -> Decision:
    """Turn a text answer to an approval into a no with that text as its reason."""
    if ask.kind == "question" or decision.verdict != "answer" or decision.options:
        return decision
    return Decision("deny", text=decision.text, by=decision.by)


def _same(before: Decision, now: Decision, by: UserId) -> bool:
    """True if a platform delivered the same button press twice."""
    return before.by == by and (before.verdict, before.options) == (now.verdict, now.options)


def _is_open(row: AskRow, at: float) -> bool:
    return row.state == "open" and (row.ask.expires_at is None or row.ask.expires_at > at)


def _takes_a_word(row: AskRow) -> bool:
    """Tell whether a yes answers it that replies to nothing: asks of a turn, and those about a task of this chat. For our
    other asks nothing waits here, and a stray yes must not let a stranger in."""
    return not row.topic or bool(row.turn_id) or row.topic.startswith(TASK_TOPICS)


def _shown_by(tx: Tx, place: ConversationId, message: InboundMessage) -> AskRow | None:
    """Return the ask whose message this one replies to."""
    said = tx.outbox.find_ref(MessageRef(message.address, message.reply_to)) if message.reply_to else None
    row = None if said is None else ask_of(tx, said)
    return None if row is None or place not in {split_task_place(one)[0] for one in places_of(row)} else row


def _replied_to(tx: Tx, place: ConversationId, message: InboundMessage, at: float) -> AskRow | None:
    """Return the open question that the message replies to."""
    said = tx.outbox.find_ref(MessageRef(message.address, message.reply_to)) if message.reply_to else None
    row = None if said is None else ask_of(tx, said)
    if row is None or split_task_place(row.conversation_id)[0] != place or row.ask.kind != "question":
        return None
    return row if _is_open(row, at) else None


class AnswerService:
    """Takes answers from channels."""

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

        def unit(tx: Tx) -> AnswerResult:
            taken = answers.take(tx, answer)
            here = taken.row.conversation_id if taken.row is not None else NOWHERE
            if here.partition(":")[0] == by.id.partition(":")[0]:  # else it was answered on another channel
                note_use(tx, here, at)
            return taken

        taken = await ports.store.write(unit)
        ports.signals.poke(OUTBOX)
        if taken.row is not None:
            ports.signals.poke(INBOX, ASKS, PLACES, *map(control_of, taken.wake))
        ports.log(
            "ask.answered",
            ask_id=ask_id,
            by=by.id,
            verdict=decision.verdict,
            accepted=taken.answered.accepted,
        )
        return taken.answered
