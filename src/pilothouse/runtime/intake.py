"""Authorise, dedupe, put into the inbox: the only way in (law 1, law 7).

Everything that a message changes is one transaction, and the person is told what happened to it: queued, folded
into the running turn, taken as the answer to a question. A command is a row too, in the control lane; it is
carried out in the transaction that stores it, so that it neither waits behind a turn nor happens twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

from pilothouse.core.ask import parse_reply
from pilothouse.core.channel import Receipt
from pilothouse.core.conversation import Conversation
from pilothouse.core.ids import ConversationId, IdMaker, MessageId
from pilothouse.core.message import (
    BY_PEOPLE,
    Address,
    Author,
    Content,
    InboundMessage,
    MessageDeleted,
    MessageEdited,
    clean_text,
    conversation_id,
    inbox_key,
)
from pilothouse.core.people import AUTHORITY, Role, allows
from pilothouse.core.queue import CONTROL_LANE, NEVER, QueueRow, notes_lane
from pilothouse.core.store import Tx
from pilothouse.core.turn import Turn
from pilothouse.runtime.admitting import is_worth_a_word, meet
from pilothouse.runtime.answers import Answers
from pilothouse.runtime.asking import apply_answer
from pilothouse.runtime.auditing import record
from pilothouse.runtime.binding import bound, workspace_of
from pilothouse.runtime.choosing import list_models
from pilothouse.runtime.commands import ALIASES, COMMANDS, CommandCall, Reply
from pilothouse.runtime.continuing import GOES_ON, aim, parse_resume
from pilothouse.runtime.opening import open_thread
from pilothouse.runtime.outgoing import say
from pilothouse.runtime.pacing import Pacing
from pilothouse.runtime.placing import ensure_place, place_id
from pilothouse.runtime.ports import Ports
from pilothouse.runtime.routing import Command, Route, Say, Unknown, route
from pilothouse.runtime.settings import Settings
from pilothouse.runtime.signals import ASKS, INBOX, OUTBOX, PLACES, control_of
from pilothouse.runtime.standing import note_home, role_of

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(InboundMessage).decode

EDITED_INTO_COMMAND = (
    "A message that waits cannot become a command: the text from before still waits. Send the command as a message "
    "of its own."
)
NOT_YOURS = "Only an {role} may do that here."
MAX_FILES = 20
MAX_NAME_CHARS = 200


class Intake:
    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._pacing = Pacing()

    async def accept(self, message: InboundMessage) -> Receipt:
        settings, role = self._ports.settings(), await self._role(message.author, message.address)
        if not allows(role, "desk.accept"):
            return await self._meet(message)
        if too_much := _too_much(message, settings):
            return Receipt("refused", text=too_much)
        message = _cleaned(message)
        if message.kind == "chat":
            way = route(message.text, COMMANDS, ALIASES)
            if isinstance(way, Say) and _only_resumes(message, settings):
                way = Command("resume", message.text)
            if not self._is_message(way, role):
                return await self._carry_out(way, message.address, message.author, message.native_id)
        return await self._store(message, settings)

    async def _role(self, author: Author, address: Address) -> Role:
        """Who they are in the workspace of that conversation. An owner of the whole house is one everywhere."""
        settings = self._ports.settings()
        if settings.people.role(author.id) == "owner":
            return "owner"

        def unit(tx: Tx) -> Role:
            workspace = workspace_of(tx, place_id(tx, address), settings.default_workspace)
            return role_of(tx, settings.people, author.id, workspace)

        return await self._ports.store.read(unit)

    async def _meet(self, message: InboundMessage) -> Receipt:
        """A stranger, whatever they say. That most of it changes nothing must not cost a write."""
        ports, at = self._ports, self._ports.clock.now()
        author = msgspec.structs.replace(message.author, name=_short(message.author.name))
        message = msgspec.structs.replace(message, author=author, text=message.text[:200])
        receipt = Receipt("refused")
        if await ports.store.read(lambda tx: is_worth_a_word(tx, message, at)):
            receipt = await ports.store.write(
                lambda tx: meet(tx, ports.ids, ports.settings(), message, at, channels=ports.channels)
            )
            ports.signals.poke(OUTBOX, ASKS)
        if receipt.state == "refused":
            ports.log("message.refused", author=author.id, why="stranger")
        else:
            ports.log("message.accepted", message_id=receipt.message_id, state=receipt.state)
        return receipt

    async def _store(self, message: InboundMessage, settings: Settings) -> Receipt:
        author = message.author
        if refused := await self._too_fast(message.address, author, message.native_id, "message"):
            return refused
        answers = Answers(settings, self._ports.ids, self._ports.tool_class)
        unit = _Accept(message, settings, answers, self._ports.ids, self._ports.clock.now())
        receipt = await self._ports.store.write(unit)
        if receipt.state == "duplicate":
            self._pacing.give_back(author.id, settings.messages_per_minute)
        self._ports.signals.poke(INBOX, ASKS, control_of(unit.place))
        self._ports.log("message.accepted", message_id=receipt.message_id, state=receipt.state)
        return receipt

    async def command(self, address: Address, by: Author, line: str, native_id: str) -> Receipt:
        """A line with a slash that is no command is a message, whichever way a channel brought it."""
        settings, role = self._ports.settings(), await self._role(by, address)
        if not allows(role, "desk.command"):
            return await self._meet(InboundMessage(address, by, native_id, line))
        if len(line) > settings.max_message_chars:
            return Receipt("refused", text=_too_long(len(line), settings.max_message_chars))
        line = clean_text(line)
        way = route(line if line.startswith("/") else f"/{line}", COMMANDS, ALIASES)
        if line.startswith("/") and self._is_message(way, role):
            return await self._store(await self._as_message(address, by, line, native_id), settings)
        if isinstance(way, Say):
            way = Unknown(line.split()[0] if line.split() else "", None)
        return await self._carry_out(way, address, by, native_id)

    async def _too_fast(self, address: Address, by: Author, native_id: str, deed: str) -> Receipt | None:
        """None if it is counted and may pass. What we have already is a repeat, however fast it comes."""
        ports = self._ports
        text = self._pacing.refusal(by.id, ports.settings().messages_per_minute, ports.clock.monotonic())
        if not text:
            return None
        known = await ports.store.read(lambda tx: tx.inbox.by_key(_key(address, native_id)))
        if known is not None:
            return Receipt("duplicate", known.id)
        place = conversation_id(address)
        ports.trail.note(
            ports.clock.now(), by.id, "sender.refused", deed=deed, conversation=place, why="too fast"
        )
        return Receipt("refused", text=text)

    async def edited(self, message: MessageEdited) -> Receipt:
        settings, text = self._ports.settings(), clean_text(message.text)
        at = self._ports.clock.now()
        role = await self._role(message.author, message.address)
        command = not self._is_message(route(text, COMMANDS, ALIASES), role)

        def change(tx: Tx, row: QueueRow) -> Receipt:
            said = msgspec.structs.replace(_decode(row.body), text=text)
            if too_much := _too_much(said, settings):
                return Receipt("refused", row.id, too_much)
            if said.kind == "chat":
                if command or _only_resumes(said, settings):
                    return Receipt("refused", row.id, EDITED_INTO_COMMAND)
                conversation = ensure_place(tx, said.address, at)
                aimed = aim(tx, self._ports.ids, settings, conversation, said, at)
                if aimed.refusal:
                    return Receipt("refused", row.id, aimed.refusal)
                said = aimed.message
            tx.inbox.rewrite(row.id, _encode(said))
            return Receipt("queued", row.id, "Changed: the new text waits in its place.")

        return await self._amend(message, role, "edited", change)

    async def deleted(self, message: MessageDeleted) -> Receipt:
        at, by = self._ports.clock.now(), message.author
        role: Role = "member" if by is None else await self._role(by, message.address)

        def drop(tx: Tx, row: QueueRow) -> Receipt:
            tx.inbox.withdraw(row.id, at, "deleted by its sender")
            return Receipt("queued", row.id, "Withdrawn: it will not run.")

        return await self._amend(message, role, "deleted", drop)

    def _is_message(self, way: Route, role: Role) -> bool:
        """Whether this is for the engine. Slash words that we do not know are, if an owner says so."""
        if isinstance(way, Unknown):
            return self._ports.settings().engine_commands and allows(role, "command.engines_own")
        return isinstance(way, Say)

    async def _as_message(self, address: Address, by: Author, line: str, native_id: str) -> InboundMessage:
        known = await self._ports.store.read(lambda tx: tx.conversations.get(place_id(tx, address)))
        private = known is not None and known.private
        return InboundMessage(address, by, native_id, line, private=private, sent_at=self._ports.clock.now())

    async def _carry_out(self, way: Route, address: Address, by: Author, native_id: str) -> Receipt:
        """Stores the command and does it, at once and once: the row's key makes a repeat a duplicate."""
        ports = self._ports
        settings, at = ports.settings(), ports.clock.now()
        urgent = isinstance(way, Command) and way.name == "stop"
        if not urgent and (refused := await self._too_fast(address, by, native_id, "command")):
            return refused

        opened: Address | str = ""
        if isinstance(way, Command) and way.name == "topic":
            known = await ports.store.read(lambda tx: tx.inbox.by_key(_key(address, native_id)))
            if known is None and allows(await self._role(by, address), "command.topic"):
                opened = await open_thread(ports, address, way.args)

        models = list_models(ports.engines)

        def unit(tx: Tx) -> tuple[Receipt, ConversationId]:
            conversation = ensure_place(tx, address, at)
            put = tx.inbox.put(
                id=MessageId(ports.ids("msg")),
                key=_key(address, native_id),
                lane=CONTROL_LANE,
                conversation_id=conversation.id,
                kind="command",
                body=_encode({"by": by.id, "command": msgspec.to_builtins(way)}),
                at=at,
            )
            if not put.fresh:
                return Receipt("duplicate", put.row.id), conversation.id
            note_home(tx, by.id, conversation)
            workspace = workspace_of(tx, conversation.id, settings.default_workspace)
            role = role_of(tx, settings.people, by.id, workspace)
            if isinstance(way, Command):
                record(tx, at, by.id, f"command.{way.name}", args=way.args, conversation=conversation.id)
                call = CommandCall(
                    tx, conversation, by, way.args, settings, ports.ids, at, role, models, opened
                )
                reply = _run(way, call)
            else:
                reply = Reply(_unknown_hint(way))
            tx.inbox.claim([put.row.id])
            tx.inbox.done(put.row.id, at, "carried out")
            content = Content(reply.text, "reply", reply.attachments, reply_to=native_id)
            say(tx, ports.ids, conversation.id, content, key=f"reply:{put.row.id}", at=at)
            return Receipt("queued", put.row.id), conversation.id

        receipt, place = await ports.store.write(unit)
        ports.signals.poke(INBOX, OUTBOX, ASKS, PLACES, control_of(place))
        return receipt

    async def _amend(
        self,
        message: MessageEdited | MessageDeleted,
        role: Role,
        what: Literal["edited", "deleted"],
        act: Callable[[Tx, QueueRow], Receipt],
    ) -> Receipt:
        """A queued message is amended; a running one cannot be, and its sender may stop it instead."""
        ports, at = self._ports, self._ports.clock.now()
        if not allows(role, f"desk.{what}"):
            return Receipt("refused")

        def unit(tx: Tx) -> Receipt:
            conversation = ensure_place(tx, message.address, at)
            row = tx.inbox.by_key(_key(message.address, message.native_id))
            if row is None or row.lane == CONTROL_LANE or row.status in ("done", "failed", "withdrawn"):
                return Receipt("duplicate")
            said = _decode(row.body)
            if message.author is not None and said.author.id != message.author.id:
                return Receipt("refused", row.id, "Only its sender may change a message.")
            if isinstance(message, MessageEdited) and said.text == clean_text(message.text):
                # A channel that was killed brings again what it is not sure about; nobody is told twice.
                return Receipt("duplicate", row.id)
            if row.status == "claimed":
                text = f"That message runs already, so it was not {what}. /stop stops it."
                receipt = Receipt("refused", row.id, text)
            else:
                receipt = act(tx, row)
            if receipt.state == "refused":
                notice, key = Content(receipt.text, "notice"), f"{what}:{row.id}:{at}"
                say(tx, ports.ids, conversation.id, notice, key=key, at=at)
            return receipt

        receipt = await ports.store.write(unit)
        ports.signals.poke(INBOX, OUTBOX)
        return receipt


