"""The commands in Telegram's menu: in a private chat, in groups, and, for their administrators, what only those may."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pilothouse.channels.telegram.client import BotClient
from pilothouse.channels.telegram.shapes import Command, Scope
from pilothouse.channels.telegram.trouble import Trouble
from pilothouse.core.channel import MenuCommand
from pilothouse.core.people import at_least

PRIVATE_ONLY = ("pair",)


def menus(commands: Sequence[MenuCommand]) -> dict[Scope, tuple[Command, ...]]:
    for_all = [command for command in commands if at_least("member", command.role)]
    in_groups = [command for command in for_all if command.name not in PRIVATE_ONLY]
    for_admins = [command for command in commands if command.name not in PRIVATE_ONLY]
    return {
        Scope("all_private_chats"): _shapes(commands),
        Scope("all_group_chats"): _shapes(in_groups),
        Scope("all_chat_administrators"): _shapes(for_admins),
    }


async def put_up_menu(client: BotClient, commands: Sequence[MenuCommand], log: Callable[..., None]) -> None:
    """Once at every start; that it did not work costs nothing but the menu."""
    if not commands:
        return
    for scope, shown in menus(commands).items():
        put_up = await client.set_my_commands(shown, scope=scope)
        if isinstance(put_up, Trouble):
            log("telegram.menu_failed", level="warning", scope=scope.type, why=put_up.text)


def _shapes(commands: Sequence[MenuCommand]) -> tuple[Command, ...]:
    return tuple(Command(command.name, command.summary) for command in commands)
