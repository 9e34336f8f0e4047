"""Between Telegram's numbers and our addresses, people and message ids: nobody else looks inside these.

Whether a message in a group is meant for us. In a private chat every one is.

A command of ours is always meant for us, unless it names another bot; so is an answer to something that we said. In a
group other bots have commands, too: one that we do not know is theirs, unless it names us.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

from pilothouse.channels.telegram.wire import Chat, Entity, Me, Message, User
from pilothouse.core.channel import MenuCommand
from pilothouse.core.ids import ChannelId, UserId
from pilothouse.core.message import Address, Author
from pilothouse.core.trigger import IMMEDIATE_COMMANDS, Trigger, matches_trigger

TELEGRAM = ChannelId("telegram")
NAMELESS = "Somebody"

_COMMAND = re.compile(r"/(?P<name>[A-Za-z0-9_]{1,32})(?:@(?P<bot>[A-Za-z0-9_]{3,32}))?(?=\s|$)")


START = "start"
"""What Telegram's own button says. It is no command of the house; `receive` knows what it means."""


def address_of(message: Message) -> Address:
    """A topic is a conversation of its own. A thread of replies is not: its number is on ordinary messages too."""
    thread = (
        str(message.message_thread_id) if message.is_topic_message and message.message_thread_id else None
    )
    return Address(TELEGRAM, str(message.chat.id), thread)


def group(chat_id: int) -> Address:
    """A group as a whole, not one of its topics."""
    return Address(TELEGRAM, str(chat_id))


def chat_of(address: Address) -> tuple[int, int | None]:
    """The chat and the topic that an address names."""
    return int(address.place), int(address.thread) if address.thread else None


def author_of(message: Message) -> Author | None:
    """Who said it: a person, or a group or channel that speaks for itself. A post without either has no author."""
    if message.sender_chat is not None:
        return Author(UserId(f"{TELEGRAM}:{message.sender_chat.id}"), chat_name(message.sender_chat))
    return person(message.from_) if message.from_ is not None else None


def speaks_as_group(message: Message) -> bool:
    """An administrator who is anonymous: Telegram tells the group's id, which is that of each of them."""
    sender, chat = message.sender_chat, message.chat
    return sender is not None and sender.id == chat.id and chat.type in ("group", "supergroup")


def person(user: User) -> Author:
    return Author(UserId(f"{TELEGRAM}:{user.id}"), user_name(user), user.is_bot)


def user_name(user: User) -> str:
    full = " ".join(part for part in (user.first_name, user.last_name) if part)
    return full.strip() or user.username or NAMELESS


def chat_name(chat: Chat) -> str:
    full = " ".join(part for part in (chat.first_name, chat.last_name) if part)
    return chat.title or full.strip() or chat.username or str(chat.id)


class Us(Struct, frozen=True):
    """Who we are, and the names of our commands."""

    me: Me
    commands: frozenset[str]


def us_with(me: Me, commands: Iterable[MenuCommand]) -> Us:
    names = (name for command in commands for name in (command.name, *command.aliases))
    return Us(me, frozenset({START, *names}))


def is_for_us(message: Message, us: Us, trigger: Trigger) -> bool:
    me, text, private = us.me, message.text or message.caption or "", message.chat.type == "private"
    if found := _COMMAND.match(text):
        if bot := found["bot"]:
            return bot.lower() == (me.username or "").lower()
        return private or found["name"].lower() in us.commands or _mentions(message, text, me)
    if private:
        return True
    mentioned, answered = _mentions(message, text, me), is_reply_to(message, me)
    return matches_trigger(trigger, text, mentioned=mentioned, answered=answered)


def may_answer(message: Message) -> bool:
    """Words to nobody in particular: whoever was asked something may mean them as the answer."""
    words = bool(message.text) and message.forward_origin is None and message.via_bot is None
    named = any(entity.type in ("mention", "text_mention") for entity in message.entities)
    return words and not named and replied_to(message) is None and not is_command(message)


def is_command(message: Message) -> bool:
    return command_units(message) > 0


def command_units(message: Message) -> int:
    """How long the name of the command is that it begins with; 0 if it is none."""
    found = _COMMAND.match(message.text or message.caption or "")
    return found.end() if found else 0


def overtakes(message: Message) -> bool:
    """A command that acts on what runs, or tells of it, as it was typed and not as it was forwarded."""
    found = _COMMAND.match(message.text or "")
    return (
        found is not None and found["name"].lower() in IMMEDIATE_COMMANDS and message.forward_origin is None
    )


def is_reply_to(message: Message, me: Me) -> bool:
    """An answer to one of ours. In a topic, each message seems to answer the one that opened it."""
    answered = replied_to(message)
    return answered is not None and answered.from_ is not None and answered.from_.id == me.id


def replied_to(message: Message) -> Message | None:
    answered = message.reply_to_message
    if answered is None or (message.is_topic_message and answered.message_id == message.message_thread_id):
        return None
    return answered


def without_our_name(text: str, me: Me) -> str:
    """`/stop@our_bot now` is `/stop now`."""
    found = _COMMAND.match(text)
    if found is None or not found["bot"] or found["bot"].lower() != (me.username or "").lower():
        return text
    return f"/{found['name']}{text[found.end() :]}"


def _mentions(message: Message, text: str, me: Me) -> bool:
    name = f"@{me.username or ''}".lower()
    return any(
        (entity.type == "mention" and _slice(text, entity).lower() == name)
        or (entity.type == "text_mention" and entity.user is not None and entity.user.id == me.id)
        for entity in (*message.entities, *message.caption_entities)
    )


def _slice(text: str, entity: Entity) -> str:
    """Offsets count UTF-16 units."""
    data = text.encode("utf-16-le", "surrogatepass")
    return data[entity.offset * 2 : (entity.offset + entity.length) * 2].decode("utf-16-le", "replace")
