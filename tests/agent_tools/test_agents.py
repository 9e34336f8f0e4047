"""Agents that ask agents of other workspaces: the way there and back, files, grants, limits, stops and restarts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
from tests.agent_tools.agent import Agent
from tests.runtime.puppet import PuppetEngine, Strings
from tests.runtime.rig import ADMIN, MAIN, MEMBER, Rig, open_rig

from pilothouse.bootstrap.files import read_file
from pilothouse.core.event import MediaProduced, TurnEnded
from pilothouse.core.ids import ConversationId
from pilothouse.core.message import Content
from pilothouse.core.policy import ApprovalMode
from pilothouse.core.store import NodeInfo, Tx
from pilothouse.runtime.agent_calls.caller import CallKeys
from pilothouse.runtime.conversations.binding import Wishes, keep_wishes
from pilothouse.runtime.conversations.exchange import exchange_place
from pilothouse.runtime.outbox import end_key, say, tool_key
from pilothouse.testing.policy import FixedPolicy

OTHER = ConversationId("memory:other")
Act = Callable[["Scene"], Awaitable[str]]


class Scene:
    """A turn of an agent: its prompt and files, and its tools."""

    def __init__(self, rig: Rig, strings: Strings, keys: CallKeys) -> None:
        self.strings = strings
        self.text = strings.prompt.text
        self.files = [file.name for file in strings.prompt.attachments]
        self.folder = Path(strings.brief.workspace).name
        self.call = Agent(rig, strings.brief.session_id, keys).call


class House:
    """A gateway with the workspaces `shop`, `docs` and `ops`. `play` decides by the workspace what a turn does."""

    def __init__(self) -> None:
        self.rig: Rig | None = None
        self.acts: dict[str, Act] = {}
        self.prompts: list[tuple[str, str]] = []
        self.told: list[str] = []
        self.errors: list[BaseException] = []
        self._keys = CallKeys()

    async def play(self, strings: Strings) -> None:
        assert self.rig is not None
        scene = Scene(self.rig, strings, self._keys)
        self.prompts.append((scene.folder, scene.text))
        await strings.start(strings.brief.session_id)
        try:
            answer = await self.acts[scene.folder](scene)
        except Exception as error:
            self.errors.append(error)
            raise
        await strings.end(answer)

    async def settled(self) -> None:
        assert self.rig is not None
        await self.rig.until_idle()
        assert not self.errors, self.errors

    async def until_prompted(self, folder: str, words: str) -> str:
        assert self.rig is not None
        found = await self.rig.until_true(
            lambda: [text for name, text in self.prompts if name == folder and words in text]
        )
        return found[-1]


@asynccontextmanager
async def open_house(tmp_path: Path, house: House, **settings: Any) -> AsyncIterator[Rig]:
    folders = {name: str((tmp_path / name).resolve()) for name in ("shop", "docs", "ops")}
    for folder in folders.values():
        Path(folder).mkdir(exist_ok=True)
    values: dict[str, Any] = {
        "workspaces": folders,
        "default_workspace": folders["shop"],
        "agents": {folders["shop"]: ("docs",), folders["docs"]: ("shop", "docs")},
    }
    async with open_rig(
        tmp_path, PuppetEngine(house.play), policy=FixedPolicy(), **(values | settings)
    ) as rig:
        rig.ports.read_file = read_file
        house.rig = rig
        yield rig
        if not rig.crashed:
            await house.settled()


def only_second_lives(info: NodeInfo) -> bool:
    return info.name == "second"


def exchange(tmp_path: Path, name: str = "docs", asking: ConversationId = MAIN) -> ConversationId:
    return exchange_place(asking, str((tmp_path / name).resolve()))


def ask_once(agent: str = "docs", **more: Any) -> Act:
    """Ask on the first message, and repeat what comes back."""

    async def act(scene: Scene) -> str:
        if "SYSTEM RESPONSE" in scene.text:
            return f"heard: {scene.text}"
        return await scene.call("send_to_agent", agentGroupId=agent, text="Where is the manual?", **more)

    return act


async def answer(scene: Scene) -> str:
    return "On page <7>."


async def test_an_agent_that_was_asked_manages_only_the_tasks_of_its_own_folder(tmp_path: Path) -> None:
    house, told = House(), list[str]()
    ask = ask_once()

    async def shop(scene: Scene) -> str:
        if "SYSTEM RESPONSE" not in scene.text:
            await scene.call("schedule_task", prompt="Open the shop", recurrence="@daily")
        return await ask(scene)

    async def docs(scene: Scene) -> str:
        told.append(await scene.call("schedule_task", prompt="Read the manual", recurrence="@daily"))
        theirs = await rig.store.read(lambda tx: [one.id for one in tx.schedules.of(MAIN)])
        told.append(await scene.call("list_tasks"))
        told.extend([await scene.call("update_task", taskId=id, prompt="Read it twice") for id in theirs])
        return "On page <7>."

    house.acts = {"shop": shop, "docs": docs}
    async with open_house(tmp_path, house) as rig:
        await rig.store.write(lambda tx: keep_wishes(tx, MAIN, Wishes(approval_mode="minimal")))
        await rig.channel.say("go")
        await rig.until_said("heard: ")
        await house.settled()
        found = await rig.store.read(lambda tx: tx.schedules.of(MAIN))
    assert "Read the manual" in told[1] and "Open the shop" not in told[1]
    assert [text.split()[0] for text in told[2:]] == ["refused:", "Changed"]
    assert [(one.prompt, Path(one.workspace).name, one.mode) for one in found] == [
        ("Open the shop", "shop", "minimal"),
        ("Read it twice", "docs", "minimal"),
    ]


async def test_the_answer_comes_back_to_the_session_that_asked(tmp_path: Path) -> None:
    house = House()
    house.acts = {"shop": ask_once(), "docs": answer}
    async with open_house(tmp_path, house) as rig:
        await rig.channel.say("go")
        await rig.until_said("heard: ")
        await house.settled()
        asked, follow_up = await rig.turns()
        (there,) = await rig.turns(exchange(tmp_path))
        assert (asked.cause, there.cause, follow_up.cause) == ("message", "agent", "system")
        assert follow_up.session_id == asked.session_id != there.session_id
        assert (
            '<agent id="1" from="shop"' in there.prompt.text and "Where is the manual?" in there.prompt.text
        )
        assert "[SYSTEM RESPONSE] Action: send_to_agent\nStatus: success" in follow_up.prompt.text
        assert f"(sessionId {there.session_id}) says:\nOn page &lt;7&gt;." in follow_up.prompt.text
        assert there.prompt.authors == follow_up.prompt.authors == asked.prompt.authors
        said = rig.said()
        assert "🤝 shop asks docs: Where is the manual?\n\nOn page <7>." in said
        assert any(text.startswith("↪ docs answered\n\nheard: ") for text in said)
        rows = {row.what: row for row in await rig.store.read(lambda tx: tx.audit.list(limit=100))}
        assert rows["agent.asked"].who == "engine:puppet"
        asked_of = msgspec.json.decode(rows["agent.asked"].detail)
        assert (asked_of["asker"], asked_of["agent"], asked_of["hops"]) == ("shop", "docs", 1)
        assert asked_of["root"] == asked.id and "agent.answered" in rows


async def test_files_travel_both_ways_and_images_only_with_the_request(tmp_path: Path) -> None:
    house, seen = House(), dict[str, list[str]]()
    paths = ["order.txt"]

    async def shop(scene: Scene) -> str:
        seen[f"shop {len(seen)}"] = scene.files
        return await ask_once(files=paths)(scene)

    async def docs(scene: Scene) -> str:
        seen["docs"] = scene.files
        kept = await rig.store.write(lambda tx: tx.blobs.attach(b"plan", "plan.png", "image/png", 1.0))
        await scene.strings.emit(MediaProduced(kept))
        return "Here."

    house.acts = {"shop": shop, "docs": docs}
    async with open_house(tmp_path, house) as rig:
        (tmp_path / "shop" / "order.txt").write_text("three screws")
        (tmp_path / "shop" / ".env").write_text("secret")
        await rig.channel.say("go")
        await house.until_prompted("shop", "SYSTEM RESPONSE")
        await house.settled()
        assert seen["docs"] == ["order.txt"]
        follow_up = (await rig.turns())[-1]
        assert [file.name for file in follow_up.prompt.attachments] == ["plan.png"] == seen["shop 2"]
        assert follow_up.prompt.is_text_only
        (there,) = await rig.turns(exchange(tmp_path))
        assert not there.prompt.is_text_only
        for bad in (["../docs/x"], [".env"], ["order.txt"] * 11):
            paths[:] = bad
            await rig.channel.say(f"go {bad[0]}")
            await rig.until_idle()
        assert len(await rig.turns(exchange(tmp_path))) == 1, "nothing was sent"


async def test_two_agents_do_not_talk_for_ever(tmp_path: Path) -> None:
    house = House()

    async def again(scene: Scene) -> str:
        other = "docs" if scene.folder == "shop" else "shop"
        return await scene.call("send_to_agent", agentGroupId=other, text=f"And now? {len(house.prompts)}")

    house.acts = {"shop": again, "docs": again}
    async with open_house(tmp_path, house, follow_up_depth=2, agent_hops=3, agent_messages=12) as rig:
        await rig.channel.say("go")
        await rig.until_said("The agent was not told yet")
        await house.settled()
        turns = await rig.store.read(lambda tx: tx.turns.of(limit=1000))
        chains = [turn.prompt.chain for turn in turns if turn.prompt.chain]
        assert max(chain.hops for chain in chains) == 3 and max(chain.depth for chain in chains) <= 2
        assert len(chains) <= 12
        assert {chain.root for chain in chains} == {(await rig.turns())[0].id}


async def test_a_follow_up_too_many_joins_the_next_message_of_a_person(tmp_path: Path) -> None:
    house = House()

    async def again(scene: Scene) -> str:
        if "continue" in scene.text:
            return "done"
        return await scene.call("send_to_agent", agentGroupId="docs", text=f"And now? {len(house.prompts)}")

    house.acts = {"shop": again, "docs": answer}
    async with open_house(tmp_path, house, follow_up_depth=2) as rig:
        await rig.channel.say("go")
        await rig.until_said(
            "↪ docs answered. The agent was not told yet: 2 follow-ups in a row are the most."
        )
        await house.settled()
        first, *follow_ups = await rig.turns()
        assert [turn.prompt.chain.depth for turn in follow_ups if turn.prompt.chain] == [1, 2]
        await rig.channel.say("continue")
        last = (await rig.until_ended(4))[-1]
        assert "SYSTEM RESPONSE" in last.prompt.text and last.cause == "message"
        assert last.prompt.chain is None, "a person begins a new count"
        assert last.session_id == first.session_id


async def test_one_turn_has_a_budget_of_messages(tmp_path: Path) -> None:
    house = House()

    async def many(scene: Scene) -> str:
        if "SYSTEM RESPONSE" in scene.text:
            return "enough"
        told = [await scene.call("send_to_agent", agentGroupId="docs", text=f"no. {n}") for n in range(5)]
        house.told += told
        return "asked"

    house.acts = {"shop": many, "docs": answer}
    async with open_house(tmp_path, house, agent_messages=3) as rig:
        await rig.channel.say("go")
        await rig.until(lambda tx: len(tx.turns.of(exchange(tmp_path), statuses=("done",))) == 3)
        assert [text.partition(" ")[0] for text in house.told] == ["Sent"] * 3 + ["refused:"] * 2
        assert "3 messages between agents and follow-ups are the most" in house.told[-1]
        await rig.until_said("The agent was not told yet: 3 messages between agents")
        await house.settled()


async def test_without_a_grant_people_of_the_other_workspace_are_asked(tmp_path: Path) -> None:
    house = House()
    house.acts = {"shop": ask_once("ops"), "ops": answer}
    async with open_house(tmp_path, house) as rig:
        await rig.channel.say("go", author=MEMBER)
        ask = await rig.until_asked("Let the agent of shop ask that of ops")
        assert "Where is the manual?" in ask.title
        assert not await rig.turns(exchange(tmp_path, "ops")), "nothing happened yet"
        assert not (await rig.channel.answer(ask, "allow", author=MEMBER)).accepted
        assert (await rig.channel.answer(ask, "allow", author=ADMIN)).accepted
        await house.until_prompted("shop", "Status: success")
        await house.settled()
        rows = await rig.store.read(lambda tx: tx.audit.list(limit=100))
        assert [row.who for row in rows if row.what == "agent.asked"] == [ADMIN.id]
        await rig.channel.say("go on", author=MEMBER)
        again = await rig.until_asked("Let the agent of shop ask that of ops")
        assert again.id != ask.id, "the yes was for one message"
        assert (await rig.channel.answer(again, "deny", author=ADMIN)).accepted
        await house.until_prompted("shop", "Status: refused\nResult: Not sent: a person said no.")
        assert len(await rig.turns(exchange(tmp_path, "ops"))) == 1


async def test_unknown_agents_sessions_and_empty_words_are_refused(tmp_path: Path) -> None:
    house = House()

    async def shop(scene: Scene) -> str:
        for given in (
            {"agentGroupId": "nobody", "text": "hi"},
            {"agentGroupId": "docs", "text": " "},
            {"agentGroupId": "docs", "text": "hi", "sessionId": scene.strings.brief.session_id},
            {"agentGroupId": "docs", "text": "hi", "sessionId": "session-unknown"},
            {"agentGroupId": "docs"},
        ):
            house.told.append(await scene.call("send_to_agent", **given))
        return "done"

    house.acts = {"shop": shop}
    async with open_house(tmp_path, house) as rig:
        await rig.channel.say("go")
        await rig.until_ended()
        assert all(text.startswith("refused: ") for text in house.told), house.told
        assert "There is no agent 'nobody'. Agents granted to this workspace: docs." in house.told[0]
        assert len(house.prompts) == 1


async def test_an_exchange_goes_on_in_its_session_or_in_a_named_one(tmp_path: Path) -> None:
    house, sessions = House(), list[str]()

    async def shop(scene: Scene) -> str:
        if "SYSTEM RESPONSE" in scene.text:
            return "noted"
        more = {"sessionId": sessions[0]} if "named" in scene.text else {}
        return await scene.call("send_to_agent", agentGroupId="docs", text=scene.text, **more)

    async def docs(scene: Scene) -> str:
        sessions.append(scene.strings.brief.session_id)
        return "ok"

    house.acts = {"shop": shop, "docs": docs}
    async with open_house(tmp_path, house) as rig:
        for count, words in enumerate(("first", "second", "named"), 1):
            await rig.channel.say(words)
            await rig.until_ended(2 * count)
        assert len(set(sessions)) == 1 and len(sessions) == 3
        await rig.channel.say("elsewhere", "other")
        await rig.until(lambda _tx: len(sessions) == 4)
        assert sessions[3] != sessions[0], "another conversation has a session of its own"


async def test_stop_ends_the_other_agent_and_starts_no_follow_up(tmp_path: Path) -> None:
    house = House()

    async def docs(scene: Scene) -> str:
        await scene.strings.interrupted.wait()
        await scene.strings.emit(TurnEnded("cancelled"))
        await anyio.sleep_forever()
        return "never"

    house.acts = {"shop": ask_once(), "docs": docs}
    async with open_house(tmp_path, house) as rig:
        await rig.channel.say("go")
        await rig.until_ended()
        await rig.until_live(exchange(tmp_path))
        await rig.channel.say("/stop")
        await rig.until_said("Stopping what another agent was asked to do: docs")
        await rig.until_ended(1, exchange(tmp_path))
        await house.settled()
        assert len(await rig.turns()) == 1
        await rig.channel.say("and?")
        assert "Status: cancelled" in await house.until_prompted("shop", "and?")


async def test_a_repeated_call_asks_once_and_a_killed_gateway_loses_no_answer(tmp_path: Path) -> None:
    house, second = House(), House()

    async def shop(scene: Scene) -> str:
        if "SYSTEM RESPONSE" in scene.text:
            return f"heard: {scene.text}"
        call = {"agentGroupId": "docs", "text": "Where?"}
        house.told += [await scene.call("send_to_agent", use_id="one", **call) for _ in range(2)]
        return "asked"

    async def docs(scene: Scene) -> str:
        await anyio.sleep_forever()
        return "never"

    house.acts = {"shop": shop, "docs": docs}
    second.acts = {"shop": shop, "docs": answer}
    async with open_house(tmp_path, house) as rig:
        await rig.channel.say("go")
        await rig.until_ended()
        await rig.until_live(exchange(tmp_path))
        rig.crash()
    async with open_house(tmp_path, second, name="second", alive=only_second_lives) as rig:
        await rig.until_said("heard: ")
        await second.settled()
        assert [turn.status for turn in await rig.turns(exchange(tmp_path))] == ["done"]
        assert len(await rig.turns()) == 2
    assert house.told[0] == house.told[1] and house.told[0].startswith("Sent to docs.")


async def test_work_that_was_passed_on_never_gets_a_wider_mode(tmp_path: Path) -> None:
    house = House()
    house.acts = {"shop": ask_once(), "docs": answer}
    async with open_house(tmp_path, house, mode_in=trusted) as rig:
        await rig.store.write(narrow)
        await rig.channel.say("go")
        await rig.until_said("heard: ")
        assert [brief.approval_mode for brief in rig.engine.briefs] == ["minimal"] * 3


def trusted(folder: str) -> ApprovalMode:
    return "trusted"


def narrow(tx: Tx) -> None:
    keep_wishes(tx, MAIN, Wishes(approval_mode="minimal"))


async def test_a_failed_turn_of_the_other_agent_is_an_answer_too(tmp_path: Path) -> None:
    house = House()

    async def docs(scene: Scene) -> str:
        await scene.strings.fail("bad_request", "The disk is full.")
        await anyio.sleep_forever()
        return "never"

    house.acts = {"shop": ask_once(), "docs": docs}
    async with open_house(tmp_path, house) as rig:
        await rig.channel.say("go")
        text = await house.until_prompted("shop", "Status: failed")
        assert "The disk is full." in text
        await rig.until_said("↪ docs did not answer")


async def test_a_message_that_fails_after_its_turn_starts_a_follow_up_with_its_cause(tmp_path: Path) -> None:
    house = House()
    house.acts = {"shop": answer}
    async with open_house(tmp_path, house) as rig:
        await rig.channel.say("go")
        (turn,) = await rig.until_ended()
        await house.settled()
        await rig.channel.say("hello", "other")
        await rig.until_ended(1, OTHER)
        await house.settled()
        rig.channel.rejected = "the chat is closed"
        content = Content("To the team.", "notice", turn_id=turn.id)
        key = tool_key(turn.id, "send_message", "0", 1)
        await rig.store.write(lambda tx: say(tx, rig.ports.ids, OTHER, content, key=key, at=1.0))
        rig.poke()
        text = await house.until_prompted("shop", "Action: send_message\nStatus: failed")
        rig.channel.rejected = ""
        assert "the chat is closed" in text
        follow_up = (await rig.until_ended(2))[-1]
        assert (follow_up.cause, follow_up.session_id) == ("system", turn.session_id)
        assert follow_up.prompt.chain is not None and follow_up.prompt.chain.depth == 1
        await rig.until(lambda tx: tx.outbox.by_key(end_key(follow_up.id)))
        ended = await rig.store.read(lambda tx: tx.outbox.by_key(end_key(follow_up.id)))
        assert ended is not None and b"\xe2\x86\xaa not delivered: To the team." in bytes(ended.body)


async def test_a_follow_up_leaves_the_conversation_in_its_new_session(tmp_path: Path) -> None:
    house, free = House(), anyio.Event()

    async def docs(scene: Scene) -> str:
        await free.wait()
        return "Late."

    house.acts = {"shop": ask_once(), "docs": docs}
    async with open_house(tmp_path, house) as rig:
        await rig.channel.say("go")
        (first,) = await rig.until_ended()
        await rig.until_live(exchange(tmp_path))
        await rig.channel.say("/new")
        await rig.until_said("Your next message starts a new session.")
        free.set()
        follow_up = (await rig.until_ended(2))[-1]
        assert follow_up.session_id == first.session_id, "the session that asked hears it"
        await house.settled()
        place = await rig.store.read(lambda tx: tx.conversations.get(MAIN))
        assert place is not None and place.session_id is None, "people keep the new one"
