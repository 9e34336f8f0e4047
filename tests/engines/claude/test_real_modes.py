"""Model, permission mode and approval mode of a process that lives: changed without another one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.engines.claude.api import bash, call, in_order, open_api, say
from tests.engines.claude.rig import Rig, answer_with, asks_of, end_of, notices_of, read

from pilothouse.core.ask import Decision
from pilothouse.core.event import EngineEvent, ResumeToken
from pilothouse.core.policy import ApprovalMode

pytestmark = pytest.mark.slow

HAIKU, SONNET = "claude-haiku-5-5", "claude-sonnet-5-5"


def started(rig: Rig) -> int:
    return [name for name, _ in rig.logged].count("process.started")


async def turn(
    rig: Rig, engine: Any, resume: ResumeToken | None, decision: Decision | None = None, **brief: Any
) -> list[EngineEvent]:
    async with engine.open(rig.brief(resume=resume, **brief)) as session:
        return await read(session, when=answer_with(session, decision) if decision else None)


async def test_a_model_and_an_approval_mode_are_told_to_the_warm_process_and_the_way_back_too(
    tmp_path: Path,
) -> None:
    with open_api(say("ok")) as api:
        rig = Rig(tmp_path, api)
        async with rig.engine() as engine:
            token = None
            for model in (None, SONNET, HAIKU, HAIKU, None):
                events = await turn(rig, engine, token, model=model)
                assert (end_of(events).answer, notices_of(events)) == ("ok", [])
                token = end_of(events).resume
            models = [request.model for request in api.main]
            assert models[1:4] == [SONNET, HAIKU, HAIKU]
            assert models[4] == models[0] not in (SONNET, HAIKU)

            no = Decision("deny", text="no")
            modes: tuple[ApprovalMode, ...] = ("minimal", "full-access", "minimal")
            for mode, name in zip(modes, "abc", strict=True):
                api.script = in_order(bash(f"touch {name}"), say("ok"))
                events = await turn(rig, engine, token, no, approval_mode=mode)
                assert len(asks_of(events)) == (mode == "minimal")
    assert [path.name for path in rig.workspace.iterdir()] == ["b"]
    assert started(rig) == 1


async def test_claudes_own_choice_comes_back_also_in_another_process(tmp_path: Path) -> None:
    with open_api(say("ok")) as api:
        rig = Rig(tmp_path, api, pool=False)
        async with rig.engine() as engine:
            token = end_of(await turn(rig, engine, None)).resume
            await turn(rig, engine, token, model=HAIKU)
            await turn(rig, engine, token)
        models = [request.model for request in api.main]
    assert models[1] == HAIKU
    assert models[2] == models[0] != HAIKU


async def test_a_session_keeps_its_permission_mode_when_its_process_is_replaced(tmp_path: Path) -> None:
    """With `plan` configured, an approved plan leaves the mode; a new process must not fall back into it."""
    plan = call("ExitPlanMode", plan="1. Paint it")
    edit = call("Write", file_path="made.txt", content="x")
    with open_api(plan, say("going"), edit, say("done")) as api:
        rig = Rig(tmp_path, api, permission_mode="plan", pool=False)
        async with rig.engine() as engine:
            yes = Decision("allow")
            token = end_of(await turn(rig, engine, None, yes)).resume
            events = await turn(rig, engine, token, yes)
        assert "Plan mode is active" not in str(api.main[-1].body["messages"][-3:])
    assert started(rig) == 2
    assert end_of(events).answer == "done"
    assert (rig.workspace / "made.txt").exists()
    assert not [text for text in notices_of(events) if "mode" in text], "nobody changed it"
