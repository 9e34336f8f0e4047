"""Who may do what: one authority table, asked by every surface. Nobody is let in by default (law 7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct, field

from pilothouse.core.ids import UserId

Role = Literal["owner", "member", "stranger"]
Deed = Literal["message", "answer", "command", "configure", "follow", "query", "engine_command"]

_RANK: dict[Role, int] = {"stranger": 0, "member": 1, "owner": 2}

AUTHORITY: dict[Deed, Role] = {
    "message": "member",
    "answer": "member",
    "command": "member",
    "configure": "owner",
    "follow": "member",
    "query": "member",
    "engine_command": "owner",
}


class People(Struct, frozen=True):
    """The roles that somebody granted. Whoever is not in here is a stranger."""

    roles: Mapping[UserId, Role] = field(default_factory=dict)

    def role(self, user: UserId) -> Role:
        return self.roles.get(user, "stranger")

    def may(self, user: UserId, deed: Deed) -> bool:
        return _RANK[self.role(user)] >= _RANK[AUTHORITY[deed]]
