"""The house's policy: the rules of the configuration, of the workspace and of the store, and one decision over them.

Every call of every engine ends here, and so does every ask that becomes a row. The store is read for each decision, so
that a rule counts from the moment it is made and a removed one no longer does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import msgspec
from msgspec import Struct

from pilothouse.core.ask import Ask
from pilothouse.core.errors import StoreError
from pilothouse.core.policy import ApprovalMode, Ruling, Senses, Site, narrower
from pilothouse.core.rules import Rule
from pilothouse.core.store import Store
from pilothouse.runtime.rule_keeping import kept_rules

NO_STORE = Ruling("ask", "the rules cannot be read at the moment")
MAX_AT_ONCE = 4096
"""Bytes of a call that is judged where it stands. A longer one may take a while, so others go on meanwhile."""
LONG_AT_A_TIME = 2


class Told(Struct, frozen=True):
    """What configuration says about one workspace. `at_most` is the widest mode that the workspace itself accepts."""

    rules: tuple[Rule, ...] = ()
    at_most: ApprovalMode = "full-access"


class HousePolicy:
    def __init__(self, store: Store, senses: Senses, told: Callable[[str], Told]) -> None:
        self._store = store
        self._senses = senses
        self._told = told
        self._seats = anyio.CapacityLimiter(LONG_AT_A_TIME)

    async def judge(self, ask: Ask, site: Site) -> Ruling:
        try:
            kept = await self._store.read(lambda tx: kept_rules(tx, site.workspace, site.session_id))
        except StoreError:
            return NO_STORE
        from pilothouse.core.deciding import decide

        told = self._told(site.workspace)
        here = msgspec.structs.replace(site, mode=narrower(site.mode, told.at_most))
        judge = partial(decide, ask, [*told.rules, *kept], here, self._senses)
        if _size(ask.payload) <= MAX_AT_ONCE:
            return judge()
        return await anyio.to_thread.run_sync(judge, limiter=self._seats)


def _size(payload: Mapping[str, Any]) -> int:
    try:
        return len(msgspec.json.encode(payload))
    except (TypeError, ValueError):
        return MAX_AT_ONCE + 1  # what no JSON can hold was not made by an engine: nobody waits for it
