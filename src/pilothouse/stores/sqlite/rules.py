"""Rules that people made: each rule is stored once per folder and session."""

from __future__ import annotations

from typing import Any

import msgspec

from pilothouse.core.ids import RuleId, SessionId
from pilothouse.core.policy import RuleRow
from pilothouse.stores.sqlite.link import Link


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
