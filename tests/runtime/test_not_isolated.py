"""Where the configured isolation is not available and agents run without it, each session's conversation is told."""

from __future__ import annotations

from pathlib import Path

from tests.runtime.puppet import PuppetEngine
from tests.runtime.rig import open_rig

WARNING = "Not isolated: no bubblewrap"


async def test_a_conversation_is_told_once_for_each_session(tmp_path: Path) -> None:
    missing = ""

    def say_missing(workspace: str) -> str:
        return missing

    async with open_rig(tmp_path, PuppetEngine(), missing_isolation=say_missing) as rig:
        ended = 0

        async def talk(*texts: str) -> int:
            nonlocal ended
            for text in texts:
                await rig.channel.say(text)
                ended += not text.startswith("/")
                await rig.until_ended(ended)
            await rig.until_idle()
            return rig.said().count(WARNING)

        assert await talk("one") == 0
        missing = WARNING
        assert await talk("two", "three") == 1
        assert await talk("/new", "four", "five") == 2
