"""The house's budget with the real CLI: what a turn cost is settled, and its own cap is what the house has left."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.engines.claude.api import Reply, open_api, say
from tests.engines.claude.rig import Rig
from tests.runtime.rig import MAIN, open_rig

from pilothouse.core.budget import Caps, Scope, day_of
from pilothouse.core.ids import EngineId
from pilothouse.core.store import Tx
from pilothouse.runtime.budget.hold import BUDGET

pytestmark = pytest.mark.slow
CLAUDE = EngineId("claude")
DEAR = {"input_tokens": 1_000_000}


async def test_a_turn_settles_with_what_claude_tells(tmp_path: Path) -> None:
    with open_api(say("one"), say("two")) as api:
        claude = Rig(tmp_path, api)
        async with open_rig(
            tmp_path,
            engines={CLAUDE: claude.engine()},
            default_engine=CLAUDE,
            default_workspace=str(claude.workspace),
            caps=Caps(all_usd=10.0, least_usd=0.01),
        ) as house:
            await house.channel.say("hello")
            await house.until_said("one", 60)
            pids = claude.pids()
            await house.channel.say("and again")
            await house.until_said("two", 60)
            await house.until_idle()
            assert set(claude.pids()) & set(pids), "a cap does not cost the warm process"
            turns = await house.turns()
            costs = [turn.usage.cost_usd for turn in turns if turn.usage is not None]
            assert len(costs) == 2 and all(costs)

            def look(tx: Tx) -> None:
                now = tx.spending.cap_status(
                    Scope("all"), day_of(house.ports.clock.now(), house.ports.settings().zone), 10
                )
                assert now.spent_usd == pytest.approx(sum(cost or 0.0 for cost in costs))
                assert (now.reserved_usd, now.assumed_usd) == (0.0, 0.0)
                assert [(row.engine, row.cause, row.turns) for row in tx.spending.of()] == [
                    (CLAUDE, "message", 2)
                ]

            await house.store.read(look)


async def test_claude_stops_by_itself_where_nothing_is_left_and_the_next_message_is_held(
    tmp_path: Path,
) -> None:
    with open_api(Reply([{"text": "x"}], usage=DEAR), say("never")) as api:
        claude = Rig(tmp_path, api)
        async with open_rig(
            tmp_path,
            engines={CLAUDE: claude.engine()},
            default_engine=CLAUDE,
            default_workspace=str(claude.workspace),
            caps=Caps(conversation_usd=0.5, least_usd=0.1),
        ) as house:
            await house.channel.say("be dear")
            (turn,) = await house.until_ended()
            assert turn.failure is not None and turn.failure.kind == "budget"
            assert turn.usage is not None and turn.usage.cost_usd
            cost = turn.usage.cost_usd
            day = day_of(house.ports.clock.now(), house.ports.settings().zone)
            now = await house.store.read(
                lambda tx: tx.spending.cap_status(Scope("conversation", MAIN), day, 0.5)
            )
            assert now.spent_usd == pytest.approx(cost) and cost > 0.5
            await house.channel.say("and again")
            await house.until(lambda tx: tx.asks.open_about(BUDGET))
            assert len(api.requests) == 1, "no model was called"
