"""The client library loses no event, and waits for nothing that has ended, in any order of reading."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.channels.rpc.client_rig import write_home
from tests.channels.rpc.test_clients import environ

from pilothouse.channels.rpc.events import Final
from pilothouse.client import Client, ClientError, open_client

pytestmark = pytest.mark.anyio

TOOLS = 400
EVENTS = 4 * TOOLS + 1
"""More than a run holds while nobody reads it."""
MANY = ", ".join(f'{{ tool = "read", title = "{n}", output = "x" }}' for n in range(TOOLS))
SCRIPT = f"""\
[[turn]]
match = "many"
steps = [ {MANY}, {{ say = "done" }} ]
[[turn]]
match = "wait"
steps = [ {{ tool = "command", title = "sleep", for_s = 600 }} ]
[[turn]]
steps = [ {{ say = "hi" }} ]
"""


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    write_home(tmp_path, SCRIPT)
    async with open_client(workspace=str(tmp_path / "work"), environment=environ(tmp_path)) as client:
        yield client


async def test_the_end_of_a_run_is_remembered(client: Client) -> None:
    run = await client.start("hello")
    assert [event async for event in run] == [Final("hi")]
    assert await run.wait() == "hi" and [event async for event in run] == []


async def test_a_run_that_was_left_and_one_that_nobody_reads_block_nothing(client: Client) -> None:
    left, unread = await client.start("many"), await client.start("many")
    async for _ in left:
        break
    other = await client.start("hello")
    assert await other.wait() == "hi"
    assert await left.wait() == "done"
    assert len(await client.sessions()) == 3
    assert len([event async for event in unread]) == EVENTS


async def test_a_loop_may_make_requests(client: Client) -> None:
    run, seen = await client.start("many"), 0
    async for _ in run:
        seen += 1
        if seen % 400 == 1:
            await client.sessions()
    assert (seen, run.answer) == (EVENTS, "done")


async def test_a_replay_takes_no_event_of_other_runs(client: Client) -> None:
    first = await client.start("hello")
    await first.wait()
    big = await client.start("many")

    async def replay() -> None:
        replayed, _ = await client.history(first.session_id)
        assert {one.run_id for one in replayed} == {first.id} and len(replayed) == 2

    async def read() -> int:
        return len([event async for event in big])

    found = await asyncio.gather(read(), *(replay() for _ in range(5)))
    assert found[0] == EVENTS


async def test_a_replay_of_its_own_session_leaves_a_run_whole(client: Client) -> None:
    big = await client.start("many")
    replayed, _ = await client.history(big.session_id, max_events=10_000)
    assert [one.seq for one in replayed] == list(range(-1, len(replayed) - 1))
    assert len([event async for event in big]) == EVENTS


async def test_another_client_attaches_to_a_run(client: Client, tmp_path: Path) -> None:
    run = await client.start("wait")
    own = aiter(run)
    seen = [await anext(own)]
    async with open_client(workspace=str(tmp_path / "work"), environment=environ(tmp_path)) as viewer:
        _, told = await viewer.history(run.session_id)
        [state] = told.run_states
        same = await viewer.attach(run.session_id, state.run_id)
        theirs = aiter(same)
        assert await anext(theirs) == seen[0]
        await run.cancel()
        seen += [event async for event in own]
        assert [event async for event in theirs] == seen[1:]
        assert (run.status, same.status) == ("cancelled", "cancelled")
        again = await viewer.attach(run.session_id, run.id)
        assert [event async for event in again] == seen and again.status == "cancelled"
        with pytest.raises(ClientError):
            await viewer.attach(run.session_id, "msg-none")
