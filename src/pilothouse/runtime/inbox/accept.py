"""Stores a message in one transaction, and says what its sender is told.

The message answers an open question, is passed to the running turn, or waits in the queue.
"""

from __future__ import annotations

import msgspec

from pilothouse.core.ask import AskRow, Decision, is_secret
from pilothouse.core.channel import Receipt
from pilothouse.core.conversation import Conversation
from pilothouse.core.ids import ConversationId, IdMaker, MessageId
from pilothouse.core.message import BY_PEOPLE, Content, InboundMessage, conversation_id
from pilothouse.core.queue import NEVER, QueueRow, notes_waitlist
from pilothouse.core.store import Tx
from pilothouse.core.text import first_line, moment
from pilothouse.core.turn import Turn
from pilothouse.runtime.asks.answers import Answer, Answers
from pilothouse.runtime.asks.settle import supersede_lost
from pilothouse.runtime.commands.call import NotDone, Opening, Reply
from pilothouse.runtime.conversations.binding import GOES_ON, bound, find_target, replies_elsewhere
from pilothouse.runtime.conversations.pieces import head_of, is_stopped, keep_message, without_known
from pilothouse.runtime.conversations.places import ensure_place, message_key
from pilothouse.runtime.outbox import say, was_shown_before
from pilothouse.runtime.roles import note_author
from pilothouse.runtime.settings import Settings

GOT_IT = "Got it."
BUSY = "I'm still busy."
STOPPED = "Not run: it was sent before the last /stop."
ANSWER_IN_CHAT = "to answer it: pilothouse chat"
"""For a sender on a command line, which shows no question that could be answered."""
ANSWER_THERE = "answer it above"


