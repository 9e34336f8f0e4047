"""Changes that a stopping gateway could not make, because Telegram wanted a pause, are made by the next one."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.channels.plays import asks
from tests.channels.telegram.gateway_house import open_gateway
from tests.channels.telegram.server.running import Server
from tests.runtime.rig import only_alive

from pilothouse.core.ask import Ask, Decision
from pilothouse.core.ids import AskId, ConversationId

pytestmark = pytest.mark.anyio

APPROVAL = Ask(AskId("a"), "approval", "Run make?", {"command": "make"})


async def test_a_stop_in_a_chat_that_must_wait_is_seen_after_a_restart(
    server: Server, tmp_path: Path
) -> None:
    """Nothing may be said or changed there for a while: the group has had its messages of this minute."""
    ada, heard = server.person("Ada"), list[Decision]()
    group = ada.make_group("Work")
    place = ConversationId(f"telegram:{group.id}")
    async with open_gateway(
        server, tmp_path, {ada: "owner"}, asks(APPROVAL, heard), drain_s=0.5, stop_grace_s=0.05
    ) as house:
        ada.say("@pilot_test_bot build it", chat=group)
        progress = await house.until_shown(group.id, "Waiting for your answer")
        question = await house.until_button(group.id, "Deny")
        await house.rig.until(lambda tx: not tx.outbox.channels_waiting())
        server.faults.too_many("sendMessage", after_s=8)
        ada.say("/stop", chat=group)
        await house.rig.until_ended(1, place)
    async with open_gateway(server, tmp_path, {ada: "owner"}, alive=only_alive("nobody")) as house:
        await house.until(lambda: progress.deleted)
        await house.until(lambda: not question.buttons and "No longer open" in question.text)
        await house.until_shown(group.id, "Stopped.")
        await house.rig.until_idle()
        assert sum("Run make?" in text for text in server.world.texts(group.id)) == 1
