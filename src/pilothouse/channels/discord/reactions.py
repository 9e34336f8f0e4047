"""Reactions: 🛑 on a progress message stops its turn; where switched on, any other reaction starts one.

They are off by default, since a turn costs money. One reaction of one person to one message counts once, even if it is
removed and added again: Discord repeats reactions after a lost connection, and they have no id.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from pilothouse.channels.discord.accept import Taker, offered
from pilothouse.channels.discord.addresses import Place, author_of, is_heard, user_id
from pilothouse.channels.discord.attachments import Offered
from pilothouse.channels.discord.interactions import Interactions
from pilothouse.channels.discord.markdown import escaped
from pilothouse.channels.discord.receive import Scene, files_of, words_of
from pilothouse.channels.discord.rest import Calls
from pilothouse.channels.discord.sender import MESSAGE
from pilothouse.channels.discord.trouble import Away, Trouble
from pilothouse.channels.discord.wire import Event, Message, read, sent_at
from pilothouse.channels.discord.wire import Reaction as Told
from pilothouse.channels.intake_queue import SORRY
from pilothouse.channels.parts import safe_name
from pilothouse.channels.receipts import accept_fetched, may_talk
from pilothouse.core.channel import Desk
from pilothouse.core.clock import Clock
from pilothouse.core.ids import TurnId
from pilothouse.core.message import Address, Author, InboundMessage, MessageDeleted

ORIGINAL_CHARS = 1500
OLDEST_S = 24 * 3600.0
STOP = "🛑"
"""Stops a turn, and starts none."""
_NAME_CHARS = 100
_FILES_NAMED = 10


class Reaction(Struct, frozen=True):
    """`emoji` is the character itself, or the name of one that a server made."""

    address: Address
    by: Author
    message_id: str
    emoji: str
    at: float


class Original(Struct, frozen=True):
    """The message that it was put on, with readable words; `ours` if we said it."""

    author: str
    text: str
    sent_at: float
    files: tuple[Offered, ...] = ()
    ours: bool = False


class Reacted(Struct, frozen=True):
    """A message for the desk, and files that are not fetched yet."""

    message: InboundMessage
    files: tuple[Offered, ...] = ()


class PassedOver(Struct, frozen=True):
    """`why` goes to the log."""

    why: str


def worth_a_look(reaction: Reaction, *, switched_on: bool) -> str:
    """Return why a reaction starts nothing, before its message is fetched; empty if it may."""
    if not switched_on:
        return "reactions start nothing here"
    if reaction.by.is_bot:
        return "a bot reacted"
    return "it stops a turn, and starts none" if _plain(reaction.emoji).startswith(STOP) else ""


def react(reaction: Reaction, original: Original, *, switched_on: bool) -> Reacted | PassedOver:
    if why := worth_a_look(reaction, switched_on=switched_on):
        return PassedOver(why)
    if reaction.at - original.sent_at > OLDEST_S:
        return PassedOver("the message is older than a day")
    message = InboundMessage(
        reaction.address,
        reaction.by,
        native_id(reaction),
        _words(reaction, original),
        kind="reaction",
        reply_to=reaction.message_id,
        quoted=_cut(original.text.strip()) or None,
        source="discord",
        sent_at=reaction.at,
    )
    return Reacted(message, original.files)


def native_id(reaction: Reaction) -> str:
    """The id of a reaction, by which it is also withdrawn."""
    user = reaction.by.id.rpartition(":")[2]
    return f"reaction:{reaction.message_id}:{user}:{_plain(reaction.emoji)}"


def _words(reaction: Reaction, original: Original) -> str:
    whose = "your message" if original.ours else f"a message of {_plain(original.author) or 'somebody'}"
    names = ", ".join(safe_name(file.name, "a file") for file in original.files[:_FILES_NAMED])
    files = f", with {names}" if names else ""
    ending = ", which is quoted above." if original.text.strip() else "."
    by = _plain(reaction.by.name) or "Somebody"
    return f"{by} reacted with {_plain(reaction.emoji)} to {whose}{files}{ending}"


def _cut(text: str) -> str:
    return text if len(text) <= ORIGINAL_CHARS else text[: ORIGINAL_CHARS - 1] + "…"


def _plain(text: str) -> str:
    """On one line, and without what could hide a word; an emoji keeps what joins its parts."""
    shown = "".join(
        " " if c.isspace() else c for c in text if c == "\u200d" or unicodedata.category(c)[0] != "C"
    )
    return " ".join(shown.split())[:_NAME_CHARS]


class Reactions:
    """`turn_of` knows whose progress a message of ours is."""

    def __init__(
        self,
        desk: Desk,
        taker: Taker,
        interactions: Interactions,
        clock: Clock,
        *,
        turn_of: Callable[[str], TurnId | None],
        log: Callable[..., None],
    ) -> None:
        self._desk = desk
        self._taker = taker
        self._interactions = interactions
        self._clock = clock
        self._turn_of = turn_of
        self._log = log

    async def take(self, event: Event, us: str, calls: Calls) -> None:
        told = read(event.data, Told)
        if isinstance(told, str) or told.user_id == us:
            return
        place = await self._taker.place(told.channel_id, told.guild_id, calls)
        if place is None:
            return
        turn, given = self._turn_of(told.message_id), event.name == "MESSAGE_REACTION_ADD"
        if given and not self._is_heard(told, place):
            return
        if turn is not None and given and is_stop(event.data):
            await self._interactions.stop_quietly(place.address, _author(told), turn)
            return
        scene = await self._taker.scene(place, us)
        reaction = Reaction(
            place.address, _author(told), told.message_id, told.emoji.name or "", self._clock.now()
        )
        if why := worth_a_look(reaction, switched_on=scene.heard.reactions):
            self._log("discord.reaction_passed_over", level="debug", message=told.message_id, why=why)
        elif given:
            await self._start(reaction, scene, calls)
        else:
            await self._desk.deleted(MessageDeleted(place.address, reaction.by, native_id(reaction)))

    async def apologise(self, event: Event, us: str, calls: Calls) -> None:
        """Tell the person that their reaction failed, if they may talk to us."""
        told = read(event.data, Told)
        if isinstance(told, str) or told.user_id == us or event.name != "MESSAGE_REACTION_ADD":
            return
        place = await self._taker.place(told.channel_id, told.guild_id, calls)
        if place is None or not self._is_heard(told, place):
            return
        by = _author(told)
        stops = is_stop(event.data) and self._turn_of(told.message_id) is not None
        given = InboundMessage(place.address, by, told.message_id, "")
        if (stops or self._taker.heard(place).reactions) and await may_talk(self._desk, given):
            text = _whose(by, place) + SORRY.format(what="reaction")
            await self._taker.tell(place.address, text, told.message_id)

    def _is_heard(self, told: Told, place: Place) -> bool:
        """Is this person heard? A removed reaction comes without roles, and anybody may remove their own."""
        roles = told.member.roles if told.member else ()
        return is_heard(told.user_id, roles, self._taker.heard(place), direct=place.direct)

    async def _start(self, reaction: Reaction, scene: Scene, calls: Calls) -> None:
        original = await self._original(reaction.message_id, scene.place, scene, calls)
        found = original if isinstance(original, PassedOver) else react(reaction, original, switched_on=True)
        if isinstance(original, PassedOver) or isinstance(found, PassedOver):
            why = found.why if isinstance(found, PassedOver) else ""
            self._log("discord.reaction_passed_over", message=reaction.message_id, why=why)
            return
        message, is_let_in = found.message, await may_talk(self._desk, found.message)
        if found.files and is_let_in:
            files = found.files
            receipt = await accept_fetched(
                self._desk, message, lambda: self._taker.with_offered(message, files)
            )
        else:
            receipt = await self._desk.accept(message)
        to_us = is_let_in or original.ours or scene.place.direct or scene.heard.dedicated
        if receipt.text and receipt.state != "duplicate" and to_us:
            text = _whose(reaction.by, scene.place) + receipt.text
            await self._taker.tell(message.address, text, reaction.message_id)

    async def _original(self, id: str, place: Place, scene: Scene, calls: Calls) -> Original | PassedOver:
        found = await calls.get(MESSAGE, channel_id=place.id, message_id=id)
        if isinstance(found, Trouble) and found.is_passing:
            raise Away(found.text)
        message = found.text if isinstance(found, Trouble) else read(found, Message)
        if isinstance(message, str):
            return PassedOver(f"the message cannot be read: {message}")
        author = message.author
        name, ours = (author.name, author.id == scene.us.id) if author else ("", False)
        files = tuple(offered(file) for file in files_of(message))
        return Original(name, words_of(message, scene), sent_at(message.id), files, ours)


def _whose(by: Author, place: Place) -> str:
    """Begin with the person's name: our reply is below a message that may be somebody else's."""
    return "" if place.direct else f"{escaped(by.name)}: "


def _author(told: Told) -> Author:
    """The person who reacted; in private chats only their id is known."""
    user = told.member.user if told.member else None
    return author_of(user, told.member) if user else Author(user_id(told.user_id), "Somebody")


def is_stop(reaction: dict[str, Any]) -> bool:
    """Is this raw reaction the stop sign?"""
    emoji = reaction.get("emoji")
    return isinstance(emoji, dict) and str(emoji.get("name")).startswith(STOP)