class _Accept:
    """The transaction that takes a message in."""

    def __init__(
        self, message: InboundMessage, settings: Settings, answers: Answers, ids: IdMaker, at: float
    ) -> None:
        self._message = message
        self._settings = settings
        self._answers = answers
        self._ids = ids
        self._at = at
        self.place = conversation_id(message.address)
        """The conversation that it went into, once it did."""

    def __call__(self, tx: Tx) -> Receipt:
        message = self._message
        conversation = ensure_place(tx, message.address, self._at, private=message.private)
        self.place = conversation.id
        if message.private and not conversation.private:  # a command made it, and those do not know
            conversation = msgspec.structs.replace(conversation, private=True)
            tx.conversations.save(conversation)
        if message.kind in BY_PEOPLE:
            aimed = aim(tx, self._ids, self._settings, conversation, message, self._at)
            if aimed.refusal:
                return Receipt("refused", text=aimed.refusal)
            message = self._message = aimed.message
        note = message.kind == "system"
        put = tx.inbox.put(
            id=MessageId(self._ids("msg")),
            key=_key(message.address, message.native_id),
            lane=notes_lane(conversation.id) if note else conversation.id,
            conversation_id=conversation.id,
            kind=message.kind,
            body=_encode(message),
            at=self._at,
            ready_at=NEVER if note else 0.0,
        )
        if not put.fresh:
            return Receipt("duplicate", put.row.id)
        if message.kind == "chat":
            note_home(tx, message.author.id, conversation)
        record(
            tx,
            self._at,
            message.author.id,
            "sender.accepted",
            message=put.row.id,
            conversation=conversation.id,
            kind=message.kind,
        )
        if note:
            return Receipt("queued", put.row.id, "Noted: it goes along with the next message.")
        if (
            message.kind == "chat"
            and not message.attachments
            and self._answers_question(tx, conversation, put.row.id)
        ):
            return Receipt("queued", put.row.id, "Taken as the answer.")
        return Receipt("queued", put.row.id, self._place_in_line(tx, conversation, put.row))

    def _answers_question(self, tx: Tx, conversation: Conversation, id: MessageId) -> bool:
        """A plain reply answers the oldest open question that its sender may answer; it never answers an approval.

        One with files is a message: an answer is words, and the files would be lost.
        """
        by = self._message.author.id
        asked = tx.asks.open_question(
            conversation.id,
            self._at,
            lambda authority: self._answers.may_answer(tx, authority, by),
            session_id=self._message.session_id,
        )
        if asked is None:
            return False
        decision = msgspec.structs.replace(parse_reply(asked.ask, self._message.text), by=by)
        apply_answer(tx, self._ids, asked, decision, self._at, name=self._message.author.name)
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
        return self._during(tx, live, conversation, _queued(put, len(ahead)))

    def _during(self, tx: Tx, live: Turn, conversation: Conversation, queued: str) -> str:
        elsewhere = self._message.session_id not in (None, live.session_id)
        match bound(tx, conversation).busy or self._settings.busy:
            case "interrupt":
                tx.turns.note(live.id, stop_requested=True)
                return "Stopping the running turn to take this one."
            case _ if elsewhere:
                return f"Still working on your previous request. {queued} {GOES_ON}"
            case "steer":
                return "Passing it on to the running turn."
            case "queue":
                return f"Still working on your previous request. {queued}"
            case _:
                return (
                    "Still working on your previous request. This waits, and goes in with what else you send."
                )


