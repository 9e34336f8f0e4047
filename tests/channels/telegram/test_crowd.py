"""Several chats that stream at once under Telegram's own limits. How fast that goes is measured by `bench/telegram crowd`."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.channels.crowding import Plan
from tests.channels.telegram.crowd import stream
from tests.channels.telegram.server.running import Server

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(240)]


async def test_many_chats_stream_and_each_gets_its_answer_without_one_refusal(
    server: Server, tmp_path: Path
) -> None:
    crowd = await stream(server, tmp_path, Plan(turns=2, words=8), private=6, groups=3)
    assert (crowd.missing, crowd.refused, server.flood.violations) == (0, 0, [])
