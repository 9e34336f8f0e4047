"""A folder behind a channel of Discord's, with the real Claude CLI for an engine, which asks a scripted model."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from simcord.backend.models import Channel
from tests.channels.discord.installed import MARK, POINTS, Installed, Running, start
from tests.channels.discord.server.people import Person
from tests.channels.discord.server.running import Server
from tests.channels.discord.server.world import Post
from tests.engines.claude.api import Request, ScriptedApi
from tests.engines.claude.binary import claude_binary, claude_version
from tests.engines.claude.rig import KEY, command_of

from pilothouse.engines.claude.gate_proof import PROOFS, remember_proof

PASSED_ON = ["ANTHROPIC_*", "CLAUDE_CODE_*", "DISABLE_*", "ENABLE_*", MARK]


class ClaudeFolder:
    """The program can be started again and again: all that it remembers is on the disk."""

    def __init__(self, folder: Path, server: Server, api: ScriptedApi, owner: Person) -> None:
        engines = {"claude": "pilothouse.engines.claude:ENGINE", **POINTS["engines"]}
        self.installed = Installed(folder, server, {**POINTS, "engines": engines})
        self.server = server
        self.api = api
        self.project = self.installed.project
        state = self.installed.home / "state" / "engines" / "claude"
        state.mkdir(parents=True)
        remember_proof(
            state / PROOFS, str(claude_binary()), claude_version()
        )  # once, in its own test, is enough
        self.installed.env |= {
            "ANTHROPIC_API_KEY": KEY,
            "ANTHROPIC_BASE_URL": api.url,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_TELEMETRY": "1",
            "DISABLE_ERROR_REPORTING": "1",
            "ENABLE_TOOL_SEARCH": "false",
            "LANG": "C.UTF-8",
            "DISCORD_TOKEN": server.token,
            "DISCORD_CHANNEL_ID": str(server.world.general.id),
            "PILOTHOUSE__PEOPLE__OWNERS": f'["discord:{owner.id}"]',
        }
        self.configure(command=str(claude_binary()), environment=PASSED_ON, max_retries=1, api_timeout_s=20.0)

    def configure(self, **engine: Any) -> None:
        for name, value in engine.items():
            self.installed.env[f"PILOTHOUSE__ENGINES__CLAUDE__{name.upper()}"] = json.dumps(value)

    @asynccontextmanager
    async def running(self, mode: str = "full-access") -> AsyncIterator[Running]:
        async with start(self.installed, "discord", "--approval-mode", mode) as running:
            await running.until_ready()
            yield running

    def shown(self, *words: str, channel: Channel | None = None) -> Post | None:
        """The newest message of ours that has all these words."""
        posts = self.server.world.shown(channel or self.server.world.general)
        return next((post for post in reversed(posts) if all(word in post.text for word in words)), None)

    def with_button(self, label: str) -> Post | None:
        posts = self.server.world.shown(self.server.world.general)
        return next((post for post in reversed(posts) if label in post.buttons), None)

    def asked_about(self, words: str) -> Request | None:
        """What the model was asked last when somebody said this."""
        found = [request for request in self.api.main if words in request.prompt]
        return found[-1] if found else None

    def processes(self, words: str) -> Sequence[int]:
        return [pid for pid in self.installed.pids() if words in command_of(pid)]
