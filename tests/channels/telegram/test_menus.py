"""Each kind of chat has a menu of the commands that make sense there."""

from __future__ import annotations

from pilothouse.channels.telegram.account import menus
from pilothouse.runtime.commands.table import COMMANDS, menu


def test_each_kind_of_chat_lists_what_makes_sense_there() -> None:
    listed = {scope.type: {one.command for one in shown} for scope, shown in menus(menu()).items()}
    everywhere = set(COMMANDS) - {"pair", "trigger"}
    assert listed == {
        "all_private_chats": everywhere,
        "all_group_chats": {*everywhere, "trigger"},
        "all_chat_administrators": {*everywhere, "trigger"},
    }


def test_every_description_is_short_enough_for_a_phone() -> None:
    assert all(len(one.description) <= 45 for shown in menus(menu()).values() for one in shown)
