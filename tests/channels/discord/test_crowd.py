"""Several channels that stream at once under Discord's own limits. How fast that goes is measured by `bench/discord crowd`."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.channels.crowding import Plan
from tests.channels.discord.crowd import stream
from tests.channels.discord.server.running import Server

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(240)]


async def test_many_channels_stream_and_each_gets_its_answer(server: Server, tmp_path: Path) -> None:
    """A machine that stops for a moment may bring requests together that left apart, so refusals are not counted here."""
    crowd = await stream(server, tmp_path, Plan(turns=2, words=8), channels=8)
    assert crowd.missing == 0
