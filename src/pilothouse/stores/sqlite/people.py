"""Roles granted on this machine: one per person and workspace, enforced by the database."""

from __future__ import annotations

from typing import Any

from pilothouse.core.ids import UserId
from pilothouse.core.people import Grant
from pilothouse.stores.sqlite.link import Link


class GrantTable:
    def __init__(self, link: Link) -> None:
        self._link = link

    def grant(self, grant: Grant) -> None:
        self._link.run(
            "people.grant",
            user=grant.user,
            role=grant.role,
            workspace=grant.workspace,
            name=grant.name,
            by=grant.by,
            at=grant.at,
        )

    def revoke(self, user: UserId, workspace: str | None = None) -> list[Grant]:
        return self._all("revoke", user=user, workspace=workspace)

    def of(self, user: UserId) -> list[Grant]:
        return self._all("of", user=user)

    def everybody(self) -> list[Grant]:
        return self._all("everybody")

    def _all(self, name: str, **values: Any) -> list[Grant]:
        return [Grant(*row) for row in self._link.rows(f"people.{name}", **values)]
