"""A warm follow-up through a whole gateway, against the bare process, and against a new `--resume` process.

From handing a message to the channel until the engine's first delta reaches the turn. The three sides alternate, each
with a session of its own, so that all see the same machine.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    asynccontextmanager,
)
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self

import anyio
from bench.driving import api, bare
from bench.measuring.house import Person, open_house, open_store
from bench.measuring.model_process import ANSWER
from bench.measuring.script import NoBlobs, say_nothing
from bench.measuring.statistics import median, quantile
from bench.measuring.table import Row
from tests.engines.claude.binary import claude_binary, claude_version

from pilothouse.core.engine import Brief, Engine, EngineHost, EngineSession
from pilothouse.core.event import EngineEvent, TextDelta
from pilothouse.core.ids import EngineId, SessionId
from pilothouse.core.turn import Prompt
from pilothouse.engines.claude.config import ClaudeConfig, resolve
from pilothouse.engines.claude.engine import ClaudeEngine
from pilothouse.engines.claude.gate_proof import PROOFS, remember_proof
from pilothouse.engines.claude.launch import child_environment, pooled_argv

WARM = 10
TURNS = 100
RESUMED = 12
CLAUDE = EngineId("claude")
SESSION = "11111111-2222-4333-8444-555555555555"


def measure() -> list[Row]:
    with TemporaryDirectory(prefix="pilothouse-claude-") as folder, api.serving() as url:
        return anyio.run(_measure, Path(folder), url)


async def _measure(folder: Path, url: str) -> list[Row]:
    place = Place(folder, url)
    async with AsyncExitStack() as stack:
        ours = await stack.enter_async_context(place.side("pooled", pool=True))
        new = await stack.enter_async_context(place.side("resumed", pool=False))
        alone = stack.enter_context(place.bare())
        for number in range(WARM):
            await ours.turn(f"warm {number}")
            alone.turn(f"warm {number}")
        await new.turn("warm")
        followed: list[float] = []
        bared: list[float] = []
        resumed: list[float] = []
        for number in range(TURNS):
            followed.append(await ours.turn(f"message {number}"))
            bared.append(alone.turn(f"message {number}"))
            if number % (TURNS // RESUMED) == 0:
                resumed.append(await new.turn(f"message {number}"))
    return _rows(followed, bared, resumed, ours.computed[WARM:])


def _rows(
    followed: list[float], bared: list[float], resumed: list[float], computed: list[float]
) -> list[Row]:
    ours, theirs, new = median(followed), median(bared), median(resumed)
    told = f"{_ms(ours)} against {_ms(theirs)}, {len(followed)} turns each; p90 {_ms(quantile(followed, 0.9))} against {_ms(quantile(bared, 0.9))}"
    often = f"{_ms(ours)} against {_ms(new)}, {len(resumed)} new processes; fastest {_ms(min(resumed))}"
    return [
        Row(
            "warm follow-up: message → first delta, above the bare CLI, p50",
            (ours - theirs) * 1e3,
            15,
            "ms",
            told,
        ),
        Row(
            "what our process computes until then, p50",
            median(computed) * 1e3,
            None,
            "ms",
            "CPU time; it hardly depends on the load",
        ),
        Row(
            "the same against a new `--resume` process through us, p50",
            new / ours,
            10,
            "×",
            often,
            least=True,
        ),
    ]


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.1f} ms"


class Place:
    """A home without a login, a workspace, and the real CLI that talks to the scripted API."""

    def __init__(self, folder: Path, url: str) -> None:
        self._folder = folder
        self._binary = str(claude_binary())
        self._environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "LANG": "C.UTF-8",
            "ANTHROPIC_API_KEY": "sk-ant-no-key-at-all",
            "ANTHROPIC_BASE_URL": url,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_TELEMETRY": "1",
            "DISABLE_ERROR_REPORTING": "1",
        }

    @asynccontextmanager
    async def side(
        self, name: str, settings: Mapping[str, Any] | None = None, **config: Any
    ) -> AsyncIterator[Side]:
        """A gateway of its own."""
        folder = self._made(name)
        remember_proof(folder / PROOFS, self._binary, claude_version())
        host = EngineHost(NoBlobs(), self._environment, str(folder), f"bench-{name}", say_nothing)
        engine = TimedEngine(ClaudeEngine(self._config(**config), host))
        person = Person()
        async with (
            open_store(folder) as store,
            open_house(store, folder, person, {CLAUDE: engine}, **(settings or {})),
        ):
            yield Side(person, engine)

    def bare(self) -> AbstractContextManager[bare.Bare]:
        folder, config = self._made("bare"), resolve(self._config(), {})
        brief = Brief(SessionId("bare"), str(folder))
        argv = pooled_argv(config, brief, SESSION)
        return bare.running(argv, child_environment(config, self._environment, brief), str(folder))

    def _config(self, **changed: Any) -> ClaudeConfig:
        names = ["ANTHROPIC_*", "CLAUDE_CODE_*", "DISABLE_*"]
        return ClaudeConfig(command=self._binary, environment=names, **changed)

    def _made(self, name: str) -> Path:
        folder = self._folder / name
        folder.mkdir()
        return folder


class Side:
    def __init__(self, person: Person, engine: TimedEngine) -> None:
        self._person = person
        self._engine = engine
        self.computed: list[float] = []
        """What this process computed in each turn until its first delta, in seconds."""

    async def turn(self, text: str) -> float:
        """Seconds from the message to the first delta; returns when the answer was delivered."""
        self._engine.first_at = 0.0
        began, cpu = time.perf_counter(), time.process_time()
        _, answer = await self._person.turn(text)
        assert answer == ANSWER, answer
        self.computed.append(self._engine.first_cpu - cpu)
        return self._engine.first_at - began

    async def speak(self, number: int, text: str) -> float:
        """Seconds from the message to its delivered answer, in a chat of its own."""
        seconds, answer = await self._person.turn(text, f"chat-{number}")
        assert answer == ANSWER, answer
        return seconds


class TimedEngine:
    """Notes when the first delta of a turn comes out of the engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.first_at = 0.0
        self.first_cpu = 0.0

    async def __aenter__(self) -> Self:
        await self._engine.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._engine.__aexit__(kind, error, trace)

    def open(self, brief: Brief) -> AbstractAsyncContextManager[EngineSession]:
        return self._open(brief)

    @asynccontextmanager
    async def _open(self, brief: Brief) -> AsyncIterator[EngineSession]:
        async with self._engine.open(brief) as session:
            yield TimedSession(self, session)


class TimedSession:
    def __init__(self, engine: TimedEngine, session: EngineSession) -> None:
        self._engine = engine
        self._session = session

    async def run(self, prompt: Prompt) -> AsyncIterator[EngineEvent]:
        async for event in self._session.run(prompt):
            if isinstance(event, TextDelta) and not self._engine.first_at:
                self._engine.first_at, self._engine.first_cpu = time.perf_counter(), time.process_time()
            yield event
