"""The real CLI under a whole gateway, with people of every role: whose words command it, and turns that it begins."""

from __future__ import annotations

import shutil
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.engines.claude.api import (
    Reply,
    Request,
    ScriptedApi,
    bash,
    call,
    in_order,
    open_api,
    say,
    wait_for,
)
from tests.engines.claude.rig import Rig
from tests.runtime.rig import MAIN, MEMBER, only_alive, open_rig
from tests.runtime.rig import Rig as HouseRig

from pilothouse.core.event import Notice, PromptAdded
from pilothouse.core.ids import EngineId

pytestmark = pytest.mark.slow

CLAUDE = EngineId("claude")
WITHIN_S = 100.0


@asynccontextmanager
async def house(
    folder: Path, api: ScriptedApi, name: str = "test", **config: Any
) -> AsyncIterator[tuple[HouseRig, Rig]]:
    rig = Rig(folder, api)
    rig.more = config.pop("more", {})
    settings: dict[str, Any] = config.pop("settings", {})
    engine = rig.engine(**config)
    async with open_rig(
        folder,
        name=name,
        alive=only_alive(name),
        engines={CLAUDE: engine},
        default_engine=CLAUDE,
        default_workspace=str(rig.workspace),
        engine_names={"claude": CLAUDE},
        **settings,
    ) as gateway:
        yield gateway, rig


async def test_an_owners_files_and_commands_work_and_a_members_are_words(tmp_path: Path) -> None:
    go_on = threading.Event()
    with open_api(say("I see")) as api:
        async with house(tmp_path, api, owner_commands=True, settings={"engine_commands": True}) as (
            gateway,
            rig,
        ):
            (rig.workspace / "inside.txt").write_text("xyzzy-inside")
            await gateway.channel.say("look at @inside.txt", author=MEMBER)
            await gateway.until_ended(1)
            assert "xyzzy" not in api.main[-1].text
            await gateway.channel.say("look at @inside.txt")
            await gateway.until_ended(2)
            assert "xyzzy-inside" in api.main[-1].text
            asked = len(api.main)
            await gateway.channel.say("/clear", author=MEMBER)
            await gateway.until_said("There is no command /clear")
            await gateway.channel.say("/help")
            await gateway.until_said("Commands of claude\n")
            await gateway.channel.say("/clear")
            await gateway.until_ended(3)
            assert len(api.main) == asked, "the model heard of neither"
            await gateway.channel.say("what do you remember?")
            await gateway.until_ended(4)
            assert "xyzzy-inside" not in api.main[-1].text, "it was cleared"
            assert "what do you remember?" in api.main[-1].text

            api.script = in_order(Reply([{"text": "hm"}, wait_for(go_on)]), say("I see"))
            asked = len(api.main)
            await gateway.channel.say("first")
            await gateway.until_true(lambda: len(api.main) > asked, WITHIN_S)
            await gateway.channel.say("look at @inside.txt", author=MEMBER)
            await gateway.channel.say("and at @inside.txt")
            go_on.set()
            await gateway.until_ended(6)
        assert "and at @inside.txt" in api.main[-1].text
        assert "xyzzy" not in api.main[-1].text, "words of both together command nothing"


async def test_without_the_setting_an_owners_words_are_words(tmp_path: Path) -> None:
    with open_api(say("I see")) as api:
        async with house(tmp_path, api, settings={"engine_commands": True}) as (gateway, rig):
            (rig.workspace / "inside.txt").write_text("xyzzy-inside")
            for number, text in enumerate(("look at @inside.txt", "/clear"), 1):
                await gateway.channel.say(text)
                await gateway.until_ended(number)
        assert "xyzzy" not in api.main[-1].text
        assert "/clear" in api.main[-1].prompt


async def test_a_session_of_another_machine_is_given_up_aloud_and_a_new_one_begins(tmp_path: Path) -> None:
    """A store that was copied: its tokens mean nothing to the Claude of this machine."""
    with open_api(say("hello")) as api:
        async with house(tmp_path, api, pool=False) as (gateway, rig):
            await gateway.channel.say("first")
            old = (await gateway.until_ended(1))[0]
            shutil.rmtree(rig.home / ".claude" / "projects")
            await gateway.channel.say("second")
            new = (await gateway.until_ended(2))[1]
            notice = await gateway.until_said("could not be resumed")
    assert (new.status, new.answer) == ("done", "hello")
    assert new.session_id != old.session_id
    assert "new" in notice
    assert "first" in api.main[-1].text, "a recap tells what was said"
    assert rig.leftovers() == []


def in_background(command: str) -> Reply:
    return call("Bash", command=command, description="the job", run_in_background=True)


