"""The pool with real processes: how many, for how long, and who goes first."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from tests.engines.claude.api import Reply, open_api, say
from tests.engines.claude.rig import Rig, end_of, read

from pilothouse.core.errors import EngineError
from pilothouse.core.event import TextDelta
from pilothouse.core.ids import ConversationId
from pilothouse.core.turn import Prompt

pytestmark = pytest.mark.slow


def started(rig: Rig) -> int:
    return [name for name, _ in rig.logged].count("process.started")


async def test_the_longest_idle_makes_room_and_its_session_is_resumed(tmp_path: Path) -> None:
    with open_api(say("hello")) as api:
        rig = Rig(tmp_path, api, max_processes=2)
        tokens = {}
        async with rig.engine() as engine:
            for name in ("a", "b", "c"):
                async with engine.open(rig.brief(name)) as session:
                    tokens[name] = end_of(await read(session, name)).resume
            assert len(rig.pids()) == 2
            async with engine.open(rig.brief("c", resume=tokens["c"])) as session:
                await read(session, "again")
            assert started(rig) == 3
            async with engine.open(rig.brief("a", resume=tokens["a"])) as session:
                assert end_of(await read(session, "again")).resume == tokens["a"]
            assert started(rig) == 4
            assert len(rig.pids()) == 2


async def test_a_session_in_use_cannot_be_opened_and_beyond_the_limit_a_turn_has_its_own_process(
    tmp_path: Path,
) -> None:
    with open_api(say("hello"), Reply([{"text": "wait"}], ending="stall"), say("quick")) as api:
        rig = Rig(tmp_path, api, max_processes=1)
        async with rig.engine() as engine, engine.open(rig.brief("a")) as session:
            token = end_of(await read(session)).resume
            async for event in session.run(Prompt("long")):
                if isinstance(event, TextDelta):
                    break
            busy = [event async for event in session.run(Prompt("and this"))]
            with pytest.raises(EngineError) as caught:
                async with engine.open(rig.brief("a", resume=token)):
                    pass
            assert end_of(busy).outcome == "failed"
            assert "in use" in caught.value.failure.text
            assert len(api.main) == 2
            async with engine.open(rig.brief("b")) as second:
                assert end_of(await read(second)).answer == "quick"
            assert len(rig.pids()) == 1
    assert rig.leftovers() == []


async def test_with_group_dirs_a_conversation_works_in_a_folder_of_its_own(tmp_path: Path) -> None:
    with open_api(say("hello")) as api:
        rig = Rig(tmp_path, api, group_dirs=True)
        folders = list[str]()
        async with rig.engine() as engine:
            for name, room in (("a", "memory:room/1"), ("b", "memory:room/1"), ("c", "memory:two")):
                async with engine.open(rig.brief(name, conversation_id=ConversationId(room))) as session:
                    token = end_of(await read(session)).resume
                    assert token is not None
                    folders.append(token.cwd)
                    assert f"--add-dir {rig.workspace}" in "".join(rig.leftovers())
    groups = rig.state / "groups"
    one, two = str(groups / "memory%3Aroom%2F1"), str(groups / "memory%3Atwo")
    assert folders == [one, one, two]


async def test_the_models_are_what_the_last_process_said_and_an_idle_process_ends_by_itself(
    tmp_path: Path,
) -> None:
    with open_api(say("hello")) as api:
        rig = Rig(tmp_path, api, model="claude-mine-1", idle_timeout_s=2.0)
        async with rig.engine() as engine:
            before = [model.name for model in engine.models()]
            assert (before, started(rig)) == (["claude-mine-1", "opus", "sonnet", "haiku"], 0)
            async with engine.open(rig.brief()) as session:
                await read(session)
            assert rig.pids()
            after = [model.name for model in engine.models()]
            assert after[0] == "claude-mine-1"
            assert set(before) < set(after)
            assert after.count("claude-mine-1") == 1
            with anyio.fail_after(60):
                while rig.pids():
                    await anyio.sleep(0.05)
