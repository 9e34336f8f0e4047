"""Slash commands, the context menu, and what is suggested while one types. The answer itself is a normal message."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

import anyio
from msgspec import Struct

from pilothouse.channels.discord.addressing import Place
from pilothouse.channels.discord.calls import Calls
from pilothouse.channels.discord.limits import TEXT
from pilothouse.channels.discord.markdown import escaped
from pilothouse.channels.discord.receive import files_of, quote_of
from pilothouse.channels.discord.replying import LOOK_S, Asked, Reply
from pilothouse.channels.discord.sending import MESSAGE
from pilothouse.channels.discord.slash import ASK, ASK_ABOUT
from pilothouse.channels.discord.taking import Taker
from pilothouse.channels.discord.trouble import Trouble
from pilothouse.channels.discord.wire import Interaction, Message, inputs, read, sent_at
from pilothouse.channels.receipts import accept_fetched, may_talk
from pilothouse.channels.text import clip
from pilothouse.core.channel import Desk, Receipt
from pilothouse.core.errors import PilothouseError, StoreError
from pilothouse.core.message import Author, InboundMessage, conversation_id

ABOUT = "q|"
ON_MESSAGE = 3
GONE = "That message cannot be read any more."
NOT_LET_IN = "You may not talk to me here. Whoever runs me can let you in."


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


class Commanding:
    def __init__(self, desk: Desk, taker: Taker, log: Callable[..., None]) -> None:
        self._desk = desk
        self._taker = taker
        self._log = log

    async def command(self, done: Done) -> None:
        data = done.interaction.data
        if data.type == ON_MESSAGE:
            key = f"{ABOUT}{data.target_id or ''}"
            await done.reply.ask(Asked(key, ASK_ABOUT, "What do you want to know?"))
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
        sessions = await self._desk.query("sessions", done.by, conversation=place)
        newest = sorted(sessions, key=lambda one: one.used_at, reverse=True)
        return [
            (f"{one.engine} · {one.model or 'its own model'} · {one.turns} turns · {one.id}", str(one.id))
            for one in newest
        ]

    async def _ask(self, done: Done, text: str) -> None:
        if await self._let_in(done):
            await self._show(done, await self._desk.accept(self._said(done, text)), text)

    async def _let_in(self, done: Done) -> bool:
        """What is asked stands there for all to see; that somebody may not ask is theirs alone to read."""
        allowed = True  # if that cannot be told now, it is looked at again when it is accepted
        with anyio.move_on_after(LOOK_S), suppress(StoreError):
            allowed = await may_talk(self._desk, self._said(done, ""))
        await (done.reply.defer(ephemeral=False) if allowed else done.reply.say(NOT_LET_IN))
        return allowed

    async def _show(self, done: Done, receipt: Receipt, shown: str) -> None:
        quoted = "\n".join(f"> {line}" for line in shown.splitlines()) or f"> {ASK_ABOUT}"
        if await done.reply.finish(_above(quoted, receipt.text)) or receipt.state in ("duplicate", "refused"):
            return
        # It was acknowledged too late, and Discord shows no command: an answer would stand there without its question.
        said = _above(f"{escaped(done.by.name)} asked:\n{quoted}", receipt.text)
        await self._taker.tell(done.place.address, said, "")

    async def _run(self, done: Done, line: str) -> None:
        """The command's own answer is a normal message; what only this person shall read stands here."""
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
    """What was asked, and what became of it: of the two only the first may be cut."""
    return f"{clip(quoted, TEXT - len(told) - 1)}\n{told}" if told else clip(quoted, TEXT)
