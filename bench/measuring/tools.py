"""A tool call of an agent, from its request over HTTP to the reply, against a bare commit; and the server's memory.

The gateway runs in a process of its own, and the client in another. A change of a task is one durable write. A message also
waits for its delivery, so it is told and not promised.
"""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import msgspec
from bench.measuring.engine import INSTANT, InstantEngine, InstantSession
from bench.measuring.house import Person, open_house, open_store
from bench.measuring.machine import rss_kb
from bench.measuring.statistics import median, quantile
from bench.measuring.table import Row
from bench.measuring.tool_client import Job, Result
from msgspec import Struct

from pilothouse.agent_tools.server import AgentToolServer
from pilothouse.core.engine import Brief
from pilothouse.core.event import EngineEvent, ResumeToken, SessionStarted, TurnEnded
from pilothouse.core.turn import Prompt

ROUNDS = 55
"""A turn may make 200 calls."""
BOUND_MS, BOUND_MB = 8.0, 75.0


class Measured(Struct):
    before_kb: int
    after_kb: int
    result: Result


def measure() -> list[Row]:
    argv = [sys.executable, "-m", "bench.measuring.tools"]
    told = subprocess.run(argv, check=True, stdout=subprocess.PIPE).stdout
    found = msgspec.json.decode(told, type=Measured)
    each = found.result
    commit_ms, change_ms = (median(times) * 1e3 for times in (each.commits, each.changes))
    p99, message_ms = quantile(each.changes, 0.99) * 1e3, median(each.messages) * 1e3
    detail = f"{change_ms:.1f} ms against {commit_ms:.2f} ms, {ROUNDS} calls; p99 {p99:.1f} ms"
    memory = f"{found.before_kb / 1024:.1f} MB before, {found.after_kb / 1024:.1f} MB after the calls"
    return [
        Row("a tool call over a bare commit, p50", change_ms - commit_ms, BOUND_MS, "ms", detail),
        Row("a tool call that only reads, p50", median(each.lists) * 1e3, None, "ms"),
        Row("a message by a tool until delivered, p50", message_ms, None, "ms"),
        Row("memory of the tool server", (found.after_kb - found.before_kb) / 1024, BOUND_MB, "MB", memory),
    ]


class HeldEngine(InstantEngine):
    """Its turn runs until `done`; `brief` is that of the turn."""

    def __init__(self) -> None:
        self.began, self.done = anyio.Event(), anyio.Event()
        self.brief: Brief | None = None

    @asynccontextmanager
    # pyrefly: ignore [missing-override-decorator]
    async def open(self, brief: Brief) -> AsyncIterator[InstantSession]:
        self.brief = brief
        yield HeldSession(brief, self)


class HeldSession(InstantSession):
    def __init__(self, brief: Brief, engine: HeldEngine) -> None:
        super().__init__(brief)
        self._token = ResumeToken(INSTANT, brief.session_id, brief.workspace)
        self._engine = engine

    # pyrefly: ignore [missing-override-decorator]
    async def run(self, prompt: Prompt) -> AsyncIterator[EngineEvent]:
        yield SessionStarted(self._token, model="none")
        self._engine.began.set()
        await self._engine.done.wait()
        yield TurnEnded("completed", resume=self._token)


async def _measure(folder: Path) -> Measured:
    engine, person = HeldEngine(), Person()
    async with (
        open_store(folder) as store,
        open_house(store, folder, person, {INSTANT: engine}, tools=AgentToolServer()),
    ):
        await person.channel.say("go")
        await engine.began.wait()
        assert engine.brief is not None
        server = engine.brief.mcp_servers["pilothouse"]
        before = await _resident()
        job = Job(server["url"], server["headers"]["Authorization"], str(folder / "bare.db"), ROUNDS)
        argv = [sys.executable, "-m", "bench.measuring.tool_client"]
        done = await anyio.run_process(argv, input=msgspec.json.encode(job), stderr=None)
        after = await _resident()
        engine.done.set()
    return Measured(before, after, msgspec.json.decode(done.stdout, type=Result))


async def _resident() -> int:
    await anyio.sleep(1)
    gc.collect()
    return rss_kb()


if __name__ == "__main__":
    with TemporaryDirectory(prefix="pilothouse-tools-") as name:
        sys.stdout.buffer.write(msgspec.json.encode(anyio.run(_measure, Path(name))))
