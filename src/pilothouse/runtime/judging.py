"""The house's policy: the rules of the configuration, of the workspace and of the store, and one decision over them.

Every call of every engine ends here, and so does every ask that becomes a row. The store is read for each decision, so
that a rule counts from the moment it is made and a removed one no longer does.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec import Struct

from pilothouse.core.ask import Ask
from pilothouse.core.errors import StoreError
from pilothouse.core.policy import ApprovalMode, Ruling, Senses, Site, narrower
from pilothouse.core.rules import Rule
from pilothouse.core.store import Store
from pilothouse.runtime.rule_keeping import kept_rules

NO_STORE = Ruling("ask", "the rules cannot be read at the moment")


class Told(Struct, frozen=True):
    """What configuration says about one workspace. `at_most` is the widest mode that the workspace itself accepts."""

    rules: tuple[Rule, ...] = ()
    at_most: ApprovalMode = "full-access"


class HousePolicy:
    def __init__(self, store: Store, senses: Senses, told: Callable[[str], Told]) -> None:
        self._store = store
        self._senses = senses
        self._told = told

    async def judge(self, ask: Ask, site: Site) -> Ruling:
        try:
            kept = await self._store.read(lambda tx: kept_rules(tx, site.workspace, site.session_id))
        except StoreError:
            return NO_STORE
        from pilothouse.core.deciding import decide

        told = self._told(site.workspace)
        here = msgspec.structs.replace(site, mode=narrower(site.mode, told.at_most))
        return decide(ask, [*told.rules, *kept], here, self._senses)
