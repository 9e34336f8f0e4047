"""A policy of rules that never change, for whoever has no store: a test, a rig."""

from __future__ import annotations

from collections.abc import Sequence

from pilothouse.core.ask import Ask
from pilothouse.core.deciding import decide
from pilothouse.core.policy import Ruling, Senses, Site
from pilothouse.core.rules import Rule


class FixedPolicy:
    def __init__(self, rules: Sequence[Rule] = (), senses: Senses | None = None) -> None:
        self._rules = tuple(rules)
        self._senses = senses or Senses()

    async def judge(self, ask: Ask, site: Site) -> Ruling:
        return decide(ask, self._rules, site, self._senses)
