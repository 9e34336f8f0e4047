"""Between Telegram's numbers and our addresses, people and message ids: nobody else looks inside these."""

from __future__ import annotations

from pilothouse.channels.telegram.wire import Chat, Message, User
from pilothouse.core.ids import ChannelId, UserId
from pilothouse.core.message import Address, Author

TELEGRAM = ChannelId("telegram")
NAMELESS = "Somebody"


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
