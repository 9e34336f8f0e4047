"""A gateway as the crash tests run it: a real SQLite file, a real engine process, and a channel: one that writes down, in a
synced file, whatever it shows, or one whose platform stands outside."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from bench.crashing.journal import Journal
from bench.crashing.points import Points

from pilothouse.bootstrap.machine import is_alive, sweep_leftovers
from pilothouse.channels.memory import PERSON, MemoryChannel
from pilothouse.core.ask import Ask
from pilothouse.core.channel import Channel
from pilothouse.core.engine import Engine, EngineHost
from pilothouse.core.ids import EngineId
from pilothouse.core.isolation import Isolation
from pilothouse.core.people import People as Roles
from pilothouse.core.policy import NO_RULE, Ruling, Site
from pilothouse.core.store import Store
from pilothouse.engines.script import ENGINE
from pilothouse.engines.script.config import ScriptConfig
from pilothouse.isolation.jail import Jails, Places, sweep_scratch
from pilothouse.runtime.gateway import TOPICS
from pilothouse.runtime.ports import NoTools, Ports, StoreBlobs, SystemClock, ToolServer, new_id
from pilothouse.runtime.settings import Settings

CHOSEN = "CRASH_SWEEP_ENGINE"
TOOLS = "CRASH_SWEEP_TOOLS"
"""Set if people talk to an agent that calls Pilothouse's own tools, and to nobody else."""
JAILED = "CRASH_SWEEP_JAIL"
"""Set if the engine's processes run in jails."""
PATIENCE = "CRASH_SWEEP_PATIENCE"
"""How many times longer than usual everything may take."""
LIBRARY = "library"
"""The other agent, by name."""
ROOT = Path(__file__).resolve().parents[2]
SCRIPT = Path(__file__).with_name("script.toml")
PART_LIMIT = 300
STORIES = 12
"""How many times the story must be told to be too long for one message of a platform."""
HASTE = 10.0


def with_tools() -> bool:
    return bool(os.environ.get(TOOLS))


def patient(seconds: float) -> float:
    return seconds * float(os.environ.get(PATIENCE, "1"))


class Home:
    """The files of one run and its restart."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.database = folder / "pilothouse.db"
        self.seen = Journal(folder / "seen.jsonl")
        self.people = Journal(folder / "people.jsonl")
        self.world = folder / "world.jsonl"
        self.log = folder / "log.jsonl"
        self.last_words = folder / "killed-after"
        self.report = folder / "report.json"
        self.platform = folder / "platform.json"
        self.stderr = folder / "stderr.txt"
        self.scratch = folder / "jails"
        """The private homes of jails."""
        self.library = folder / LIBRARY
        """The workspace of another agent; there is one only where agents have tools."""


class Log:
    def __init__(self, file: Path) -> None:
        self._file = file

    def __call__(self, event: str, /, **fields: object) -> None:
        line = {"at": time.time(), "pid": os.getpid(), "event": event, **fields}
        with self._file.open("a") as file:
            file.write(json.dumps(line, default=str) + "\n")


class PointedLog(Log):
    """Knows at which points an approval was asked for or given."""

    def __init__(self, file: Path, points: Points) -> None:
        super().__init__(file)
        self._points = points
        self.approvals: list[int] = []

    def __call__(self, event: str, /, **fields: object) -> None:
        if event == "ask.answered" or fields.get("kind") == "approval":
            self.approvals.append(len(self._points.passed))
        super().__call__(event, **fields)


class HastyClock:
    """For a channel, whose pauses between two messages are not what a sweep is about: each is over ten times sooner."""

    def __init__(self) -> None:
        self._clock = SystemClock()

    def now(self) -> float:
        return self._clock.now()

    def monotonic(self) -> float:
        return self._clock.monotonic() * HASTE

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds / HASTE)


def make_channel(record: Callable[[dict[str, Any]], None]) -> MemoryChannel:
    """Its ids are new after a restart, as a platform's are."""
    return MemoryChannel(
        part_limit=PART_LIMIT, record=record, native_ids=lambda: f"{os.getpid()}-{time.monotonic_ns()}"
    )


def make_ports(
    home: Home,
    store: Store,
    channel: Channel,
    log: Log,
    *,
    script: Path = SCRIPT,
    sweep: Callable[[], Awaitable[None]] | None = None,
    **changes: Any,
) -> Ports:
    settings = Settings(
        EngineId("script"),
        str(home.folder),
        people=Roles({PERSON.id: "owner"}),
        retry_first_s=0.01,
        poll_s=0.2,
        known_channels=(channel.id,),
        **(_granted_agent(home) if with_tools() else {}),
    )
    chosen = msgspec.structs.replace(settings, **changes)
    return Ports(
        topics=TOPICS,
        store=store,
        clock=SystemClock(),
        ids=new_id,
        settings=lambda: chosen,
        engines={ENGINE.id: _engine(home, store, log, script)},
        channels={channel.id: channel},
        alive=is_alive,
        sweep=sweep or partial(_sweep, home, log),
        log=log,
        tools=_tools(),
        **_servers(),
    )


