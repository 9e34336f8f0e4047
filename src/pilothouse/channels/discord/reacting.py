"""Reactions: the sign for "stop" on the progress of a turn stops it; where it is switched on, any other starts a turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pilothouse.channels.discord.addressing import Place, author_of, user_id
from pilothouse.channels.discord.calls import Calls
from pilothouse.channels.discord.interactions import Interactions
from pilothouse.channels.discord.markdown import escaped
from pilothouse.channels.discord.reactions import (
    STOP,
    Original,
    PassedOver,
    Reaction,
    native_id,
    react,
    worth_a_look,
)
from pilothouse.channels.discord.receive import Scene, files_of, words_of
from pilothouse.channels.discord.sending import MESSAGE
from pilothouse.channels.discord.taking import Taker, offered
from pilothouse.channels.discord.trigger import is_heard
from pilothouse.channels.discord.trouble import Away, Trouble
from pilothouse.channels.discord.wire import Event, Message, read, sent_at
from pilothouse.channels.discord.wire import Reaction as Told
from pilothouse.channels.failures import SORRY
from pilothouse.channels.receipts import accept_fetched, may_talk
from pilothouse.core.channel import Desk
from pilothouse.core.clock import Clock
from pilothouse.core.ids import TurnId
from pilothouse.core.message import Author, InboundMessage, MessageDeleted


class Reacting:
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
        """Whoever may talk to us and wanted something by it hears that it broke us."""
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
        """Who takes a reaction back is told without their roles, and may always do that."""
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
    """What we say stands below a message that may be somebody else's."""
    return "" if place.direct else f"{escaped(by.name)}: "


def _author(told: Told) -> Author:
    """In private nobody says who it is; whoever talks with us there is known by their number."""
    user = told.member.user if told.member else None
    return author_of(user, told.member) if user else Author(user_id(told.user_id), "Somebody")


def is_stop(reaction: dict[str, Any]) -> bool:
    """Of a raw one."""
    emoji = reaction.get("emoji")
    return isinstance(emoji, dict) and str(emoji.get("name")).startswith(STOP)