def _run(way: Command, call: CommandCall) -> Reply:
    deed = f"command.{way.name}"
    if not allows(call.role, deed):
        return Reply(NOT_YOURS.format(role=AUTHORITY.get(deed, "owner")))
    return COMMANDS[way.name].run(call)


def _only_resumes(message: InboundMessage, settings: Settings) -> bool:
    """Nothing but a resume line: what `/resume` does, for there is nothing to tell the engine yet."""
    token, rest = parse_resume(settings, message.text)
    return token is not None and not rest and not message.attachments


def _queued(row: QueueRow, ahead: int) -> str:
    """Its number is a name that stays, and no place in the line: that changes."""
    place = f"behind {ahead} other{'s' if ahead > 1 else ''}" if ahead else "next in line"
    return f"Your message has been queued as #{row.seq}, {place}; /cancel #{row.seq} drops it."


def _cleaned(message: InboundMessage) -> InboundMessage:
    replace = msgspec.structs.replace
    return replace(
        message,
        text=clean_text(message.text),
        quoted=None if message.quoted is None else clean_text(message.quoted),
        author=replace(message.author, name=_short(message.author.name)),
        source=_short(message.source),
        attachments=tuple(
            replace(a, name=_short(a.name), media_type=_short(a.media_type)) for a in message.attachments
        ),
    )