def _granted_agent(home: Home) -> dict[str, Any]:
    """The settings of an agent that the agent of the scenario may ask."""
    home.library.mkdir(exist_ok=True)
    return {
        "workspaces": {LIBRARY: str(home.library)},
        "agents": {os.path.realpath(home.folder): (LIBRARY,)},
    }


def _tools() -> ToolServer:
    if not with_tools():
        return NoTools()
    from pilothouse.agent_tools.server import AgentToolServer

    return AgentToolServer()


def _servers() -> dict[str, Any]:
    """The native agent asks its questions by an MCP server."""
    if os.environ.get(CHOSEN) != "native":
        return {}
    from bench.crashing.native_player import house_servers

    return {"mcp_servers": house_servers}


def _engine(home: Home, store: Store, log: Log, script: Path) -> Engine:
    """The script engine; or, if so chosen, another engine under its name that plays the same script."""
    blobs = StoreBlobs(store, SystemClock())
    host = EngineHost(blobs, dict(os.environ), str(home.folder), str(home.database), log)
    if os.environ.get(JAILED):
        jails = _jails(home, log)
        host = msgspec.structs.replace(host, jail=jails.open, isolation=jails.isolation)
    others = {"acp": _acp_engine, "codex": _codex_engine, "native": _native_engine}
    if make := others.get(os.environ.get(CHOSEN, "")):
        return make(msgspec.structs.replace(host, judge=_judge), home, script)
    player = [sys.executable, "-m", "bench.crashing.player", str(script), str(home.world)]
    return ENGINE.build(ScriptConfig(command=player, environment=["PYTHONPATH"]), host)


def _jails(home: Home, log: Log) -> Jails:
    """The workspace holds the store, as no real one may; the jail hides it. Tools are reached by the machine's network."""
    isolation = Isolation("jail", allow_read=(str(ROOT),), network="open" if with_tools() else "none")
    store = (f"{home.database}{end}" for end in ("", "-wal", "-shm"))
    hidden = (*store, str(home.log), str(home.scratch))
    places = Places(str(home.scratch), hidden, os.path.expanduser("~"))
    return Jails(lambda workspace: isolation, places, log)


async def _sweep(home: Home, log: Log) -> None:
    """End what a killed gateway left, and remove the folders of its jails."""
    await sweep_leftovers(str(home.database), log)
    sweep_scratch(str(home.scratch))


def _acp_engine(host: EngineHost, home: Home, script: Path) -> Engine:
    from pilothouse.engines.acp.agents import Agent
    from pilothouse.engines.acp.config import AcpConfig
    from pilothouse.engines.acp.engine import AcpEngine

    player = [sys.executable, "-m", "bench.crashing.acp_player", str(script), str(home.world)]
    config = AcpConfig(command=player, environment=["PYTHONPATH"], asks_first=True)
    return AcpEngine(ENGINE.id, Agent("Scripted", untrusted={"SCRIPTED_TRUST": "no"}), config, host)


def _codex_engine(host: EngineHost, home: Home, script: Path) -> Engine:
    from pilothouse.engines.codex.config import CodexConfig
    from pilothouse.engines.codex.engine import CodexEngine

    program = home.folder / "codex-player"
    player = f'"{sys.executable}" -m bench.crashing.codex_player "{script}" "{home.world}"'
    program.write_text(f'#!/bin/sh\nexec {player} "$@"\n')
    program.chmod(0o755)
    config = CodexConfig(
        command=str(program), home=str(home.folder / "codex-home"), environment=["PYTHONPATH"]
    )
    return CodexEngine(config, host)


def _native_engine(host: EngineHost, home: Home, script: Path) -> Engine:
    from bench.crashing.native_player import open_house, start_model

    from pilothouse.engines.native.config import NativeConfig
    from pilothouse.engines.native.engine import NativeEngine

    url = start_model(script, home.world)
    config = NativeConfig(
        provider="compatible", base_url=url, model="scripted", context_window=1_000_000, max_retries=0
    )
    return NativeEngine(config, msgspec.structs.replace(host, open_mcp=open_house))


async def _judge(ask: Ask, site: Site) -> Ruling:
    """Ask people about what asks them; tools of the script run unasked."""
    given = ask.payload["input"]
    asks = "question" in given or str(given.get("command")).endswith("?")
    return NO_RULE if asks else Ruling("allow")


def long_script(home: Home) -> Path:
    """The same script with a longer story, no two parts of which read alike."""
    before, story, after = SCRIPT.read_text().split('"""')
    file = home.folder / SCRIPT.name
    chapters = "".join(f"\nChapter {number}.\n{story}" for number in range(1, STORIES + 1))
    file.write_text(f'{before}"""{chapters}"""{after}')
    return file
