"""We were added to a group, or removed; somebody blocked us, or came back: the desk hears of it, with a greeting to say."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from pilothouse.channels.greeting import greeting
from pilothouse.channels.telegram.addressing import chat_name, group, person
from pilothouse.channels.telegram.wire import ChatMember, Me, MemberChanged
from pilothouse.core.channel import Desk
from pilothouse.core.message import Address, Presence
from pilothouse.core.trigger import Trigger

GREETED = ("group", "supergroup")
"""In a channel a greeting would go to all who read it."""
PRIVACY = (
    " Most other messages Telegram keeps from me, until my privacy mode is switched off with @BotFather."
)


async def take_membership(
    change: MemberChanged,
    me: Me,
    desk: Desk,
    trigger_of: Callable[[Address], Awaitable[Trigger]],
    log: Callable[..., None],
) -> None:
    was_in, is_in = _is_in(change.old_chat_member), _is_in(change.new_chat_member)
    chat, status = change.chat, change.new_chat_member.status
    log("telegram.membership", chat=chat.id, status=status, by=change.from_.id)
    here = Presence(
        group(chat.id),
        person(change.from_),
        chat_name(chat),
        f"{change.date}:{status}",
        private=chat.type == "private",
    )
    if is_in and not was_in:
        words = hello(me, await trigger_of(here.address)) if chat.type in GREETED else ""
        await desk.arrived(here, words)
    elif was_in and not is_in:
        await desk.left(here)


def hello(me: Me, trigger: Trigger) -> str:
    is_deaf = trigger.mode in ("all", "pattern") and not me.can_read_all_group_messages
    return greeting(me.username or "", trigger) + (PRIVACY if is_deaf else "")


def _is_in(member: ChatMember) -> bool:
    if member.status == "restricted":
        return member.is_member is not False
    return member.status not in ("left", "kicked")
