"""What works with a real engine works in a jail: tests of the engines run again, inside of one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.engines.claude import test_real_asks as claude_asks
from tests.engines.claude import test_real_tools as claude_tools
from tests.engines.claude import test_real_turns as claude
from tests.engines.codex import test_real_tools as codex_tools
from tests.engines.codex import test_real_turns as codex
from tests.isolation.canary import need_jail
from tests.isolation.everywhere import jailed

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
TESTS = (
    claude_asks.test_one_process_asks_about_calls_and_asks_questions,
    claude_tools.test_claude_calls_every_tool_and_each_effect_is_seen,
    claude.test_an_interrupt_ends_a_command_and_its_children_within_three_seconds,
    claude.test_images_go_in,
    codex.test_an_approved_patch_shows_its_diff_first,
    codex_tools.test_codex_calls_every_tool_and_each_effect_is_seen,
    codex.test_a_stop_during_text_keeps_what_was_said_and_the_session,
    codex.test_an_image_reaches_the_model,
)


@pytest.mark.parametrize("test", TESTS, ids=lambda test: test.__name__)
async def test_inside_of_a_jail(test: Callable[[Path], Awaitable[None]], tmp_path: Path) -> None:
    need_jail()
    with jailed("model"):
        await test(tmp_path)
    assert list(tmp_path.rglob("jails")), "its rig did not ask for a jail"
