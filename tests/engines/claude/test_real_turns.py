"""Turns of the real CLI against a scripted API."""

from __future__ import annotations

from pathlib import Path

from tests.engines.claude.api import open_api, say
from tests.engines.claude.rig import Rig, end_of, play


async def test_a_turn_of_a_new_session_is_answered(tmp_path: Path) -> None:
    with open_api(say("Good day.")) as api:
        rig = Rig(tmp_path, api)
        events = await play(rig)
        assert end_of(events).outcome == "completed"
        assert end_of(events).answer == "Good day."
    assert rig.leftovers() == []
