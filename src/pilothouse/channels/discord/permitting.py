"""What a bot may do in a channel: Discord's own rule, from what it tells of the server, the channel and the bot.

https://docs.discord.com/developers/topics/permissions: what everybody may, with what one's roles add; then the channel takes
away and gives: for everybody, for roles together, for the one person.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

ADMINISTRATOR = 1 << 3
ALL = (1 << 53) - 1

NEEDED = {
    "View Channel": 1 << 10,
    "Send Messages": 1 << 11,
    "Read Message History": 1 << 16,
}
"""Without these there is no conversation."""
WANTED = {
    "Add Reactions": 1 << 6,
    "Attach Files": 1 << 15,
    "Manage Threads": 1 << 34,
    "Create Public Threads": 1 << 35,
    "Send Messages in Threads": 1 << 38,
}
"""Without one of these something is missing, and that is said when it is wanted. Threads are managed to open an archived
one that we answer in."""
INVITED = sum(NEEDED.values()) + sum(WANTED.values())
"""Exactly what we use."""


class Granted(Struct, frozen=True):
    """A role, with what it may."""

    id: str
    permissions: str = "0"


class Overwrite(Struct, frozen=True):
    """What a channel gives and takes; for a role, or (type 1) for one person."""

    id: str
    type: int = 0
    allow: str = "0"
    deny: str = "0"


class Server(Struct, frozen=True):
    id: str
    name: str = ""
    owner_id: str = ""
    roles: tuple[Granted, ...] = ()


class Room(Struct, frozen=True):
    id: str
    type: int = 0
    guild_id: str | None = None
    name: str | None = None
    permission_overwrites: tuple[Overwrite, ...] = ()


def permissions_in(room: Room, server: Server, me: str, roles: tuple[str, ...]) -> int:
    """`roles` are ours, without the one that everybody has, whose id is the server's."""
    if server.owner_id == me:
        return ALL
    held = {server.id, *roles}
    may = 0
    for role in server.roles:
        may |= int(role.permissions) if role.id in held else 0
    if may & ADMINISTRATOR:
        return ALL
    rules = room.permission_overwrites
    everybody = [rule for rule in rules if rule.type == 0 and rule.id == server.id]
    by_role = [rule for rule in rules if rule.type == 0 and rule.id in roles]
    ours = [rule for rule in rules if rule.type == 1 and rule.id == me]
    for step in (everybody, by_role, ours):
        may = _changed(may, step)
    return may


def missing_in(may: int) -> list[str]:
    """The names of what is needed and not given. Whoever cannot see a channel can do nothing in it."""
    return [name for name, bit in NEEDED.items() if not may & bit]


def quoted(names: Sequence[str]) -> str:
    return ", ".join(f"“{name}”" for name in names)


def _changed(may: int, rules: list[Overwrite]) -> int:
    allow = deny = 0
    for rule in rules:
        allow |= int(rule.allow)
        deny |= int(rule.deny)
    return (may & ~deny) | allow
