"""A whole gateway over a scripted app-server that fails: every message ends once, and the next one works."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.engines.codex.test_faults import Scripted
from tests.runtime.rig import MAIN, Rig, only_alive, open_rig

from pilothouse.core.ids import EngineId
from pilothouse.engines.codex.translate import ENGINE_ID
from pilothouse.testing.hosts import running_processes

pytestmark = pytest.mark.anyio

OUTCOMES = {
    "Hello": ("done", "Hello"),
    "twice": ("done", "Once."),
    "late": ("done", "Before."),
    "strange": ("done", "Awake."),
    "crash": ("failed", "Well"),
    "leak": ("failed", ""),
    "flood": ("done", "word " * 5000),
    "ask after the end": ("done", "Done."),
}
"""By the prompt that the app-server acts on: what becomes of the turn, and its text."""


@asynccontextmanager
async def gateway(folder: Path, scripted: Scripted, name: str = "test") -> AsyncIterator[Rig]:
    engines = {EngineId(ENGINE_ID): scripted.engine()}
    async with open_rig(
        folder,
        engines=engines,
        default_engine=ENGINE_ID,
        engine_names={"codex": ENGINE_ID},
        name=name,
        alive=only_alive(name),
    ) as rig:
        yield rig


async def test_every_fault_ends_its_turn_once_and_the_session_goes_on(tmp_path: Path) -> None:
    scripted = Scripted(tmp_path)
    async with gateway(tmp_path, scripted) as rig:
        for count, prompt in enumerate([*OUTCOMES, "Hello"], 1):
            receipt = await rig.channel.say(prompt)
            turn = (await rig.until_ended(count))[-1]
            status, text = OUTCOMES[prompt]
            assert (prompt, turn.status, turn.answer.strip()) == (prompt, status, text.strip())
            assert (await rig.inbox_row(receipt)).status == ("done" if status == "done" else "failed")
        await rig.until_idle()
        sessions = await rig.store.read(lambda tx: tx.sessions.of(MAIN))
        assert len(sessions) == 1
        assert len(await rig.turns()) == len(OUTCOMES) + 1
    assert running_processes(scripted.host) == []


async def test_a_killed_gateway_tells_of_a_turn_that_had_begun_and_runs_it_not_again(tmp_path: Path) -> None:
    scripted = Scripted(tmp_path)
    async with gateway(tmp_path, scripted) as rig:
        await rig.channel.say("stall")
        await rig.until(lambda tx: (turn := tx.turns.live_in(MAIN)) and turn.began)
        rig.crash()
    async with gateway(tmp_path, scripted, "again") as rig:
        await rig.until_said("Pilothouse stopped in the middle of this.")
        await rig.channel.say("Hello")
        await rig.until_said("Hello")
        await rig.until_idle()
        assert [turn.status for turn in await rig.turns()] == ["failed", "done"]
    prompts = [line["params"]["input"][0]["text"] for line in scripted.sent("turn/start")]
    assert prompts == ["stall", "Hello"]
    assert running_processes(scripted.host) == []
