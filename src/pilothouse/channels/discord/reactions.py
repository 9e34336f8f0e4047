"""A reaction as a source of work: what somebody did to a message → a message that starts a turn. Pure.

It is off unless a channel's rules switch it on: a thumb that costs money must be wanted. Who may start anything is the
desk's business, as for every message. One reaction of one person to one message counts once, however often it is taken
away and given again: Discord tells the same one anew after a lost connection, and gives it no number of its own.
"""

from __future__ import annotations

import unicodedata

from msgspec import Struct

from pilothouse.channels.discord.attachments import Offered
from pilothouse.channels.parts import safe_name
from pilothouse.core.message import Address, Author, InboundMessage

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
    """A message for the desk. The original's files are still at Discord's."""

    message: InboundMessage
    files: tuple[Offered, ...] = ()


class PassedOver(Struct, frozen=True):
    """`why` goes to the log."""

    why: str


def worth_a_look(reaction: Reaction, *, switched_on: bool) -> str:
    """Why it starts nothing, by itself and before anybody asks Discord for the message; empty if it may."""
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
    """Also to withdraw it by, if it is taken away while it waits."""
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