class Accept:
    def __init__(
        self,
        message: InboundMessage,
        settings: Settings,
        answers: Answers,
        ids: IdMaker,
        at: float,
        opening: Opening | None = None,
    ) -> None:
        self._message = message
        self._settings = settings
        self._answers = answers
        self._ids = ids
        self._at = at
        self._opening = opening
        self.place = conversation_id(message.address)
        """The conversation of the message; final once the transaction ran."""
        self.wake: tuple[ConversationId, ...] = ()
        """Conversations whose turns the message answered."""

    def __call__(self, tx: Tx) -> Receipt:
        message = self._message
        conversation = ensure_place(tx, message.address, self._at, private=message.private)
        self.place = conversation.id
        if message.private and not conversation.private:  # created by a command, which does not say it
            conversation = msgspec.structs.replace(conversation, private=True)
            tx.conversations.save(conversation)
        if message.pieces:
            fresh = without_known(tx, message)
            if fresh is None:
                return self._duplicate(tx)
            message = self._message = fresh
        if is_stopped(tx, conversation.id, message):
            return Receipt("refused") if message.overheard else self._keep_stopped(tx, conversation)
        if message.kind in BY_PEOPLE and not message.overheard:
            target = find_target(tx, self._ids, self._settings, conversation, message, self._at)
            if target.refusal:
                return Receipt("refused", text=target.refusal)
            message = self._message = target.message
        asked = self._typed_answer(tx, conversation)
        if message.overheard and asked is None:  # intake saw one, but it was answered since
            return Receipt("refused")
        key, opened = message_key(message.address, message.native_id), Reply("")
        if self._opening is not None and tx.inbox.by_key(key) is None:
            opened = self._opening(tx, conversation)
            if isinstance(opened, NotDone):
                return Receipt("refused", text=opened.text)
            conversation = tx.conversations.get(conversation.id) or conversation
        note = message.kind == "system"
        put = keep_message(
            tx,
            self._ids,
            message,
            conversation.id,
            self._at,
            waitlist=notes_waitlist(conversation.id) if note else None,
            ready_at=NEVER if note else 0.0,
        )
        if not put.fresh:
            return self._duplicate(tx)
        if message.kind == "chat":
            note_author(tx, message.author, conversation, self._at)
        if note:
            return Receipt("queued", put.row.id, "Noted; it is passed on with your next message.")
        if asked is not None and (told := self._answer(tx, *asked, put.row.id)):
            return Receipt("queued", put.row.id, told)
        if message.kind in BY_PEOPLE:
            supersede_lost(tx, self._ids, {conversation.session_id, message.session_id}, self._at)
        told = f"{opened.text} {self._place_in_line(tx, conversation, put.row)}".strip()
        if message.alone:
            how = ANSWER_IN_CHAT if self._opening is None else ANSWER_THERE
            told = f"{told} {_still_open(tx, conversation, how)}".strip()
        return Receipt("queued", put.row.id, told)

    def _typed_answer(self, tx: Tx, conversation: Conversation) -> tuple[AskRow, Decision] | None:
        """Return the open ask that the message answers, and how.

        A message with attachments answers nothing, because an answer is text and the attachments would be lost. Nor
        does a reply to a message of another conversation.
        """
        message = self._message
        is_text = message.kind == "chat" and not message.attachments and not message.alone
        if not is_text:
            return None
        elsewhere = replies_elsewhere(tx, message)
        return self._answers.typed_answer(tx, conversation.id, message, self._at, elsewhere=elsewhere)

    def _keep_stopped(self, tx: Tx, conversation: Conversation) -> Receipt:
        put = keep_message(tx, self._ids, self._message, conversation.id, self._at)
        if not put.fresh:
            return self._duplicate(tx)
        tx.inbox.withdraw(put.row.id, self._at, "said before a stop")
        notice = Content(STOPPED, "notice", reply_to=self._message.native_id)
        say(tx, self._ids, conversation.id, notice, key=f"stopped:{put.row.id}", at=self._at)
        return Receipt("refused", put.row.id)

    def _duplicate(self, tx: Tx) -> Receipt:
        head = head_of(tx, self._message.address, self._message.native_id)
        return Receipt("duplicate", None if head is None else head.id)

    def _answer(self, tx: Tx, asked: AskRow, decision: Decision, id: MessageId) -> str:
        """Take the message as an answer, and return what its sender is told; empty if it does not count as one."""
        by, ask = self._message.author, asked.ask
        decision = msgspec.structs.replace(decision, by=by.id)
        taken = self._answers.take(tx, Answer(ask.id, ask.payload_hash, decision, by, self._at))
        if not taken.answered.accepted:
            return ""
        self.wake = taken.wake
        if is_secret(ask):
            emptied = msgspec.structs.replace(self._message, text="", file_text="", pieces=())
            tx.inbox.rewrite(id, msgspec.json.encode(emptied))
        tx.inbox.claim([id])
        tx.inbox.done(id, self._at, f"answered {ask.id}")
        return GOT_IT if ask.kind == "question" else f"{taken.answered.text}."

    def _place_in_line(self, tx: Tx, conversation: Conversation, put: QueueRow) -> str:
        live = tx.turns.live_in(conversation.id)
        ahead = [row for row in tx.inbox.waiting(conversation.id) if row.id != put.id]
        parked = tx.turns.of(conversation.id, statuses=("parked",), limit=1)
        if live is None and parked:
            return _behind_parked(parked[0], self._at)
        elsewhere = self._message.session_id not in (None, conversation.session_id)
        if live is None:
            told = "" if not ahead else _queued(len(ahead))
            return f"{told} {GOES_ON}".strip() if elsewhere else told
        return self._during(tx, live, conversation, len(ahead))

    def _during(self, tx: Tx, live: Turn, conversation: Conversation, ahead: int) -> str:
        elsewhere = self._message.session_id not in (None, live.session_id)
        alone = self._message.alone
        match bound(tx, conversation).busy or self._settings.busy:
            case "interrupt":
                tx.turns.note(live.id, stop_requested=True)
                return "Stopping the running turn to take this one."
            case policy if policy != "steer" and live.status == "waiting" and not (elsewhere or alone):
                return self._behind_ask(tx, live)
            case _ if elsewhere:
                return f"{BUSY} {_queued(ahead)} {GOES_ON}"
            case policy if policy == "queue" or alone:
                return f"{BUSY} {_queued(ahead)}"
            case "steer":
                return "Passing it on to the running turn."
            case _:
                return f"{BUSY} {_queued(0)}"

    def _behind_ask(self, tx: Tx, live: Turn) -> str:
        """Say that the turn waits for a person, and for whom."""
        asks = [row for row in tx.asks.of_turn(live.id) if row.state == "open"]
        by = self._message.author.id
        whose = "your" if any(self._answers.may_answer(tx, row.authority, by) for row in asks) else "an"
        if asks and not any(was_shown_before(tx, row, self.place, self._message) for row in asks):
            return f"You sent this before I asked, so it is no answer; it comes after {whose} answer (/cancel drops it)."
        return f"I'm waiting for {whose} answer above; your message comes after it (/cancel drops it)."


def _still_open(tx: Tx, conversation: Conversation, how: str) -> str:
    """Name the open asks: a message that must be a turn of its own answers none, and its sender may not see them."""
    first, *others = [row.ask for row in tx.asks.open_in(conversation.id)] or [None]
    if first is None:
        return ""
    more = f" and {len(others)} more" if others else ""
    return f"Still open here: {first_line(first.title)}{more} ({how})"


def _behind_parked(parked: Turn, now: float) -> str:
    when = f" {moment(parked.retry_at, now)}" if parked.retry_at and parked.retry_at > now else ""
    why = f"{parked.failure.text} " if parked.failure else ""
    return f"{why}An earlier message runs again{when}, and yours comes after it. /stop drops the earlier one."


def _queued(ahead: int) -> str:
    place = f"comes after {ahead} other{'s' if ahead > 1 else ''}" if ahead else "is next"
    return f"Your message {place} (/cancel drops it)."
