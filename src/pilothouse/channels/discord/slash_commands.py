"""Slash commands and the message menu: registered in each server when they changed, carried out, and completed while typing.

The answer to a command is a normal message, since Discord accepts answers to an interaction for 15 minutes only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import msgspec
from msgspec import Struct

from pilothouse.channels.discord.accept import Taker
from pilothouse.channels.discord.addresses import Place
from pilothouse.channels.discord.buttons import Form
from pilothouse.channels.discord.doctor import invite_link
from pilothouse.channels.discord.markdown import escaped
from pilothouse.channels.discord.payload import TEXT
from pilothouse.channels.discord.receive import files_of, quote_of
from pilothouse.channels.discord.replies import LOOK_S, Reply
from pilothouse.channels.discord.rest import Calls
from pilothouse.channels.discord.sender import MESSAGE
from pilothouse.channels.discord.trouble import Trouble
from pilothouse.channels.discord.wire import Guild, Interaction, Message, inputs, read, sent_at
from pilothouse.channels.receipts import accept_fetched, may_talk
from pilothouse.channels.skeleton import pause_s
from pilothouse.channels.text import clip
from pilothouse.core.channel import Desk, MenuCommand, Receipt
from pilothouse.core.clock import Clock
from pilothouse.core.errors import PilothouseError, StoreError
from pilothouse.core.message import Author, InboundMessage, conversation_id

ASK = "ask"
ASK_ABOUT = "Ask about this"
CHAT_INPUT, ON_MESSAGE, TEXT_OPTION = 1, 3, 3
SUGGESTED = frozenset({"engine", "model", "resume"})
MOST = 100
SUMMARY_CHARS = 100
FIRST_S = 5.0
LONGEST_S = 600.0

REFUSED = (
    "Discord does not let us put our commands into the menu of the server {server}: the bot was invited without "
    "“applications.commands”. Invite it again with {link}; they are tried again by themselves. Written as messages they "
    "work all the same."
)

PATH = "/applications/{application_id}/guilds/{guild_id}/commands"


def shapes(commands: Sequence[MenuCommand]) -> list[dict[str, Any]]:
    """The commands of servers as Discord wants them, `/ask` first."""
    listed = [command for command in commands if "group" in command.menus]
    return [_ask(), *map(_command, listed[: MOST - 1]), _about()]


def _ask() -> dict[str, Any]:
    option = {"type": TEXT_OPTION, "name": "text", "description": "what to do", "required": True}
    return {"type": CHAT_INPUT, "name": ASK, "description": "ask the agent", "options": [option]}


def _about() -> dict[str, Any]:
    return {"type": ON_MESSAGE, "name": ASK_ABOUT}


def _command(command: MenuCommand) -> dict[str, Any]:
    return {
        "type": CHAT_INPUT,
        "name": command.name,
        "description": clip(command.summary, SUMMARY_CHARS),
        "options": list(_options(command)),
    }


def _options(command: MenuCommand) -> Iterator[dict[str, Any]]:
    """`/cancel N` has an option `n`. All of them may be left out: a bare command says what there is."""
    for word in command.usage.split()[1:]:
        name = word.strip("[]").lower()
        option: dict[str, Any] = {"type": TEXT_OPTION, "name": name, "description": name, "required": False}
        yield option | ({"autocomplete": True} if command.name in SUGGESTED else {})


class CommandMenu:
    """`path` keeps which server was told what. `calls` gives those of the newest connection. `trouble` is what a person
    should know, while it lasts."""

    def __init__(
        self,
        path: Path,
        commands: Sequence[MenuCommand],
        clock: Clock,
        log: Callable[..., None],
        calls: Callable[[], Calls | None],
    ) -> None:
        self._path = path
        self._shapes = shapes(commands)
        self._clock = clock
        self._log = log
        self._calls = calls
        self._hash = hashlib.sha256(msgspec.json.encode(self._shapes)).hexdigest()[:16]
        self._told = self._read()
        self._lock = anyio.Lock()
        self._trying: dict[str, anyio.CancelScope] = {}
        self._refusals: dict[str, str] = {}

    @property
    def trouble(self) -> str:
        return next(iter(self._refusals.values()), "")

    async def register(self, guild: Guild) -> None:
        """Register the commands in a server, and retry until Discord has them. A server forgets them when it removes us."""
        self.leave(guild.id)
        with anyio.CancelScope() as scope:
            self._trying[guild.id] = scope
            await self._register(guild)
        if self._trying.get(guild.id) is scope:
            self._trying.pop(guild.id)

    def leave(self, guild: str) -> None:
        """We are not there any more, or there anew."""
        self._refusals.pop(guild, None)
        if (scope := self._trying.pop(guild, None)) is not None:
            scope.cancel()

    async def _register(self, guild: Guild) -> None:
        in_a_row = 0
        while (calls := self._calls()) is not None:
            key, state = f"{calls.application_id}:{guild.id}", f"{self._hash} {guild.joined_at or ''}".strip()
            if self._told.get(key) == state:
                return
            ids = {"application_id": calls.application_id, "guild_id": guild.id}
            found = await calls.call("PUT", PATH, self._shapes, **ids)
            if not isinstance(found, Trouble):
                await self._registered(guild.id, key, state)
                return
            again = found.is_passing or found.is_forbidden
            self._log(
                "discord.commands_failed",
                level="warning" if again else "error",
                guild=guild.id,
                why=found.text,
            )
            if found.is_forbidden:
                link = invite_link(calls.application_id)
                self._refusals[guild.id] = REFUSED.format(server=guild.name or guild.id, link=link)
            if not again:
                return
            in_a_row += 1
            await self._clock.sleep(found.after_s or pause_s(in_a_row, LONGEST_S, FIRST_S))

    async def _registered(self, guild: str, key: str, state: str) -> None:
        self._told[key] = state
        self._refusals.pop(guild, None)
        async with self._lock:
            await anyio.to_thread.run_sync(self._write, msgspec.json.encode(self._told))
        self._log("discord.commands_registered", guild=guild, commands=len(self._shapes))

    def _write(self, data: bytes) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            fresh = self._path.with_suffix(".new")
            fresh.write_bytes(data)
            fresh.replace(self._path)
        except OSError as error:
            self._log("discord.commands_not_noted", level="warning", why=str(error))

    def _read(self) -> dict[str, str]:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, str])
        except (OSError, msgspec.DecodeError):
            return {}


ABOUT = "q|"
GONE = "That message cannot be read any more."
NOT_LET_IN = "You may not talk to me here. Ask the owner of this bot to let you in."


class Done(Struct, frozen=True):
    """Somebody did something, somewhere."""

    interaction: Interaction
    by: Author
    place: Place
    reply: Reply
    calls: Calls

    @property
    def native_id(self) -> str:
        """No message of Discord's: nobody can answer it, and it comes once."""
        return f"interaction:{self.interaction.id}"


