"""The commands in Telegram's menu: in a private chat, in groups, and, for their administrators, what only those may."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pilothouse.channels.telegram.client import BotClient
from pilothouse.channels.telegram.shapes import Command, Scope
from pilothouse.channels.telegram.trouble import (
    Conflict,
    NetworkDown,
    NotTelegram,
    RetryAfter,
    ServerDown,
    Trouble,
    Unauthorized,
)
from pilothouse.core.channel import MenuCommand
from pilothouse.core.clock import Clock
from pilothouse.core.people import at_least

PRIVATE_ONLY = ("pair",)
FIRST_S = 5.0
LONGEST_S = 600.0
PASSING = (RetryAfter, NetworkDown, ServerDown, NotTelegram, Unauthorized, Conflict)
"""What may go well another time, with the same commands."""


def menus(commands: Sequence[MenuCommand]) -> dict[Scope, tuple[Command, ...]]:
    for_all = [command for command in commands if at_least("member", command.role)]
    in_groups = [command for command in for_all if command.name not in PRIVATE_ONLY]
    for_admins = [command for command in commands if command.name not in PRIVATE_ONLY]
    return {
        Scope("all_private_chats"): _shapes(commands),
        Scope("all_group_chats"): _shapes(in_groups),
        Scope("all_chat_administrators"): _shapes(for_admins),
    }


async def put_up_menu(
    client: BotClient, commands: Sequence[MenuCommand], clock: Clock, log: Callable[..., None]
) -> None:
    """At every start, until Telegram has it. What it refuses for good costs nothing but that menu."""
    for scope, shown in menus(commands).items() if commands else ():
        pause_s = FIRST_S
        while isinstance(put_up := await client.set_my_commands(shown, scope=scope), Trouble):
            is_passing = isinstance(put_up, PASSING)
            wait_s = put_up.after_s if isinstance(put_up, RetryAfter) else pause_s
            again = {"again_s": wait_s} if is_passing else {}
            log("telegram.menu_failed", level="warning", scope=scope.type, why=put_up.text, **again)
            if not is_passing:
                break
            await clock.sleep(wait_s)
            pause_s = min(pause_s * 2, LONGEST_S)


def _shapes(commands: Sequence[MenuCommand]) -> tuple[Command, ...]:
    return tuple(Command(command.name, command.summary) for command in commands)
