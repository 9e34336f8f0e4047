"""Questions that an agent asks people by a tool, and waits for: asks like any other.

The call waits while the question is open, at most until its timeout. A call that would wait longer than an engine's turn
should is *parked*: it returns, the question stays open, and the answer starts the next turn as a message of the person
who gave it. So does an answer whose turn has ended in the meantime, as after a restart, and one whose call broke.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import anyio
import msgspec
from msgspec import Struct

from pilothouse.core.ask import Ask, AskRow, Decision, Option
from pilothouse.core.errors import StoreError
from pilothouse.core.ids import AskId, IdMaker, MessageId, TurnId
from pilothouse.core.message import Author, InboundMessage, inbox_key
from pilothouse.core.people import QUESTION, Authority
from pilothouse.core.store import Tx
from pilothouse.core.turn import LIVE
from pilothouse.runtime.agent_calls.caller import Caller, CallRefused, check_live
from pilothouse.runtime.asks.show import raise_ask
from pilothouse.runtime.conversations.follow_up import put_follow_up
from pilothouse.runtime.facts import PARKED_QUESTION
from pilothouse.runtime.ports import ASKS, OUTBOX, Ports, Signals
from pilothouse.runtime.roles import name_of

AGENT_QUESTION = "agent-question"
"""The topic of these asks."""
LOOK_S = 5.0
LONGEST_S = 7 * 86_400.0
MOST_CHARS = 4000
BEFORE_HANG_S = 60.0
"""A call returns so long before its turn would count as hung."""
LEAVE_WITHIN_S = 5.0
IS_PARKED, IS_LEFT = "parked", "left"
"""Values of `PARKED_QUESTION`."""
PARKED = (
    "Parked: the question stays open, and nobody has answered yet. Finish your turn; "
    "the answer will come as a message."
)


_RESPONSE = "[SYSTEM RESPONSE] Action: ask_user_question\nQuestion: {question}\nResult: {said}"


class Choice(Struct, frozen=True):
    """An option: its words for people, its value for the agent, and its words once it was chosen."""

    label: str
    value: str
    chosen_label: str = ""


async def ask_question(
    ports: Ports, caller: Caller, title: str, question: str, choices: Sequence[Choice], timeout_s: float
) -> str:
    """Ask, and return the answer. Raises `CallRefused` if nobody answers in time."""
    if not question.strip() or len(question) > MOST_CHARS:
        raise CallRefused(f"A question has 1 to {MOST_CHARS} characters.")
    if not 0 < timeout_s <= LONGEST_S:
        raise CallRefused(f"The timeout is {timeout_s:g} s; it must be above 0 and at most {LONGEST_S:g}.")
    id = AskId(f"ask-{hashlib.sha256(caller.key.encode()).hexdigest()[:12]}")
    await ports.store.write(lambda tx: _raise(tx, ports, caller, id, title, question, choices, timeout_s))
    ports.signals.poke(OUTBOX, ASKS)
    settings = ports.settings()
    wait_s = min(timeout_s, settings.question_park_s, max(1.0, settings.hang_after_s - BEFORE_HANG_S))
    try:
        row = await wait_settled(ports, id, wait_s)
        is_parked = row.state == "open" and wait_s < timeout_s
        if is_parked:
            row = await ports.store.write(lambda tx: _park(tx, id))
        if row.state == "answered":
            await ports.store.write(lambda tx: _take_back(tx, row, ports.clock.now()))
        return _told(row, choices, timeout_s, is_parked=is_parked)
    except BaseException:
        await _leave(ports, id)
        raise


def _raise(
    tx: Tx,
    ports: Ports,
    caller: Caller,
    id: AskId,
    title: str,
    question: str,
    choices: Sequence[Choice],
    timeout_s: float,
) -> None:
    """Store the question, unless a repeated call has stored it already."""
    check_live(tx, caller)
    if tx.asks.get(id) is not None:
        tx.set_fact(PARKED_QUESTION.of(id), "")  # it is awaited again
        return
    at, turn = ports.clock.now(), caller.turn
    ask = Ask(
        id,
        "question",
        f"{title.strip()}: {question.strip()}" if title.strip() else question.strip(),
        {
            "question": question,
            "options": [msgspec.to_builtins(choice) for choice in choices],
            "turn": turn.id,
            "key": caller.key,
        },
        options=tuple(
            Option(str(n), choice.label, choice.chosen_label) for n, choice in enumerate(choices, 1)
        ),
        free_text=True,
        expires_at=at + timeout_s,
        asker=ports.settings().engine_titles.get(turn.engine) or turn.engine.capitalize(),
    )
    authority = Authority(QUESTION, turn.prompt.authors, caller.session.workspace)

    def ids(prefix: str) -> str:
        return id if prefix == "ask" else ports.ids(prefix)

    # Without the turn, which must not wait for it: only a stop of the turn closes the question.
    raise_ask(tx, ids, ask, topic=AGENT_QUESTION, authority=authority, places=[caller.conversation.id], at=at)


async def wait_settled(ports: Ports, id: AskId, wait_s: float) -> AskRow:
    """Return the row once it is settled, or when the time is up."""
    until = ports.clock.monotonic() + wait_s
    while True:
        ticket = ports.signals.ticket(ASKS)
        row = await ports.store.read(lambda tx: tx.asks.get(id))
        if row is None:
            raise CallRefused("The question is no longer stored.")
        left_s = until - ports.clock.monotonic()
        if row.state != "open" or left_s <= 0:
            return row
        await Signals.wait(ticket, min(LOOK_S, left_s))


def _park(tx: Tx, id: AskId) -> AskRow:
    """From now on an answer is a message. Returns the row as it is: it may have been answered just now."""
    row = tx.asks.get(id)
    assert row is not None, "it was read before"
    if row.state == "open":
        tx.set_fact(PARKED_QUESTION.of(id), IS_PARKED)
    return row


def _take_back(tx: Tx, row: AskRow, at: float) -> None:
    """Withdraw the message with the answer, if an earlier try of the call had left the question: this one returns it."""
    passed_on = tx.inbox.by_key(inbox_key(row.conversation_id, f"answer:{row.ask.id}"))
    if passed_on is not None:
        tx.inbox.withdraw(passed_on.id, at, "the call returned the answer")


async def _leave(ports: Ports, id: AskId) -> None:
    """Note that the call ended without an answer: it was cancelled, or nobody answered in time."""

    def unit(tx: Tx) -> None:
        row = tx.asks.get(id)
        if row is None or row.state not in ("open", "answered"):
            return
        tx.set_fact(PARKED_QUESTION.of(id), IS_LEFT)
        if row.decision is not None:  # answered just now, and the call cannot return it any more
            settle_question(tx, ports.ids, row, row.decision, ports.clock.now())

    with anyio.move_on_after(LEAVE_WITHIN_S, shield=True):
        try:
            await ports.store.write(unit)
        except StoreError as error:
            ports.log("questions.not_left", level="warning", ask=id, error=str(error))


def _told(row: AskRow, choices: Sequence[Choice], timeout_s: float, *, is_parked: bool) -> str:
    if row.state == "open" and is_parked:
        return PARKED
    if row.state == "answered" and row.decision is not None:
        return words_of(choices, row.decision)
    raise CallRefused(f"Nobody answered within {timeout_s:g} s. Go on without an answer, or ask again later.")


def words_of(choices: Sequence[Choice], decision: Decision) -> str:
    """Return the values of the chosen options, then what was typed."""
    numbers = [int(key) for key in decision.options if key.isdecimal()]
    chosen = [choices[number - 1].value for number in numbers if 0 < number <= len(choices)]
    return "\n".join([*chosen, *([decision.text] if decision.text else [])]) or "No."


def settle_question(tx: Tx, ids: IdMaker, row: AskRow, decision: Decision, at: float) -> None:
    """Pass an answer on as a message, unless the call still waits for it."""
    turn = tx.turns.get(TurnId(str(row.ask.payload.get("turn"))))
    conversation = tx.conversations.get(row.conversation_id)
    if turn is None or conversation is None:
        return
    mark = tx.get_fact(PARKED_QUESTION.of(row.ask.id))
    parked = mark == IS_PARKED
    is_passed_on = bool(mark) if decision.by else parked  # an agent that was left has had its error
    if turn.status in LIVE and not is_passed_on:
        return
    tx.set_fact(PARKED_QUESTION.of(row.ask.id), "")
    choices = msgspec.convert(row.ask.payload.get("options"), list[Choice])
    question = row.ask.payload.get("question")
    if decision.by is None:
        put_follow_up(
            tx,
            ids,
            turn,
            key=inbox_key(conversation.id, f"answer:{row.ask.id}"),
            heading=f"nobody answered: {question}",
            text=_RESPONSE.format(question=question, said="nobody answered in time"),
            at=at,
            starts=parked,
        )
        return
    message = InboundMessage(
        conversation.address,
        Author(decision.by, name_of(tx, decision.by)),
        f"answer:{row.ask.id}",
        _RESPONSE.format(question=question, said=words_of(choices, decision)),
        sent_at=at,
        private=conversation.private,
        session_id=turn.session_id,
    )
    tx.inbox.put(
        id=MessageId(ids("msg")),
        key=inbox_key(conversation.id, message.native_id),
        conversation_id=conversation.id,
        kind=message.kind,
        body=msgspec.json.encode(message),
        at=at,
    )
