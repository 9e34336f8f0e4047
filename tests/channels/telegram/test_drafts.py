"""A draft fades half a minute after it was last written: it is written anew for as long as its turn runs."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.channels.plays import asks, pass_until, slow, works_until
from tests.channels.telegram.gateway_house import open_gateway
from tests.channels.telegram.server.running import Call, Server
from tests.runtime.puppet import Play

from pilothouse.channels.telegram.channel import RENEW_DRAFT_S
from pilothouse.core.ask import Ask
from pilothouse.core.ids import AskId, ConversationId
from pilothouse.testing.clock import FakeClock

pytestmark = pytest.mark.anyio

APPROVAL = Ask(AskId("a"), "approval", "Run make?", {"command": "make"})
HOUR_S = 3600.0


async def pass_slowly_until(clock: FakeClock, seen: Callable[[], object]) -> None:
    """Time passes only once nothing came of it for a while: whoever was on the network meanwhile sleeps from now on."""
    with anyio.fail_after(60):
        while not seen():
            with anyio.move_on_after(1):
                while not seen():
                    await anyio.sleep(0.005)
                return
            await clock.advance(0.5)


@pytest.mark.parametrize("play", [slow, asks(APPROVAL, [])], ids=["works", "waits"])
async def test_a_draft_stands_for_as_long_as_its_turn_runs(
    server: Server, tmp_path: Path, play: Play
) -> None:
    """After an hour minutes are counted, so that for most of one nothing changes. What is a message stays as it is."""
    ada, clock = server.person("Ada"), FakeClock()
    group, world = ada.make_group("Work"), server.world
    world.now = clock.now
    times = {"hang_after_s": 1e6, "ask_timeout_s": 1e6, "drain_s": 0.1, "stop_grace_s": 0.1}
    async with open_gateway(server, tmp_path, {ada: "owner"}, play, clock=clock, **times):
        ada.say("build it")
        ada.say("@pilot_test_bot build it", chat=group)
        await pass_until(clock, lambda: world.draft(ada.id) and world.shown(group.id))
        clock.jump(HOUR_S)
        await pass_until(clock, lambda: "1h" in world.drafts[-1].text)
        first = len(world.drafts)
        for _ in range(16):
            await clock.advance(5)
            assert world.draft(ada.id)
            await pass_slowly_until(clock, lambda: clock.now() - world.drafts[-1].at <= RENEW_DRAFT_S)
        after = world.drafts[first - 1 :]
        assert any(one.text == other.text for one, other in pairwise(after))
        assert not any("not modified" in call.error for call in server.calls)
        assert all(one != other for one, other in pairwise(world.shown(group.id)[0].versions))


async def test_a_draft_that_telegram_has_received_is_waited_for_before_the_answer(
    server: Server, tmp_path: Path
) -> None:
    ada, clock, may_end = server.person("Ada"), FakeClock(), anyio.Event()
    done: list[str] = []

    async def note(call: Call, _result: Any) -> bool:
        done.append(call.method)
        return False

    async with open_gateway(
        server, tmp_path, {ada: "owner"}, works_until(may_end, "Built."), clock=clock
    ) as house:
        ada.say("build it")
        await pass_until(clock, lambda: server.world.drafts)
        server.after = note
        held = server.faults.hold("sendRichMessageDraft")
        await pass_until(clock, held.arrived.is_set)
        done.clear()
        may_end.set()
        await house.rig.until_ended(conversation=ConversationId(f"telegram:{ada.id}"))
        held.release()
        await house.until_shown(ada.id, "Built.")
        assert [one for one in done if one != "sendChatAction"] == ["sendRichMessageDraft", "sendMessage"]