class SlashCommands:
    def __init__(self, desk: Desk, taker: Taker, log: Callable[..., None]) -> None:
        self._desk = desk
        self._taker = taker
        self._log = log

    async def command(self, done: Done) -> None:
        data = done.interaction.data
        if data.type == ON_MESSAGE:
            key = f"{ABOUT}{data.target_id or ''}"
            await done.reply.ask(Form(key, ASK_ABOUT, "What do you want to know?"))
        elif data.name == ASK:
            await self._ask(done, " ".join(str(option.value) for option in data.options))
        else:
            await self._run(
                done, " ".join([f"/{data.name}", *(str(option.value) for option in data.options)])
            )

    async def about(self, done: Done, us: str) -> None:
        """The form of "Ask about this" came back. The message is quoted, with its files."""
        question = "\n".join(inputs(done.interaction.data.components).values()).strip()
        if not await self._let_in(done):
            return
        id = done.interaction.data.custom_id.removeprefix(ABOUT)
        ids = {"channel_id": done.place.id, "message_id": id}
        found = await done.calls.get(MESSAGE, **ids) if id.isdecimal() else Trouble(GONE)
        message = found if isinstance(found, Trouble) else read(found, Message)
        if not isinstance(message, Message):
            await done.reply.finish(GONE)
            return
        scene = await self._taker.scene(done.place, us)
        asked = self._said(done, question or ASK_ABOUT, quoted=quote_of(message, scene), reply_to=message.id)
        files = files_of(message)
        receipt = await accept_fetched(self._desk, asked, lambda: self._taker.with_files(asked, files))
        await self._show(done, receipt, question)

    async def complete(self, done: Done) -> None:
        data = done.interaction.data
        typed = next((str(option.value or "") for option in data.options if option.focused), "")
        found: Sequence[tuple[str, str]] = ()
        try:
            with anyio.move_on_after(LOOK_S):
                found = await self._choices(data.name, done)
        except PilothouseError as error:
            self._log("discord.nothing_to_suggest", why=str(error))
        wanted = typed.casefold()
        await done.reply.suggest(
            [one for one in found if wanted in one[0].casefold() or wanted in one[1].casefold()]
        )

    async def _choices(self, command: str, done: Done) -> Sequence[tuple[str, str]]:
        place = conversation_id(done.place.address)
        if command in ("engine", "model"):
            return [
                (name, name) for name in await self._desk.query(f"{command}s", done.by, conversation=place)
            ]
        return [
            (label, str(id)) for label, id in await self._desk.query("sessions", done.by, conversation=place)
        ]

    async def _ask(self, done: Done, text: str) -> None:
        if await self._let_in(done):
            await self._show(done, await self._desk.accept(self._said(done, text)), text)

    async def _let_in(self, done: Done) -> bool:
        """Acknowledge: publicly if this person may talk to us, else with a refusal that only they see."""
        allowed = True  # if that cannot be told now, it is looked at again when it is accepted
        with anyio.move_on_after(LOOK_S), suppress(StoreError):
            allowed = await may_talk(self._desk, self._said(done, ""))
        await (done.reply.defer(ephemeral=False) if allowed else done.reply.say(NOT_LET_IN))
        return allowed

    async def _show(self, done: Done, receipt: Receipt, shown: str) -> None:
        quoted = "\n".join(f"> {line}" for line in shown.splitlines()) or f"> {ASK_ABOUT}"
        if await done.reply.finish(_above(quoted, receipt.text)) or receipt.state in ("duplicate", "refused"):
            return
        # It was acknowledged too late, so Discord shows no command: repeat the question above its answer.
        said = _above(f"{escaped(done.by.name)} asked:\n{quoted}", receipt.text)
        await self._taker.tell(done.place.address, said, "")

    async def _run(self, done: Done, line: str) -> None:
        """Run a command. Its answer is a normal message; only a refusal is shown here, to this person."""
        await done.reply.defer()
        at = sent_at(done.interaction.id)
        receipt = await self._desk.command(
            done.place.address, done.by, line.strip(), done.native_id, sent_at=at
        )
        if receipt.text:
            await done.reply.finish(receipt.text)
        elif receipt.state == "refused" and receipt.message_id is None:
            await done.reply.finish(NOT_LET_IN)
        else:  # also of what was taken in and not begun: a message says why
            await done.reply.vanish()

    def _said(
        self, done: Done, text: str, *, quoted: str | None = None, reply_to: str | None = None
    ) -> InboundMessage:
        return InboundMessage(
            done.place.address,
            done.by,
            done.native_id,
            text,
            reply_to=reply_to,
            quoted=quoted,
            private=done.place.direct,
            source="discord",
            sent_at=sent_at(done.interaction.id),
        )


def _above(quoted: str, told: str) -> str:
    """Put the question above the notice, and cut only the question."""
    return f"{clip(quoted, TEXT - len(told) - 1)}\n{told}" if told else clip(quoted, TEXT)
