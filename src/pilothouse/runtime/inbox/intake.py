"""The only way in: authorise, limit the rate, recognise commands, store (law 1, law 7).

Everything that a message changes is one transaction, and its sender is told the result. `accept.py` stores messages,
`commands/table.py` runs commands, `edits.py` applies edits. The rate limit is per person and kept in memory: a restart
forgives a minute, and each process counts what came in through it.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext

import msgspec

from pilothouse.core.budget import Pace
from pilothouse.core.channel import Receipt
from pilothouse.core.ids import UserId
from pilothouse.core.message import (
    BY_PEOPLE,
    Address,
    Author,
    InboundMessage,
    MessageDeleted,
    MessageEdited,
    clean_text,
    conversation_id,
    with_words,
)
from pilothouse.core.people import Role, allows
from pilothouse.core.store import Tx
from pilothouse.runtime.admission import handle_stranger, offered_code, should_reply_to_stranger
from pilothouse.runtime.asks.answers import Answers
from pilothouse.runtime.commands.call import QUOTES, Opening, Prepared
from pilothouse.runtime.commands.engine_sessions import ask_engine, list_commands
from pilothouse.runtime.commands.files import find_file, open_topic
from pilothouse.runtime.commands.folders import look_for_folders
from pilothouse.runtime.commands.lanes import ask_lanes, deed_of
from pilothouse.runtime.commands.servers import ask_servers
from pilothouse.runtime.commands.settings import list_models
from pilothouse.runtime.commands.table import (
    ALIASES,
    COMMANDS,
    Command,
    PlainText,
    Route,
    Unknown,
    has_files,
    opening_command,
    route,
    run_command,
)
from pilothouse.runtime.conversations.binding import engine_of, only_resumes, workspace_of
from pilothouse.runtime.conversations.pieces import (
    Fetches,
    cleaned,
    short_name,
    too_long,
    too_much,
    without_known,
)
from pilothouse.runtime.conversations.places import message_key, place_id
from pilothouse.runtime.inbox.accept import Accept
from pilothouse.runtime.inbox.edits import delete, edit
from pilothouse.runtime.outbox import SAY
from pilothouse.runtime.ports import ASKS, INBOX, OUTBOX, Ports, control_of
from pilothouse.runtime.roles import role_of
from pilothouse.runtime.settings import Settings

TOO_FAST = "Rate limit: {limit} messages a minute. This one was not accepted; send it again in {wait_s} s."
SWEEP_AT = 1000
COMPACT = "/compact"


class RateLimit:
    def __init__(self) -> None:
        self._free_at: dict[UserId, float] = {}

    def refusal(self, user: UserId, per_minute: int | None, now: float) -> str:
        """Count a message. Returns why it is refused, and until when; empty if it may pass."""
        if per_minute is None:
            return ""
        free_at, wait_s = Pace(per_minute).admit(self._free_at.get(user, now), now)
        if wait_s > 0:
            return TOO_FAST.format(limit=per_minute, wait_s=math.ceil(wait_s))
        self._sweep(now)
        self._free_at[user] = free_at
        return ""

    def uncount(self, user: UserId, per_minute: int | None) -> None:
        """Uncount a message that turned out to be a duplicate."""
        if per_minute is not None and user in self._free_at:
            self._free_at[user] -= 60.0 / per_minute

    def _sweep(self, now: float) -> None:
        if len(self._free_at) >= SWEEP_AT:
            self._free_at = {user: at for user, at in self._free_at.items() if at > now}


class Intake:
    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._rate_limit = RateLimit()
        self._fetches = Fetches()

    async def accept(self, message: InboundMessage) -> Receipt:
        if message.overheard and not await self._answers_question(message):
            return Receipt("refused")
        settings, role = self._ports.settings(), await self._role(message.author, message.address)
        if not allows(role, "desk.accept"):
            return await self._handle_stranger(message) if message.kind in BY_PEOPLE else Receipt("refused")
        if why := too_much(message, settings):
            return Receipt("refused", text=why)
        whole = cleaned(message)

        def unit(tx: Tx) -> tuple[InboundMessage, Route]:
            fresh = (without_known(tx, whole) if whole.pieces else None) or whole
            way = self._route(tx, fresh, is_rest=fresh.native_id != whole.native_id)
            line = compact_line(tx, way, fresh, settings)
            return (as_engine_line(fresh, line), PlainText()) if line else (fresh, way)

        message, way = await self._ports.store.read(unit)
        if not self._is_message(way, role):
            return await self._run_command(way, message)
        return await self._store(message, settings)

    def _route(self, tx: Tx, message: InboundMessage, *, is_rest: bool = False) -> Route:
        """Tell commands from messages. A valid pairing code is always a command: no model may read it. The rest of a
        message whose first piece is stored already is never one."""
        if message.kind != "chat":
            return PlainText()
        if code := offered_code(tx, message.text):
            return Command("pair", code)
        if is_rest or message.overheard:
            return PlainText()
        way = route(message.text, COMMANDS, ALIASES)
        if isinstance(way, PlainText) and only_resumes(message, self._ports.settings()):
            return Command("resume", message.text)
        return way

    async def _answers_question(self, message: InboundMessage) -> bool:
        """Tell whether an overheard message answers an open question. Most do not, and cost one read."""
        ports, at = self._ports, self._ports.clock.now()
        answers = Answers(ports.settings(), ports.ids, ports.tool_class, ports.topics, ports.read_call)

        def unit(tx: Tx) -> bool:
            return answers.question_for(tx, place_id(tx, message.address), message, at) is not None

        return await ports.store.read(unit)

    def expecting(self, message: InboundMessage) -> AbstractContextManager[object]:
        """Announce a message whose files are being fetched. Commands start no turn and are not announced."""
        way = route(message.text, COMMANDS, ALIASES) if message.kind == "chat" else PlainText()
        is_command = isinstance(way, Command) and not COMMANDS[way.name].opens
        return nullcontext() if is_command else self._fetches.expecting(message)

    async def _role(self, author: Author, address: Address) -> Role:
        """Return the author's role in the conversation's workspace. A configured owner is one everywhere."""
        settings = self._ports.settings()
        if settings.people.role(author.id) == "owner":
            return "owner"

        def unit(tx: Tx) -> Role:
            workspace = workspace_of(tx, place_id(tx, address), settings.default_workspace)
            return role_of(tx, settings.people, author.id, workspace)

        return await self._ports.store.read(unit)

    async def _handle_stranger(self, message: InboundMessage) -> Receipt:
        """Refuse a stranger, or try their pairing code. Most messages cost no write."""
        ports, at = self._ports, self._ports.clock.now()
        author = msgspec.structs.replace(message.author, name=short_name(message.author.name))
        message = msgspec.structs.replace(message, author=author, text=message.text[:200])
        receipt = Receipt("refused")
        if await ports.store.read(lambda tx: should_reply_to_stranger(tx, message, at)):
            receipt = await ports.store.write(
                lambda tx: handle_stranger(
                    tx, ports.ids, ports.settings(), message, at, channels=ports.channels
                )
            )
            ports.signals.poke(OUTBOX, ASKS)
        if receipt.state == "refused":
            ports.log("message.refused", author=author.id, why="stranger")
        else:
            ports.log("message.accepted", message_id=receipt.message_id, state=receipt.state)
        return receipt

    async def _store(
        self, message: InboundMessage, settings: Settings, opening: Opening | None = None
    ) -> Receipt:
        author = message.author
        if refused := await self._too_fast(message.address, author, message.native_id, "message"):
            return refused
        ports = self._ports
        answers = Answers(settings, ports.ids, ports.tool_class, ports.topics, ports.read_call)
        unit = Accept(message, settings, answers, self._ports.ids, self._ports.clock.now(), opening)
        receipt = await self._ports.store.write(unit)
        if receipt.state == "duplicate":
            self._rate_limit.uncount(author.id, settings.messages_per_minute)
        told = (OUTBOX,) if receipt.state == "refused" or unit.wake else ()
        answered = (ASKS,) if unit.wake else ()
        self._ports.signals.poke(INBOX, *answered, *map(control_of, {unit.place, *unit.wake}), *told)
        self._ports.log("message.accepted", message_id=receipt.message_id, state=receipt.state)
        return receipt

    async def command(
        self, address: Address, by: Author, line: str, native_id: str, sent_at: float
    ) -> Receipt:
        """Run a command line. A slash line that is not a command may be a message for the engine."""
        settings, role = self._ports.settings(), await self._role(by, address)
        if not allows(role, "desk.command"):
            return await self._handle_stranger(InboundMessage(address, by, native_id, line))
        if len(line) > settings.max_message_chars:
            return Receipt("refused", text=too_long(len(line), settings.max_message_chars))
        line = clean_text(line)
        if line.startswith(SAY) or line.strip() == COMPACT:
            said = await self._as_message(address, by, line.removeprefix(SAY), native_id, sent_at)
            return await self.accept(said)
        way = route(line if line.startswith("/") else f"/{line}", COMMANDS, ALIASES)
        if line.startswith("/") and self._is_message(way, role):
            return await self._store(await self._as_message(address, by, line, native_id, sent_at), settings)
        if isinstance(way, PlainText):
            way = Unknown(line.split()[0] if line.split() else "", None)
        return await self._run_command(way, await self._as_message(address, by, line, native_id, sent_at))

    async def _too_fast(self, address: Address, by: Author, native_id: str, deed: str) -> Receipt | None:
        """Apply the rate limit; None if the message may pass. A repeat is a duplicate, not too fast."""
        ports = self._ports
        text = self._rate_limit.refusal(by.id, ports.settings().messages_per_minute, ports.clock.monotonic())
        if not text:
            return None
        known = await ports.store.read(lambda tx: tx.inbox.by_key(message_key(address, native_id)))
        if known is not None:
            return Receipt("duplicate", known.id)
        place = conversation_id(address)
        ports.trail.note(
            ports.clock.now(), by.id, "sender.refused", deed=deed, conversation=place, why="too fast"
        )
        return Receipt("refused", text=text)

    async def edited(self, message: MessageEdited) -> Receipt:
        role = await self._role(message.author, message.address)

        def is_command(tx: Tx, said: InboundMessage) -> bool:
            return not self._is_message(self._route(tx, said), role)

        return await edit(self._ports, message, role, is_command)

    async def deleted(self, message: MessageDeleted) -> Receipt:
        by = message.author
        role: Role = "member" if by is None else await self._role(by, message.address)
        return await delete(self._ports, message, role)

    def _is_message(self, way: Route, role: Role) -> bool:
        """Tell whether this is for the engine. Unknown slash words are, if configured and the sender is allowed."""
        if isinstance(way, Unknown):
            return self._ports.settings().engine_commands and allows(role, "command.engines_own")
        return isinstance(way, PlainText)

    async def _as_message(
        self, address: Address, by: Author, line: str, native_id: str, sent_at: float
    ) -> InboundMessage:
        known = await self._ports.store.read(lambda tx: tx.conversations.get(place_id(tx, address)))
        private = known is not None and known.private
        return InboundMessage(address, by, native_id, line, private=private, sent_at=sent_at)

    async def _run_command(self, way: Route, said: InboundMessage) -> Receipt:
        address, by, native_id = said.address, said.author, said.native_id
        if isinstance(way, Command) and COMMANDS[way.name].opens and (way.args or has_files(said)):
            return await self._open_with(way, said)
        urgent = isinstance(way, Command) and way.name == "stop"
        if not urgent and (refused := await self._too_fast(address, by, native_id, "command")):
            return refused
        prepared = await self._prepare(way, said)
        receipt = await run_command(self._ports, way, said, prepared)
        if prepared.expected:
            await self._fetches.cancel_withdrawn(self._ports.store)
        return receipt

    async def _prepare(self, way: Route, said: InboundMessage) -> Prepared:
        ports = self._ports
        match way:
            case Command(name="stop"):
                return Prepared(expected=self._fetches.messages(), said_at=said.sent_at)
            case Command(name="help") if said.private and self._is_message(
                Unknown("", None), await self._role(said.author, said.address)
            ):
                return Prepared(commands=await list_commands(ports, said.address))
            case Command(name="model"):
                return Prepared(models=list_models(ports))
            case Command(name="topic") if await self._is_first(said, "command.topic"):
                return Prepared(opened=await open_topic(ports, said.address, way.args))
            case Command(name="sessions" | "resume" as name) if await self._is_first(said, f"command.{name}"):
                may_list = allows(await self._role(said.author, said.address), "command.resume.foreign")
                return Prepared(elsewhere=await ask_engine(ports, said.address, way.args, may_list=may_list))
            case Command(name="engine") if not way.args and await self._is_first(said, "command.engine"):
                return Prepared(engines=await ports.engine_reports())
            case Command(name="engine") if await self._is_first(said, "command.engine.set"):
                return Prepared(unusable=await self._why_unusable(way.args))
            case Command(name="retry") if way.args and await self._is_first(said, "command.engine.set"):
                return Prepared(unusable=await self._why_unusable(way.args))
            case Command(name="lanes") if await self._is_first(said, deed_of(way.args)):
                return Prepared(lanes=await ask_lanes(ports, said.address, way.args))
            case Command(name="mcp") if await self._is_first(
                said, "command.mcp.auth" if way.args else "command.mcp"
            ):
                return Prepared(servers=await ask_servers(ports, said.address, way.args))
            case Command(name="bind"):
                said_folder = way.args.strip(QUOTES)
                return Prepared(folders=await look_for_folders(ports.settings().roots, said_folder))
            case Command(name="send") if await self._is_first(said, "command.send"):
                return Prepared(file=await find_file(ports, said.address, said.author, way.args))
            case _:
                return Prepared()

    async def _is_first(self, said: InboundMessage, deed: str) -> bool:
        """Tell whether the command will run: it is no repeat, and its sender is allowed."""
        key = message_key(said.address, said.native_id)
        known = await self._ports.store.read(lambda tx: tx.inbox.by_key(key))
        return known is None and allows(await self._role(said.author, said.address), deed)

    async def _why_unusable(self, words: str) -> str:
        """Check the engine that is named before the transaction: the check may start a program."""
        names = self._ports.settings().engine_names
        engine = next((names[word] for word in words.lower().split() if word in names), None)
        return "" if engine is None else await self._ports.engine_problem(engine)

    async def _open_with(self, way: Command, said: InboundMessage) -> Receipt:
        """Run `/new TEXT`, or `/new` with files: the rest is a message for the new session."""
        behind = _without_command(way, said)
        text = behind.text or "\n".join(f"[{file.name}]" for file in said.attachments)
        message = msgspec.structs.replace(behind, text=text, reply_to=None, alone=True)
        return await self._store(
            message, self._ports.settings(), opening_command(self._ports, way, said.author)
        )


def _without_command(way: Command, said: InboundMessage) -> InboundMessage:
    """Return the message without the command word, which is in its first piece with text."""
    first = next((piece for piece in said.pieces if piece.text), None)
    if first is None:
        return msgspec.structs.replace(said, text=way.args)
    own = route(first.text, COMMANDS, ALIASES)
    return with_words(said, first.native_id, own.args if isinstance(own, Command) else first.text)


def compact_line(tx: Tx, way: Route, message: InboundMessage, settings: Settings) -> str:
    """Return what the engine of a conversation is told for `/compact`; empty for another text, and if it cannot compact."""
    if not isinstance(way, Unknown) or message.text.strip() != COMPACT:
        return ""
    engine = engine_of(tx, place_id(tx, message.address), settings.default_engine)
    return settings.compact_lines.get(engine, "")


def as_engine_line(message: InboundMessage, line: str) -> InboundMessage:
    """Return a message that its engine gets as this line alone."""
    return msgspec.structs.replace(message, text="", file_text=line, engine_line=True, alone=True)
