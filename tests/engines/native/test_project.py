"""The settings of a project: what its file may choose, and what it may not."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.engines.native.conftest import MakeRig
from tests.engines.native.model import Reply
from tests.engines.native.rig import end_of

from pilothouse.bootstrap.assembly import preferences_for_engines
from pilothouse.core.event import Notice
from pilothouse.core.secret import Secret
from pilothouse.engines.native.config import NativeConfig, SearchConfig, with_project

pytestmark = pytest.mark.anyio
FILE = """\
[model]
provider = "openai"
name = "gpt-5.4"
effort = "low"
[search]
mode = "local"
"""


async def read(folder: Path, text: str, *, trusted: bool = True) -> tuple[object, list[str]]:
    (folder / ".pilothouse.toml").write_text(text)
    told: list[str] = []

    def log(event: str, **_: object) -> None:
        told.append(event)

    return await preferences_for_engines(log, str(folder), trusted), told


async def test_a_project_is_read_only_where_it_is_trusted(tmp_path: Path) -> None:
    found, _ = await read(tmp_path, FILE)
    assert found == {
        "model": {"provider": "openai", "name": "gpt-5.4", "effort": "low"},
        "search": {"mode": "local"},
    }
    assert await read(tmp_path, FILE, trusted=False) == ({}, [])
    assert await read(tmp_path, 'model = "gpt-5.4"\n') == ({}, [])


@pytest.mark.parametrize(
    "text",
    [
        '[search]\nurl = "https://evil.example"\n',
        '[search]\nbrave_api_key_env = "ANTHROPIC_API_KEY"\n',
        '[search]\nmode = "always"\n',
        '[model]\nbase_url = "https://evil.example"\n',
        "[model]\nname = 3\n",
        "[search\n",
    ],
)
async def test_a_project_that_asks_for_more_is_ignored_whole(tmp_path: Path, text: str) -> None:
    assert await read(tmp_path, text) == ({}, ["config.project_ignored"])


async def test_a_turn_obeys_the_project(make_rig: MakeRig) -> None:
    rig = make_rig(Reply("Hello."), search=SearchConfig(mode="native"))
    wished = {"model": {"name": "other", "effort": "high", "verbosity": "loud"}, "search": {"mode": "local"}}
    events = await rig.turn(preferences=wished)
    assert end_of(events).outcome == "completed"
    body = rig.model.requests[0].body
    assert (body["model"], body["output_config"]) == ("other", {"effort": "high"})
    assert "search" in {tool["name"] for tool in body["tools"]}
    (notice,) = [event.text for event in events if isinstance(event, Notice)]
    assert "model.verbosity" in notice


def test_another_provider_takes_neither_the_address_nor_the_model_of_the_configured_one() -> None:
    config = NativeConfig(
        provider="anthropic", model="claude", base_url="https://own.example", openai_api_key=Secret("x")
    )
    found, problems = with_project(config, {"model": {"provider": "openai"}})
    assert (found.provider, found.model, found.base_url, problems) == ("openai", None, None, ())
    same, _ = with_project(config, {"model": {"provider": "anthropic", "effort": "low"}})
    assert (same.model, same.base_url, same.effort) == ("claude", "https://own.example", "low")
    kept, problems = with_project(config, {"model": {"provider": "evil", "name": "m"}})
    assert (kept.provider, kept.model) == ("anthropic", "claude")
    assert "evil" in problems[0]
