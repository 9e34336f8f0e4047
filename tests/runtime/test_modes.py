"""Which approval mode a turn gets: said for the chat, configured, picked, else the narrowest."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.runtime.puppet import PuppetEngine, Strings
from tests.runtime.rig import MAIN, open_rig

from pilothouse.core.policy import ApprovalMode
from pilothouse.core.store import Tx
from pilothouse.core.turn import Prompt, Turn
from pilothouse.runtime.conversations.binding import Wishes, chat_mode, keep_wishes, pick_mode, picked_mode


async def play(strings: Strings) -> None:
    await strings.start()
    await strings.end("done")


@pytest.mark.parametrize(
    ("said", "configured", "picked", "mode"),
    [
        ("full-access", "minimal", "minimal", "full-access"),
        (None, "trusted", "full-access", "trusted"),
        (None, None, "trusted", "trusted"),
        (None, None, None, "minimal"),
    ],
)
async def test_said_beats_configured_beats_picked_beats_the_narrowest(
    tmp_path: Path,
    said: ApprovalMode | None,
    configured: ApprovalMode | None,
    picked: ApprovalMode | None,
    mode: ApprovalMode,
) -> None:
    def mode_in(workspace: str) -> ApprovalMode | None:
        return configured

    engine = PuppetEngine(play)
    async with open_rig(tmp_path, engine, mode_in=mode_in) as rig:
        workspace = rig.ports.settings().default_workspace

        def unit(tx: Tx) -> None:
            keep_wishes(tx, MAIN, Wishes(approval_mode=said))
            if picked:
                pick_mode(tx, workspace, picked, 1.0, "ann")

        await rig.store.write(unit)
        await rig.channel.say("go")
        await rig.until_ended()
        assert [brief.approval_mode for brief in engine.briefs] == [mode]


async def test_what_was_said_for_a_chat_is_not_for_what_comes_by_itself(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        await rig.store.write(lambda tx: keep_wishes(tx, MAIN, Wishes(approval_mode="full-access")))
        await rig.channel.say("go")
        (turn,) = await rig.until_ended()
        scheduled = Turn(turn.id, turn.session_id, MAIN, turn.engine, "queued", "schedule", Prompt("go"), 1.0)
        assert (
            await rig.store.read(lambda tx: chat_mode(tx, rig.ports.settings(), turn, str(tmp_path)))
            == "full-access"
        )
        assert (
            await rig.store.read(lambda tx: chat_mode(tx, rig.ports.settings(), scheduled, str(tmp_path)))
            is None
        )


async def test_a_pick_is_for_its_folder_alone_and_nonsense_is_no_pick(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        await rig.store.write(lambda tx: pick_mode(tx, str(tmp_path), "trusted", 1.0, "ann"))
        assert await rig.store.read(lambda tx: picked_mode(tx, str(tmp_path))) == "trusted"
        assert await rig.store.read(lambda tx: picked_mode(tx, str(tmp_path.parent))) is None
        await rig.store.write(lambda tx: tx.set_fact(f"mode:{tmp_path.resolve()}", "anything"))
        assert await rig.store.read(lambda tx: picked_mode(tx, str(tmp_path))) is None


async def test_a_configured_workspace_gets_the_folder_with_its_owners_files(tmp_path: Path) -> None:
    engine = PuppetEngine(play)
    dirs = {os.path.realpath(tmp_path): "/config/workspaces/site"}
    async with open_rig(tmp_path, engine, settings_dirs=dirs, default_workspace=str(tmp_path)) as rig:
        await rig.channel.say("go")
        await rig.until_ended()
        assert [brief.settings_dir for brief in engine.briefs] == ["/config/workspaces/site"]
