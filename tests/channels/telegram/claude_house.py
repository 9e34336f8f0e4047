"""A whole gateway on Telegram with the real Claude CLI for an engine, which asks a scripted model."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from tests.channels.channel_rig import LateBlobs
from tests.channels.telegram.gateway_house import GatewayHouse, open_gateway
from tests.channels.telegram.server.people import Person
from tests.channels.telegram.server.running import Server
from tests.engines.claude.api import ScriptedApi
from tests.engines.claude.rig import Rig

from pilothouse.channels.telegram.config import TelegramConfig
from pilothouse.core.ids import EngineId
from pilothouse.core.people import Role
from pilothouse.core.policy import ApprovalMode
from pilothouse.engines.claude.engine import ClaudeEngine

CLAUDE = EngineId("claude")


@asynccontextmanager
async def open_claude(
    server: Server,
    folder: Path,
    people: dict[Person, Role],
    api: ScriptedApi,
    *,
    mode: ApprovalMode = "full-access",
    config: TelegramConfig | None = None,
    **engine: Any,
) -> AsyncIterator[tuple[GatewayHouse, Rig]]:
    """What the engine makes and what people send is kept in one place: the gateway's store."""
    rig, blobs = Rig(folder, api), LateBlobs()
    rig.more = {"ENABLE_TOOL_SEARCH": "false"}
    names = [*rig.config().environment, *rig.more]
    host = msgspec.structs.replace(rig.host(), blobs=blobs)
    claude = ClaudeEngine(rig.config(environment=names, **engine), host)

    def mode_in(workspace: str) -> ApprovalMode:
        return mode

    async with open_gateway(
        server,
        folder,
        people,
        config=config,
        blobs=blobs,
        engines={CLAUDE: claude},
        default_engine=CLAUDE,
        default_workspace=str(rig.workspace),
        engine_names={"claude": CLAUDE},
        mode_in=mode_in,
    ) as house:
        yield house, rig
