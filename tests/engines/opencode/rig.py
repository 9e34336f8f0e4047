"""What the tests with the real binary share: a home of its own, a scripted API, and a look at what is left running."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
from tests.engines.codex.api import ScriptedApi
from tests.engines.codex.rig import Rig as CodexRig
from tests.engines.opencode.api import MODEL
from tests.engines.opencode.binary import VERSION, opencode_binary

from pilothouse.core.ask import Ask
from pilothouse.core.engine import EngineHost
from pilothouse.core.policy import Ruling, Site
from pilothouse.engines.opencode.config import OpenCodeConfig
from pilothouse.engines.opencode.engine import OpenCodeEngine

KEY = "no-key-at-all"


class Rig(CodexRig):
    """The user's settings have a provider that is the scripted API. Every process carries the rig's own marker."""

    def __init__(self, folder: Path, api: ScriptedApi, **config: Any) -> None:
        super().__init__(folder, api, **config)
        self.settings_file = self.home / ".config" / "opencode" / "opencode.json"
        self.settings_file.parent.mkdir(parents=True)
        self.settings_file.write_text(json.dumps(settings(api.url)))
        keep_from_installing(self.settings_file.parent)

    def environment(self) -> dict[str, str]:  # pyrefly: ignore[missing-override-decorator]
        return {**super().environment(), "OPENCODE_DISABLE_MODELS_FETCH": "1"}

    def host(self, state: str = "") -> EngineHost:  # pyrefly: ignore[missing-override-decorator]
        """Asks the policy of the moment, which a test may change while the engine runs."""

        async def judge(ask: Ask, site: Site) -> Ruling:
            return await self.policy.judge(ask, site)

        return msgspec.structs.replace(super().host(state), judge=judge)

    def engine(self, **changed: Any) -> OpenCodeEngine:  # pyrefly: ignore[bad-override, missing-override-decorator]
        plain: dict[str, Any] = {
            "command": str(opencode_binary()),
            "environment": ["OPENCODE_DISABLE_MODELS_FETCH"],
        }
        return OpenCodeEngine(OpenCodeConfig(**(plain | self._config | changed)), self.host())


def settings(url: str) -> dict[str, Any]:
    model = {
        "name": "Scripted",
        "tool_call": True,
        "attachment": True,
        "reasoning": True,
        "limit": {"context": 100_000, "output": 8_000},
        "modalities": {"input": ["text", "image", "pdf"], "output": ["text"]},
        "cost": {"input": 2, "output": 10, "cache_read": 0.2},
    }
    options = {"baseURL": url, "apiKey": "{env:SCRIPTED_KEY}"}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Scripted",
        "options": options,
        "models": {MODEL: model},
    }
    named = f"scripted/{MODEL}"
    return {
        "model": named,
        "small_model": named,
        "enabled_providers": ["scripted"],
        "command": {"greet": {"template": "Say hello to $ARGUMENTS.", "description": "Greets"}},
        "provider": {"scripted": provider},
    }


def keep_from_installing(folder: Path) -> None:
    """Make OpenCode believe that it has installed its package for plugins: it would ask a registry."""
    (folder / "node_modules").mkdir()
    lock = {"packages": {"": {"dependencies": {"@opencode-ai/plugin": VERSION}}}}
    (folder / "package-lock.json").write_text(json.dumps(lock))
    (folder / "package.json").write_text(json.dumps(lock["packages"][""]))
