"""Turns with real models. They cost a little, so they run only with INTEGRATION=1, a key, and the name of a model."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.engines.native.rig import ask, end_of

from pilothouse.core.ask import Ask
from pilothouse.core.engine import Brief
from pilothouse.core.ids import SessionId
from pilothouse.core.policy import Ruling, Site
from pilothouse.core.secret import Secret
from pilothouse.engines.native.config import NativeConfig, ProviderName
from pilothouse.engines.native.engine import NativeEngine
from pilothouse.testing.engine import resumed
from pilothouse.testing.hosts import engine_host

PROVIDERS: dict[ProviderName, tuple[str, str]] = {
    "anthropic": ("ANTHROPIC_API_KEY", "CODELIA_TEST_ANTHROPIC_MODEL"),
    "openai": ("OPENAI_API_KEY", "CODELIA_TEST_OPENAI_MODEL"),
    "openrouter": ("OPENROUTER_API_KEY", "PILOTHOUSE_TEST_OPENROUTER_MODEL"),
}
LIVE = os.environ.get("INTEGRATION") == "1"


async def allow(ask: Ask, site: Site) -> Ruling:
    return Ruling("allow")


@pytest.mark.anyio
@pytest.mark.skipif(not LIVE, reason="INTEGRATION=1 is not set")
@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_real_model_reads_a_file_and_remembers(tmp_path: Path, provider: ProviderName) -> None:
    key, model = (os.environ.get(name, "") for name in PROVIDERS[provider])
    if not key or not model:
        pytest.skip(f"{' or '.join(PROVIDERS[provider])} is not set")
    (tmp_path / "word.txt").write_text("The word is periwinkle.\n")
    config = NativeConfig(
        provider=provider,
        model=model,
        anthropic_api_key=Secret(key),
        openai_api_key=Secret(key),
        openrouter_api_key=Secret(key),
    )
    brief = Brief(SessionId("live"), str(tmp_path))
    host = engine_host(tmp_path / "state", judge=allow)
    async with NativeEngine(config, host) as engine:
        async with engine.open(brief) as session:
            end = end_of(await ask(session, "Read word.txt with your tool, and say which word stands there."))
        assert end.outcome == "completed", end.failure
        assert "periwinkle" in end.answer.lower()
        async with engine.open(resumed(brief, end.resume)) as session:
            end = end_of(await ask(session, "Which word was it? One word, without a tool."))
        assert "periwinkle" in end.answer.lower()
