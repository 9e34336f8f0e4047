"""What the model is told beside the prompt: context files and the note, as they reach the API."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.engines.claude.api import ScriptedApi, open_api, refuse, say
from tests.engines.claude.rig import Rig, end_of, notices_of, read

from pilothouse.core.event import EngineEvent, ResumeToken
from pilothouse.core.ids import ConversationId
from pilothouse.engines.workspace_files import BOOTSTRAP_SKIPPED

pytestmark = pytest.mark.slow

FIVE = ("SOUL", "IDENTITY", "USER", "TOOLS", "BOOTSTRAP")


class Place:
    """A workspace with the five, a base file, and one for the conversation."""

    def __init__(self, folder: Path, api: ScriptedApi, **config: Any) -> None:
        (folder / "core.md").write_text("words-of-core")
        self.rig = Rig(folder, api, context_files=[str(folder / "core.md")], **config)
        self.api = api
        self.settings = folder / "settings"
        (self.settings / "conversations").mkdir(parents=True)
        (self.settings / "conversations" / "memory:room.md").write_text("words-of-room")
        for name in FIVE:
            (self.rig.workspace / f"{name}.md").write_text(f"words-of-{name}")

    async def turn(
        self, engine: Any, name: str = "one", resume: ResumeToken | None = None, **brief: Any
    ) -> list[EngineEvent]:
        plain = {
            "trusted": True,
            "settings_dir": str(self.settings),
            "conversation_id": ConversationId("memory:room"),
            "resume": resume,
        }
        async with engine.open(self.rig.brief(name, **(plain | brief))) as session:
            return await read(session)

    def told(self) -> list[str]:
        """What the last request's system prompt has of them, in its order."""
        system = self.api.main[-1].system
        found = {name: system.find(f"words-of-{name}") for name in (*FIVE, "core", "room")}
        return sorted((name for name in found if found[name] >= 0), key=lambda name: found[name])

    def started(self) -> int:
        return [name for name, _ in self.rig.logged].count("process.started")


async def test_they_reach_the_model_in_order_as_they_are_now_and_bootstrap_in_the_first_session_alone(
    tmp_path: Path,
) -> None:
    with open_api(say("ok")) as api:
        place = Place(tmp_path, api)
        for name in FIVE[:3]:
            (place.rig.workspace / f"{name}.md").write_text(f"words-of-{name} " * 3000)
        (place.settings / "PERMISSIONS.json").write_text('{"tier": "full", "note": "Be kind to the cat."}')
        async with place.rig.engine() as engine:
            first = await place.turn(engine)
            token = end_of(first).resume
            assert place.told() == [*FIVE, "core", "room"], "long ones too"
            assert "Be kind to the cat." in api.main[-1].prompt
            assert not any("words-of" in line for line in place.rig.leftovers()), "no command line has them"
            await place.turn(engine, resume=token)
            assert place.told() == [*FIVE, "core", "room"]
            assert "Be kind to the cat." in api.main[-1].prompt, "the note stands in every prompt"
            assert place.started() == 1, "nothing changed, so the process stays"
            await place.turn(engine, "two")
            assert place.told() == [*FIVE[:4], "core", "room"]
            await an_edit_reaches_the_next_turn_of_the_same_session(place, engine, token)
    assert notices_of(first) == []


async def an_edit_reaches_the_next_turn_of_the_same_session(
    place: Place, engine: Any, token: ResumeToken | None
) -> None:
    (place.rig.workspace / "USER.md").write_text("quite other words")
    (place.rig.workspace / "BOOTSTRAP.md").unlink()
    assert end_of(await place.turn(engine, resume=token)).resume == token
    assert place.told() == ["SOUL", "IDENTITY", "TOOLS", "core", "room"]
    assert "quite other words" in place.api.main[-1].system


async def test_an_untrusted_workspace_tells_nothing_of_its_own(tmp_path: Path) -> None:
    with open_api(say("ok")) as api:
        place = Place(tmp_path, api)
        async with place.rig.engine() as engine:
            await place.turn(engine, trusted=False)
        assert place.told() == ["core", "room"]


async def test_an_appended_system_prompt_stands_for_the_five_and_a_first_run_is_warned(
    tmp_path: Path,
) -> None:
    with open_api(say("ok")) as api:
        place = Place(tmp_path, api, append_system_prompt="words-of-mine")
        async with place.rig.engine() as engine:
            first = await place.turn(engine)
            assert place.told() == ["core", "room"]
            assert "words-of-mine" in api.main[-1].system
            second = await place.turn(engine, resume=end_of(first).resume)
    assert notices_of(first) == [BOOTSTRAP_SKIPPED]
    assert notices_of(second) == [], "once in a session is enough"


async def test_a_first_run_that_failed_was_none(tmp_path: Path) -> None:
    with open_api(refuse(401, "authentication_error"), say("ok")) as api:
        place = Place(tmp_path, api, max_retries=0)
        async with place.rig.engine() as engine:
            failed = await place.turn(engine)
            await place.turn(engine, "two")
        assert end_of(failed).outcome == "failed"
        assert place.told() == [*FIVE, "core", "room"]
