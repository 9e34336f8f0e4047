"""A sample of the crash sweep over Telegram: five chats, a gateway that is killed, and a server outside that judges it all."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.channels.crash_sample import check_a_sample

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def test_a_kill_at_any_point_leaves_five_chats_answered_and_nothing_twice_unmarked(
    judge_folder: Path,
) -> None:
    check_a_sample("telegram", judge_folder, "allow")
