"""Lists to tap, on the phone: what a tap does, in a private chat and in a topic."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.channels.telegram.gateway_house import open_gateway
from tests.channels.telegram.server.running import Server

pytestmark = pytest.mark.anyio


async def test_an_approval_mode_is_chosen_and_confirmed_by_two_taps(server: Server, tmp_path: Path) -> None:
    ada = server.person("Ada")
    async with open_gateway(server, tmp_path, {ada: "owner"}) as house:
        ada.say("/mode")
        ada.press(await house.until_shown(ada.id, "What the agent may do"), "trusted")
        ada.press(await house.until_shown(ada.id, "change files in"), "Allow")
        await house.until_shown(ada.id, "trusted. The agent reads and changes files here")


async def test_a_session_is_taken_over_by_a_tap_and_a_strangers_tap_does_nothing(
    server: Server, tmp_path: Path
) -> None:
    ada, eve = server.person("Ada"), server.person("Eve")
    async with open_gateway(server, tmp_path, {ada: "owner"}) as house:
        ada.say("mend the login")
        await house.until_shown(ada.id, "you said: mend the login")
        ada.say("/new")
        await house.until_shown(ada.id, "new session")
        ada.say("/sessions")
        post = await house.until_shown(ada.id, "Earlier sessions")
        (label,) = post.buttons
        assert label.startswith("mend the login · ")
        assert await house.until_toast(eve.forge(post, post.buttons[label])) != ""
        ada.press(post, label)
        await house.until_shown(ada.id, "From your next message on: mend the login")
