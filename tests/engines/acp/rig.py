"""An engine whose program is the scripted agent."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pilothouse.core.engine import Brief, EngineHost
from pilothouse.core.ids import EngineId, SessionId
from pilothouse.core.policy import Policy
from pilothouse.engines.acp.agents import Agent
from pilothouse.engines.acp.config import AcpConfig
from pilothouse.engines.acp.engine import AcpEngine
from pilothouse.engines.acp.session import AcpSession
from pilothouse.testing.hosts import engine_host, running_processes

PROGRAM = Path(__file__).parent / "agent.py"
ID = EngineId("scripted")
ASKING = Agent("Scripted", asks=True, mode="default", untrusted={"SCRIPTED_TRUST": "no"})


class Scripted:
    """`agent` is what is known about it; every line that it gets is kept."""

    def __init__(
        self,
        folder: Path,
        fault: str = "",
        *,
        agent: Agent = ASKING,
        policy: Policy | None = None,
        **config: Any,
    ) -> None:
        self.folder = folder
        self.workspace = folder / "work"
        self.workspace.mkdir(exist_ok=True)
        self.log = folder / "lines.jsonl"
        self.logged: list[tuple[str, dict[str, Any]]] = []
        command = [sys.executable, str(PROGRAM), str(self.log), *filter(None, [fault])]
        plain: dict[str, Any] = {"command": command, "stop_grace_s": 2.0, "open_s": 60.0}
        self.config = AcpConfig(**(plain | config))
        self.agent = agent
        host = engine_host(folder, environment={"PATH": "/usr/bin:/bin", "HOME": str(folder)})
        judged: dict[str, Any] = {"judge": policy.judge} if policy else {}
        self.host = EngineHost(
            host.blobs, host.environment, host.state_dir, host.node_marker, self._log, **judged
        )

    def _log(self, event: str, **fields: Any) -> None:
        self.logged.append((event, fields))

    def engine(self) -> AcpEngine:
        return AcpEngine(ID, self.agent, self.config, self.host)

    def brief(self, name: str = "one", **fields: Any) -> Brief:
        return Brief(SessionId(name), str(self.workspace), **fields)

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def sent(self, method: str) -> list[dict[str, Any]]:
        return [line["params"] for line in self.lines() if line.get("method") == method]

    def replies(self) -> list[Any]:
        return [line.get("result") or line.get("error") for line in self.lines() if "method" not in line]

    def leftovers(self) -> list[str]:
        return running_processes(self.host)


@asynccontextmanager
async def session_of(scripted: Scripted, **fields: Any) -> AsyncIterator[AcpSession]:
    async with scripted.engine() as engine, engine.open(scripted.brief(**fields)) as session:
        yield session
    assert scripted.leftovers() == []
