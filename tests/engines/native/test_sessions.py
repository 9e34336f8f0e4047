"""Sessions that are listed and copied."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.engines.native.conftest import MakeRig
from tests.engines.native.model import Call, Reply
from tests.engines.native.rig import ask, end_of

from pilothouse.core.engine import Forks, ListsSessions
from pilothouse.core.errors import EngineError
from pilothouse.core.event import EngineEvent, ResumeToken

pytestmark = pytest.mark.anyio


def token_of(events: list[EngineEvent]) -> ResumeToken:
    token = end_of(events).resume
    assert token is not None
    return token


async def test_a_fork_goes_on_after_a_turn_and_leaves_the_session_as_it_was(make_rig: MakeRig) -> None:
    rig = make_rig(Reply("Yes."))
    async with rig.engine() as engine:
        assert isinstance(engine, Forks)
        assert isinstance(engine, ListsSessions)
        async with engine.open(rig.brief()) as session:
            token = token_of(await ask(session, "First words"))
            await ask(session, "Second words")
        points = await engine.points(token)
        assert [point.title for point in points] == ["First words", "Second words"]
        forked = replace(rig.brief("two"), resume=token, resume_at=points[0].id)
        async with engine.open(forked) as session:
            copy = token_of(await ask(session, "Other words"))
        assert copy.value != token.value
        assert "First words" in rig.model.requests[-1].text
        assert "Second words" not in rig.model.requests[-1].text
        assert [point.title for point in await engine.points(token)] == ["First words", "Second words"]
        found = await engine.sessions(str(rig.workspace))
        assert {(one.resume.value, one.title) for one in found} == {
            (token.value, "First words"),
            (copy.value, "First words"),
        }
        assert await engine.sessions("/elsewhere") == []
        with pytest.raises(EngineError, match="no turn of this session"):
            async with engine.open(replace(forked, resume_at="99")):
                pass


async def test_a_broken_session_is_not_listed(make_rig: MakeRig) -> None:
    rig = make_rig(Reply("Yes.", calls=[Call("glob", {"pattern": "*"})]), Reply("Done."))
    folder = Path(rig.host.state_dir, "sessions", "11111111-2222-4333-8444-555555555555")
    folder.mkdir(parents=True)
    (folder / "history.jsonl").write_bytes(b"\xff{nothing\n")
    async with rig.engine() as engine:
        async with engine.open(rig.brief()) as session:
            assert end_of(await ask(session, "Hi")).outcome == "completed"
        (found,) = await engine.sessions(str(rig.workspace))
        assert found.title == "Hi"


async def test_an_engine_passes_on_an_error_of_its_caller(make_rig: MakeRig) -> None:
    with pytest.raises(ValueError, match="of the caller"):
        async with make_rig(Reply("Hello.")).engine():
            raise ValueError("of the caller")