def _key(address: Address, native_id: str) -> str:
    """By where it came from, wherever its conversation began: numbers of messages are a place's own."""
    return inbox_key(conversation_id(address), native_id)


def _short(name: str) -> str:
    """Names are data that goes into the prompt: nobody has one as long as a book."""
    return clean_text(name if len(name) <= MAX_NAME_CHARS else name[: MAX_NAME_CHARS - 1] + "…")


def _too_much(message: InboundMessage, settings: Settings) -> str:
    """Why it is too much for one message; empty if it is not."""
    length, files = len(message.text) + len(message.quoted or ""), len(message.attachments)
    if length > settings.max_message_chars:
        return _too_long(length, settings.max_message_chars)
    if files > MAX_FILES:
        return f"Your message has {files} files and was not taken: at most {MAX_FILES} go into one message."
    return ""


def _too_long(length: int, limit: int) -> str:
    return (
        f"Your message has {length:,} characters and was not taken: at most {limit:,} go into one prompt. "
        "Send it as a file, or in parts."
    )


def _unknown_hint(way: Unknown | Say) -> str:
    word = way.word if isinstance(way, Unknown) else ""
    nearest = way.nearest if isinstance(way, Unknown) else None
    hint = f"Did you mean /{nearest}? " if nearest else ""
    return f"There is no command /{word}. {hint}/help lists them."