WAKING: dict[str, Any] = {
    "background_tasks": True,
    "tools": ["Bash", "Read"],
    "settings": {"mode_in": lambda workspace: "full-access"},
}


@pytest.mark.parametrize("config", [{}, {"pool": False}], ids=["kept", "for-one-turn"])
async def test_the_end_of_a_background_task_is_a_turn_that_people_see(
    tmp_path: Path, config: dict[str, Any]
) -> None:
    with open_api(in_background("echo; sleep 1"), say("started it"), say("the job is done")) as api:
        async with house(tmp_path, api, **WAKING, **config) as (gateway, rig):
            await gateway.channel.say("go")
            await gateway.until_said("the job is done", WITHIN_S)
            first, second = await gateway.until_ended(2)
            assert [first.cause, second.cause] == ["message", "wake"]
            assert (second.status, second.answer) == ("done", "the job is done")
            assert second.session_id == first.session_id
            assert second.usage is not None and second.usage.cost_usd
            logged = await gateway.store.read(lambda tx: [row.event for row in tx.events.of_turn(second.id)])
            rows = await gateway.store.read(lambda tx: tx.inbox.of_turn(second.id))
            await gateway.until_idle()
            assert [text for text in gateway.said() if "job is done" in text] == ["the job is done"]
            await gateway.channel.say("thanks")
            await gateway.until_ended(3)
        assert len(api.main) == 4
        assert [name for name, _ in rig.logged].count("process.started") <= (2 if config else 1)
    assert [(row.kind, row.status) for row in rows] == [("wake", "done")]
    assert PromptAdded("A background task ended.", "claude") in logged
    assert any(isinstance(event, Notice) and "the job" in event.text for event in logged)
    assert rig.leftovers() == []


async def test_what_a_woken_turn_asks_is_asked_of_people(tmp_path: Path) -> None:
    replies = (in_background("nice sleep 1"), say("started it"), bash("touch made.txt"), say("and made it"))
    with open_api(*replies) as api:
        async with house(tmp_path, api, background_tasks=True, tools=["Bash"]) as (gateway, rig):
            await gateway.channel.say("go")
            ask = await gateway.until_asked("sleep")
            await gateway.channel.answer(ask, "allow")
            ask = await gateway.until_asked("touch")
            assert not (rig.workspace / "made.txt").exists()
            await gateway.channel.answer(ask, "allow")
            await gateway.until_said("and made it", WITHIN_S)
            turns = await gateway.until_ended(2)
        assert [turn.cause for turn in turns] == ["message", "wake"]
        assert (rig.workspace / "made.txt").exists()


async def test_a_message_that_meets_a_woken_turn_is_answered_and_a_wake_whose_gateway_died_is_told(
    tmp_path: Path,
) -> None:
    """The CLI's own turn stands still in its middle when the person's message arrives, and when the gateway dies."""
    met, asked = threading.Event(), threading.Event()

    def model(request: Request) -> Reply:
        if "hello there" in request.text:
            return say("hello to you")
        if "task-notification" in request.text:
            return Reply([{"text": "the job is done"}, wait_for(met)])
        return say("started it") if request.tool_results else in_background("echo; sleep 1")

    with ScriptedApi(model).serving() as api:
        async with house(tmp_path, api, **WAKING) as (gateway, _):
            await gateway.channel.say("go")
            await gateway.until_true(
                lambda: "task-notification" in api.main[-1].text if api.main else False, WITHIN_S
            )
            await gateway.channel.say("hello there")
            await anyio.sleep(0.2)
            met.set()
            await gateway.until_said("hello to you", WITHIN_S)
            await gateway.until_idle()
            told = "\n".join(gateway.said())
            assert told.count("the job is done") == 1
            assert told.count("hello to you") == 1
            before = await gateway.turns()
            assert all(turn.status == "done" for turn in before)

            api.script = in_order(in_background("echo; sleep 1"), say("started it"), Reply([wait_for(asked)]))
            await gateway.channel.say("once more")
            await gateway.until(
                lambda tx: (
                    tx.turns.of(MAIN, statuses=("running",)) and len(tx.turns.of(MAIN)) == len(before) + 2
                ),
                WITHIN_S,
            )
            gateway.crash()
        calls = len(api.main)
        async with house(tmp_path, api, name="next", **WAKING) as (gateway, rig):
            await gateway.until_said("worked by itself", WITHIN_S)
            turns = await gateway.turns()
            await gateway.until_idle()
        assert [turn.status for turn in turns[len(before) :]] == ["done", "failed"]
        assert len(api.main) == calls, "it is not run again: no model was asked"
        asked.set()
    assert rig.leftovers() == []
