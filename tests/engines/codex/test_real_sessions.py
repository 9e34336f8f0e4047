"""Sessions that Codex keeps: listed by itself, taken over from elsewhere, and gone on with from an earlier turn."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import msgspec
import pytest
from tests.engines.codex.api import Reply, Request, open_api, say
from tests.engines.codex.binary import codex_binary
from tests.engines.codex.rig import Rig, end_of, read

from pilothouse.core.errors import EngineError
from pilothouse.core.event import TurnEnded
from pilothouse.engines.codex.config import CodexConfig
from pilothouse.engines.codex.session_watch import find_watched

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


def echo(request: Request) -> Reply:
    return say(f"heard {request.prompt}")


async def test_threads_are_listed_and_one_goes_on_from_an_earlier_turn_in_a_thread_of_its_own(
    tmp_path: Path,
) -> None:
    with open_api(echo) as api:
        rig = Rig(tmp_path, api)
        async with rig.engine() as first, first.open(rig.brief()) as session:
            for words in ("apples", "bananas", "cherries"):
                token = end_of(await read(session, words)).resume
        assert token is not None
        async with rig.engine() as engine:
            (found,) = await engine.sessions(str(rig.workspace))
            assert (found.resume, found.title) == (token, "apples")
            assert found.used_at > 1e9
            assert await engine.sessions(str(tmp_path)) == []
            points = await engine.points(token)
            assert [point.title for point in points] == ["apples", "bananas", "cherries"]
            at = rig.brief("two", resume=token, resume_at=points[1].id)
            async with engine.open(at) as session:
                forked = end_of(await read(session, "dragonfruit")).resume
                text = api.requests[-1].text
                assert "bananas" in text
                assert "cherries" not in text
                assert end_of(await read(session, "more")).resume == forked
            assert forked is not None
            assert forked.value != token.value
            async with engine.open(rig.brief(resume=token)) as session:
                assert end_of(await read(session, "elderberries")).resume == token
            text = api.requests[-1].text
            assert "cherries" in text
            assert "dragonfruit" not in text
            gone = msgspec.structs.replace(at, resume_at="01a1e073-6613-7e33-879d-36dcc30b87ce")
            with pytest.raises(EngineError, match="turn"):
                async with engine.open(gone):
                    pass
    assert rig.leftovers() == []


async def test_a_thread_of_a_terminal_is_watched_while_it_goes_on(tmp_path: Path) -> None:
    with open_api(echo) as api:
        rig = Rig(tmp_path, api)
        environment, program = rig.environment(), str(codex_binary())

        async def run(*words: str) -> None:
            argv = [program, "exec", "--skip-git-repo-check", *words]
            await anyio.run_process(argv, env=environment, cwd=rig.workspace)

        find = partial(find_watched, CodexConfig(command=program), environment)
        assert find(str(rig.workspace)) == []
        await run("-s", "read-only", "apples")
        (log,) = await anyio.to_thread.run_sync(find, str(rig.workspace))
        (same,) = await anyio.to_thread.run_sync(find, log.where[:-2])
        (whole,) = await anyio.to_thread.run_sync(find, log.where)
        assert log.where == same.where == whole.where
        assert await anyio.to_thread.run_sync(find, "00000000-0000-7000-8000-000000000000") == []
        seen: list[Any] = []
        async with log.open() as added, anyio.create_task_group() as tasks:
            with anyio.fail_after(60):
                async for steps in added:
                    if not seen:
                        tasks.start_soon(run, "resume", log.where, "bananas")
                    seen += steps
                    if sum(isinstance(step, TurnEnded) for step in seen) == 2:
                        break
        said = [getattr(step, "text", "") or type(step).__name__ for step in seen]
        assert said == [
            *("SessionStarted", "apples", "heard apples", "TurnEnded"),
            *("SessionStarted", "bananas", "heard bananas", "TurnEnded"),
        ]
        assert (rig.codex_home / "config.toml").read_text() == rig.settings
