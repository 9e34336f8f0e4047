"""Conformance of stores: rules that people keep."""

from __future__ import annotations

import msgspec

from pilothouse.core.ids import RuleId, SessionId
from pilothouse.core.policy import RuleRow
from pilothouse.core.store import Store, Tx
from pilothouse.testing.store_builders import S1, S2, StoreSuite, session

LASTING = RuleRow(RuleId("r1"), "/work/shop", "7", "allow command make", "terminal:ann", 1.0)
OF_SESSION = msgspec.structs.replace(LASTING, id=RuleId("r2"), rule="allow command pytest", session_id=S1)
EVERYWHERE = msgspec.structs.replace(LASTING, id=RuleId("r3"), workspace="", mark="", rule="deny command rm")


def keep_all(tx: Tx) -> list[bool]:
    return [tx.rules.add(row) for row in (LASTING, OF_SESSION, EVERYWHERE)]


class RuleSuite(StoreSuite):
    async def test_a_rule_holds_in_its_folder_and_its_session_alone(self, store: Store) -> None:
        assert await store.write(keep_all) == [True] * 3
        assert await store.read(lambda tx: tx.rules.list()) == [LASTING, OF_SESSION, EVERYWHERE]
        in_session = await store.read(lambda tx: tx.rules.of("/work/shop", S1))
        assert in_session == [LASTING, OF_SESSION, EVERYWHERE]
        assert await store.read(lambda tx: tx.rules.of("/work/shop", S2)) == [LASTING, EVERYWHERE]
        assert await store.read(lambda tx: tx.rules.of("/work/shop")) == [LASTING, EVERYWHERE]
        assert await store.read(lambda tx: tx.rules.of("/work", S1)) == [EVERYWHERE]

    async def test_the_same_rule_is_kept_once(self, store: Store) -> None:
        await store.write(keep_all)
        again = msgspec.structs.replace(LASTING, id=RuleId("r9"), created_at=5.0)
        assert not await store.write(lambda tx: tx.rules.add(again))
        other = msgspec.structs.replace(OF_SESSION, id=RuleId("r9"), session_id=S2)
        assert await store.write(lambda tx: tx.rules.add(other))
        assert len(await store.read(lambda tx: tx.rules.list())) == 4

    async def test_a_removed_rule_is_gone_and_told(self, store: Store) -> None:
        await store.write(keep_all)
        assert await store.write(lambda tx: tx.rules.remove(LASTING.id)) == LASTING
        assert await store.write(lambda tx: tx.rules.remove(LASTING.id)) is None
        assert await store.read(lambda tx: tx.rules.of("/work/shop", S1)) == [OF_SESSION, EVERYWHERE]

    async def test_rules_of_sessions_that_are_over_are_pruned_and_others_stay(self, store: Store) -> None:
        def unit(tx: Tx) -> None:
            keep_all(tx)
            tx.sessions.add(session(S1, used_at=100.0))
            gone = msgspec.structs.replace(OF_SESSION, id=RuleId("r4"), session_id=SessionId("gone"))
            tx.rules.add(gone)

        await store.write(unit)
        await store.write(lambda tx: tx.prune(50.0))
        assert await store.read(lambda tx: tx.rules.list()) == [LASTING, OF_SESSION, EVERYWHERE]
        await store.write(lambda tx: tx.prune(200.0))
        assert await store.read(lambda tx: tx.rules.list()) == [LASTING, EVERYWHERE]
