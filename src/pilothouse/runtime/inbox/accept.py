"""Stores a message in one transaction, and says what its sender is told.

The message answers an open question, is passed to the running turn, or waits in the queue.
"""

from __future__ import annotations

import msgspec

from pilothouse.core.ask import AskRow, parse_reply
from pilothouse.core.channel import Receipt
from pilothouse.core.conversation import Conversation
from pilothouse.core.ids import IdMaker, MessageId
from pilothouse.core.message import BY_PEOPLE, Content, InboundMessage, conversation_id
from pilothouse.core.queue import NEVER, QueueRow, notes_lane
from pilothouse.core.store import Tx
from pilothouse.core.text import first_line
from pilothouse.core.turn import Turn
from pilothouse.runtime.asks.answers import Answers
from pilothouse.runtime.asks.settle import supersede_lost
from pilothouse.runtime.commands.call import NotDone, Opening, Reply
from pilothouse.runtime.conversations.binding import bound
from pilothouse.runtime.conversations.fetches import is_stopped
from pilothouse.runtime.conversations.pieces import head_of, keep_message, without_known
from pilothouse.runtime.conversations.places import ensure_place, message_key
from pilothouse.runtime.conversations.sessions import GOES_ON, find_target, replies_elsewhere
from pilothouse.runtime.outbox import say
from pilothouse.runtime.roles import note_author
from pilothouse.runtime.settings import Settings

BUSY = "Still working on your previous request."
STOPPED = "Stopped before it began: it was said before the last /stop."
ANSWER_IN_CHAT = "pilothouse chat shows it and takes the answer"
"""For a sender on a command line, which shows no question that could be answered."""
ANSWER_THERE = "it is answered where it was asked, above"


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
        asked = self._question(tx, conversation)
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
            lane=notes_lane(conversation.id) if note else None,
            ready_at=NEVER if note else 0.0,
        )
        if not put.fresh:
            return self._duplicate(tx)
        if message.kind == "chat":
            note_author(tx, message.author, conversation)
        if note:
            return Receipt("queued", put.row.id, "Noted: it goes along with the next message.")
        if asked is not None and self._answer(tx, asked, put.row.id):
            return Receipt("queued", put.row.id, "Taken as the answer.")
        if message.kind in BY_PEOPLE:
            supersede_lost(tx, self._ids, {conversation.session_id, message.session_id}, self._at)
        told = f"{opened.text} {self._place_in_line(tx, conversation, put.row)}".strip()
        if message.alone:
            how = ANSWER_IN_CHAT if self._opening is None else ANSWER_THERE
            told = f"{told} {_still_open(tx, conversation, how)}".strip()
        return Receipt("queued", put.row.id, told)

    def _question(self, tx: Tx, conversation: Conversation) -> AskRow | None:
        """Return the open question that the message answers. It never answers an approval.

        A message with attachments answers nothing, because an answer is text and the attachments would be lost. Nor
        does a reply to a message of another conversation.
        """
        message = self._message
        is_text = message.kind == "chat" and not message.attachments and not message.alone
        if not is_text or replies_elsewhere(tx, message):
            return None
        return self._answers.question_for(tx, conversation.id, message, self._at)

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

    def _answer(self, tx: Tx, asked: AskRow, id: MessageId) -> bool:
        by = self._message.author
        decision = msgspec.structs.replace(parse_reply(asked.ask, self._message.whole_text), by=by.id)
        self._answers.apply(tx, asked, decision, self._at, name=by.name)
        tx.inbox.claim([id])
        return tx.inbox.done(id, self._at, f"answered {asked.ask.id}")

    def _place_in_line(self, tx: Tx, conversation: Conversation, put: QueueRow) -> str:
        live = tx.turns.live_in(conversation.id)
        ahead = [row for row in tx.inbox.waiting(conversation.id) if row.id != put.id]
        if live is None and tx.turns.of(conversation.id, statuses=("parked",), limit=1):
            return "The turn before this one waits to be tried again, and this waits behind it. /stop drops that one."
        elsewhere = self._message.session_id not in (None, conversation.session_id)
        if live is None:
            told = "" if not ahead else _queued(put, len(ahead))
            return f"{told} {GOES_ON}".strip() if elsewhere else told
        return self._during(tx, live, conversation, put, len(ahead))

    def _during(self, tx: Tx, live: Turn, conversation: Conversation, put: QueueRow, ahead: int) -> str:
        elsewhere = self._message.session_id not in (None, live.session_id)
        match bound(tx, conversation).busy or self._settings.busy:
            case "interrupt":
                tx.turns.note(live.id, stop_requested=True)
                return "Stopping the running turn to take this one."
            case _ if elsewhere:
                return f"{BUSY} {_queued(put, ahead)} {GOES_ON}"
            case policy if policy == "queue" or self._message.alone:
                return f"{BUSY} {_queued(put, ahead)}"
            case "steer":
                return "Passing it on to the running turn."
            case _:
                return f"{BUSY} {_queued(put, 0, ' with what else you send')}"


def _still_open(tx: Tx, conversation: Conversation, how: str) -> str:
    """Name the open asks: a message that must be a turn of its own answers none, and its sender may not see them."""
    first, *others = [row.ask for row in tx.asks.open_in(conversation.id)] or [None]
    if first is None:
        return ""
    more = f" and {len(others)} more" if others else ""
    return f"Still open here: {first_line(first.title)}{more} ({how})"


def _queued(row: QueueRow, ahead: int, company: str = "") -> str:
    """Name the message by its number, which stays the same while its place in the queue changes."""
    place = f"behind {ahead} other{'s' if ahead > 1 else ''}" if ahead else f"next in line{company}"
    return f"Your message has been queued as #{row.seq}, {place}; /cancel #{row.seq} drops it."
