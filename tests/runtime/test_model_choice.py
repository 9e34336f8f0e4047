"""What `/model` offers: what is in use where somebody is, then what its engine says."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.runtime.puppet import PUPPET, PuppetEngine
from tests.runtime.rig import MAIN, Rig, open_rig
from tests.runtime.test_commands import OTHER, reply_to

from pilothouse.channels.memory import PERSON
from pilothouse.core.engine import Model
from pilothouse.core.ids import ConversationId

NAMES = {"puppet": PUPPET, "other": OTHER}


class Listing(PuppetEngine):
    def models(self) -> Sequence[Model]:
        return (Model("small"), Model("big", "Big"))


async def offered(rig: Rig, place: ConversationId = MAIN) -> list[str]:
    return await rig.gateway.desk.query("models", PERSON, conversation=place)


async def test_what_is_in_use_is_offered_before_what_the_engine_says(tmp_path: Path) -> None:
    async with open_rig(tmp_path, Listing()) as rig:
        assert await offered(rig) == ["small", "big"]
        await reply_to(rig, "/model mine")
        await rig.channel.say("one")
        await rig.until_ended()
        await reply_to(rig, "/new")
        await reply_to(rig, "/model big")
        assert await offered(rig) == ["big", "mine", "small"]


async def test_another_engines_models_are_not_offered(tmp_path: Path) -> None:
    engines = {PUPPET: PuppetEngine(), OTHER: Listing()}
    async with open_rig(tmp_path, engines=engines, engine_names=NAMES) as rig:
        await reply_to(rig, "/model mine")
        await rig.channel.say("one")
        await rig.until_ended()
        assert await offered(rig) == ["mine"]
        await reply_to(rig, "/engine other fresh")
        assert await offered(rig) == ["small", "big"]


async def test_a_bare_model_command_names_what_there_is(tmp_path: Path) -> None:
    async with open_rig(tmp_path, Listing()) as rig:
        assert "Known models: small, big." in await reply_to(rig, "/model")
    (tmp_path / "silent").mkdir()
    async with open_rig(tmp_path / "silent") as rig:
        assert "Known models" not in await reply_to(rig, "/model")


class Confused(PuppetEngine):
    def models(self) -> Sequence[Model]:
        raise RuntimeError("which models?")


async def test_an_engine_that_cannot_say_costs_no_command(tmp_path: Path) -> None:
    async with open_rig(tmp_path, Confused()) as rig:
        assert "Known models" not in await reply_to(rig, "/model")
        assert "engine.models_failed" in [event for event, _ in rig.logged]
        before = len(rig.logged)
        await reply_to(rig, "/status")
        assert "engine.models_failed" not in [event for event, _ in rig.logged[before:]], "nor is it asked"
