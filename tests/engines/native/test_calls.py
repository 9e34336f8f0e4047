"""Calls whose id or output a provider would refuse: each gets its own result, and the conversation can always be sent."""

from __future__ import annotations

import json
import os
import re

import pytest
from tests.engines.native.conftest import MakeRig
from tests.engines.native.model import Call, Reply
from tests.engines.native.pairs import unpaired
from tests.engines.native.rig import ask, end_of

from pilothouse.core.ask import Decision
from pilothouse.core.event import Asked, ToolFinished, ToolStarted

pytestmark = pytest.mark.anyio
DIALECTS = ("anthropic", "openai", "openrouter", "compatible")
DONE = Reply("All done.")


async def test_a_file_name_that_is_not_utf8_reaches_the_model_as_text(make_rig: MakeRig) -> None:
    rig = make_rig(Reply(calls=[Call("glob", {"pattern": "**/*"})]), DONE)
    (rig.workspace / os.fsdecode(b"caf\xe9.txt")).touch()
    async with rig.engine() as engine, engine.open(rig.brief()) as session:
        events = await ask(session, "list the files")
        assert end_of(events).outcome == "completed"
        assert end_of(await ask(session, "and now?")).outcome == "completed"
    assert "caf\ufffd.txt" in json.loads(rig.model.requests[1].results[0])[0]["text"]
    finished = [(event.ok, event.output) for event in events if isinstance(event, ToolFinished)]
    assert finished == [(True, f"{rig.workspace}/caf\ufffd.txt")]


@pytest.mark.parametrize("provider", DIALECTS)
async def test_calls_with_one_id_in_one_reply_get_their_own_results(make_rig: MakeRig, provider: str) -> None:
    calls = [Call("read", {"file_path": name}, id="call_0") for name in ("/a", "/b")]
    rig = make_rig(Reply(calls=calls), DONE, provider=provider)
    events = await rig.turn(decision=Decision("deny", text="not today"))
    assert end_of(events).outcome == "completed"
    assert sorted(event.ask.title for event in events if isinstance(event, Asked)) == ["read: /a", "read: /b"]
    assert unpaired(rig.model.requests[-1].body) == set()
    assert len({event.call.id for event in events if isinstance(event, ToolStarted)}) == 2


@pytest.mark.parametrize("id", ["functions.bash:0", "ü", "x" * 65])
async def test_an_id_that_other_providers_refuse_is_replaced(make_rig: MakeRig, id: str) -> None:
    command = Call("bash", {"command": "seq 1 20000"}, id=id)
    rig = make_rig(Reply(calls=[command]), DONE, provider="compatible")
    await rig.turn(approval_mode="full-access")
    request = rig.model.requests[-1]
    (use_id,) = [call["id"] for one in request.messages for call in one.get("tool_calls") or ()]
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", use_id)
    assert unpaired(request.body) == set()
    assert f"ref={use_id}" in request.results[0]
