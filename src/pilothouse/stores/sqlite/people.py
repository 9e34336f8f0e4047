"""Decisions of people on this machine: roles, one per person and workspace, and rules, each once per folder and session."""

from __future__ import annotations

from typing import Any

import msgspec

from pilothouse.core.ids import RuleId, SessionId, UserId
from pilothouse.core.people import Grant
from pilothouse.core.policy import RuleRow
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


class RuleTable:
    def __init__(self, link: Link) -> None:
        self._link = link

    def add(self, row: RuleRow) -> bool:
        return self._link.run("rules.add", **msgspec.structs.asdict(row)) > 0

    def remove(self, id: RuleId) -> RuleRow | None:
        row = self._link.row("rules.get", id=id)
        self._link.run("rules.remove", id=id)
        return RuleRow(*row) if row else None

    def of(self, workspace: str, session_id: SessionId | None = None) -> list[RuleRow]:
        return self._all("of", workspace=workspace, session_id=session_id)

    def _all(self, name: str, **values: Any) -> list[RuleRow]:
        return [RuleRow(*row) for row in self._link.rows(f"rules.{name}", **values)]

    def list(self) -> list[RuleRow]:
        return self._all("oldest")
