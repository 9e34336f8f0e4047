"""The bot's own account: its name, its command menus, and the groups that it is added to or removed from."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import anyio

from pilothouse.channels.receipts import greeting
from pilothouse.channels.skeleton import pause_s
from pilothouse.channels.telegram.client import BotClient, open_client
from pilothouse.channels.telegram.config import TelegramConfig
from pilothouse.channels.telegram.content import chat_name, group_address, person
from pilothouse.channels.telegram.payload import Command, Scope
from pilothouse.channels.telegram.trouble import (
    Conflict,
    NetworkDown,
    NotTelegram,
    RetryAfter,
    ServerDown,
    Trouble,
    Unauthorized,
)
from pilothouse.channels.telegram.wire import ChatMember, Me, MemberChanged
from pilothouse.core.channel import BotIdentity, Desk, MenuCommand
from pilothouse.core.clock import Clock
from pilothouse.core.message import Address, Presence
from pilothouse.core.people import at_least
from pilothouse.core.secret import and_put
from pilothouse.core.trigger import Trigger

GREETED_CHATS = ("group", "supergroup")
"""Not in a channel, where all readers would see the greeting."""
PRIVACY = " Telegram hides most other messages from me until my privacy mode is switched off with @BotFather."
IDENTIFY_S = 20.0
MENU_FIRST_S = 5.0
MENU_LONGEST_S = 600.0
TEMPORARY = (RetryAfter, NetworkDown, ServerDown, NotTelegram, Unauthorized, Conflict)
"""Failures that may pass; others mean that this menu is refused for good."""


async def report_membership(
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
        group_address(chat.id),
        person(change.from_),
        chat_name(chat),
        f"{change.date}:{status}",
        private=chat.type == "private",
    )
    if is_in and not was_in:
        words = group_greeting(me, await trigger_of(here.address)) if chat.type in GREETED_CHATS else ""
        await desk.arrived(here, words)
    elif was_in and not is_in:
        await desk.left(here)


def group_greeting(me: Me, trigger: Trigger) -> str:
    is_deaf = trigger.mode in ("all", "pattern") and not me.can_read_all_group_messages
    return greeting(me.username or "", trigger) + (PRIVACY if is_deaf else "")


def _is_in(member: ChatMember) -> bool:
    if member.status == "restricted":
        return member.is_member is not False
    return member.status not in ("left", "kicked")


def identify(config: TelegramConfig) -> BotIdentity:
    return anyio.run(_identify, config)


async def _identify(config: TelegramConfig) -> BotIdentity:
    with anyio.move_on_after(IDENTIFY_S):
        async with open_client(config.endpoint) as client:
            me = await client.get_me()
        if isinstance(me, Unauthorized):
            how = f"copy it again from @BotFather{and_put(config.token)}"
            return BotIdentity(problem=f"the token is refused ({me.text}): {how}")
        if isinstance(me, Trouble):
            return BotIdentity(
                problem=f"{me.text}. Check that this machine reaches {config.endpoint.shown}, and try again"
            )
        return BotIdentity(f"@{me.username}", f"https://t.me/{me.username}")
    return BotIdentity(problem=f"{config.endpoint.shown} did not answer within {IDENTIFY_S:.0f} s: try again")


async def publish_menus(
    client: BotClient, commands: Sequence[MenuCommand], clock: Clock, log: Callable[..., None]
) -> None:
    """Publish the menus, retrying temporary failures. A menu that Telegram refuses is skipped."""
    for scope, shown in menus(commands).items() if commands else ():
        in_a_row = 0
        while isinstance(put_up := await client.set_my_commands(shown, scope=scope), Trouble):
            in_a_row += 1
            is_passing = isinstance(put_up, TEMPORARY)
            doubled_s = pause_s(in_a_row, MENU_LONGEST_S, MENU_FIRST_S)
            wait_s = put_up.after_s if isinstance(put_up, RetryAfter) else doubled_s
            again = {"again_s": wait_s} if is_passing else {}
            log("telegram.menu_failed", level="warning", scope=scope.type, why=put_up.text, **again)
            if not is_passing:
                break
            await clock.sleep(wait_s)


def menus(commands: Sequence[MenuCommand]) -> dict[Scope, tuple[Command, ...]]:
    """Return each kind of chat's menu. Strangers see the private one too: they are told in words how to get in."""
    in_groups = [command for command in commands if "group" in command.menus]
    return {
        Scope("all_private_chats"): _shapes([one for one in commands if "private" in one.menus]),
        Scope("all_group_chats"): _shapes([one for one in in_groups if at_least("member", one.role)]),
        Scope("all_chat_administrators"): _shapes(in_groups),
    }


def _shapes(commands: Sequence[MenuCommand]) -> tuple[Command, ...]:
    return tuple(Command(command.name, command.summary) for command in commands)
