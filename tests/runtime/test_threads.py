"""Threads: conversations of their own that work as their place works, and `/topic`, which opens one."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.runtime.puppet import PUPPET, PuppetEngine
from tests.runtime.rig import MEMBER, Rig, open_rig

from pilothouse.channels.memory import PERSON, MemoryChannel
from pilothouse.core.channel import CanOpenThread
from pilothouse.core.errors import Rejected, TryLater
from pilothouse.core.ids import ChannelId, ConversationId, EngineId
from pilothouse.core.message import Address, Author, Content, MessageRef, Part, conversation_id, parent_id
from pilothouse.core.people import People
from pilothouse.runtime.outbox import content_of

pytestmark = pytest.mark.anyio

OTHER = EngineId("other")


def folders(base: Path, *names: str) -> dict[str, str]:
    for name in names:
        (base / name).mkdir()
    return {name: str(base / name) for name in names}


async def reply(rig: Rig, line: str, *, by: Author = PERSON, thread: str | None = None) -> str:
    receipt = await rig.channel.say(line, "group", author=by, thread=thread, private=False)
    row = await rig.until(lambda tx: tx.outbox.by_key(f"reply:{receipt.message_id}"))
    return content_of(row).text


async def work(rig: Rig, thread: str | None, *, by: Author = PERSON) -> None:
    """Something is said there, and done."""
    ended = len(await rig.store.read(lambda tx: tx.turns.of(statuses=("done",))))
    await rig.channel.say("work", "group", author=by, thread=thread, private=False)
    await rig.until(lambda tx: len(tx.turns.of(statuses=("done",))) > ended)


@pytest.mark.parametrize("place", ["a", "a#b", "a%23", "-100"])
def test_a_thread_knows_its_parent_by_its_id(place: str) -> None:
    parent = Address(ChannelId("memory"), place)
    thread = Address(ChannelId("memory"), place, "7#8")
    assert parent_id(conversation_id(thread)) == conversation_id(parent)
    assert parent_id(conversation_id(parent)) is None


async def test_a_thread_works_where_its_place_works_until_it_is_bound_itself(tmp_path: Path) -> None:
    async with open_rig(tmp_path, workspaces=folders(tmp_path, "api", "web")) as rig:
        await reply(rig, "/bind api")
        await reply(rig, "/model small")
        await work(rig, "7")
        assert "/api" in await reply(rig, "/bind", thread="7")
        await reply(rig, "/bind web", thread="7")
        await work(rig, "7")
        await work(rig, "8")
        briefs = [(Path(brief.workspace).name, brief.model) for brief in rig.engine.briefs]
        assert briefs == [("api", "small"), ("web", "small"), ("api", "small")]


async def test_a_thread_has_a_session_of_its_own(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        for thread in (None, "7", "8"):
            await work(rig, thread)
        sessions = await rig.store.read(lambda tx: tx.sessions.of())
        assert len({session.id for session in sessions}) == 3


async def test_a_model_of_another_engine_is_not_inherited(tmp_path: Path) -> None:
    names = {"puppet": PUPPET, "other": OTHER}
    engines = {PUPPET: PuppetEngine(), OTHER: PuppetEngine()}
    async with open_rig(tmp_path, engines=engines, engine_names=names) as rig:
        await reply(rig, "/model small")
        await reply(rig, "/engine other", thread="7")
        await work(rig, "7")
        assert [brief.model for brief in engines[OTHER].briefs] == [None]


async def test_a_role_in_the_places_workspace_holds_in_a_thread_that_nobody_wrote_in(tmp_path: Path) -> None:
    named = folders(tmp_path, "api")
    people = People({PERSON.id: "owner"}, {named["api"]: {MEMBER.id: "member"}})
    async with open_rig(tmp_path, workspaces=named, people=people) as rig:
        await reply(rig, "/bind api")
        await work(rig, "7", by=MEMBER)
        here = conversation_id(rig.channel.address("group", "8"))
        assert await rig.gateway.desk.query("last_seq", MEMBER, conversation=here) == 0


@pytest.mark.parametrize("word", ["topic", "thread", "Topic"])
async def test_a_topic_is_opened_and_says_where_it_works(tmp_path: Path, word: str) -> None:
    async with open_rig(tmp_path, workspaces=folders(tmp_path, "api")) as rig:
        await reply(rig, "/bind api")
        assert await reply(rig, f"/{word}  the  plan", by=MEMBER) == "Opened: the plan"
        first = await rig.until_said("a separate conversation")
        assert str(tmp_path / "api") in first
        posted = next(posted for posted in rig.channel.sent if posted.text == first)
        assert posted.ref.address == rig.channel.address("group", "the plan")


async def test_a_command_that_comes_twice_opens_one_topic(tmp_path: Path) -> None:
    channel = Counting()
    channel.twice = True
    async with open_rig(tmp_path, channel=channel) as rig:
        await reply(rig, "/topic plan")
        assert channel.opened == ["plan"]


async def test_a_stranger_opens_nothing(tmp_path: Path) -> None:
    channel = Counting()
    async with open_rig(tmp_path, channel=channel, people=People({PERSON.id: "owner"})) as rig:
        await rig.channel.say("/topic plan", "group", author=MEMBER, private=False)
        await reply(rig, "/help")
        assert channel.opened == []


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (Rejected("this chat has no topics."), "this chat has no topics."),
        (TryLater(7.0, "a pause"), "Try again in 7 s"),
        (RuntimeError("bug"), "Check whether it exists"),
    ],
)
async def test_where_it_is_not_possible_people_are_told_why(
    tmp_path: Path, error: Exception, words: str
) -> None:
    async with open_rig(tmp_path, channel=Counting(error)) as rig:
        assert words in await reply(rig, "/topic plan")
        assert await rig.store.read(lambda tx: len(tx.conversations.list())) == 1


@pytest.mark.parametrize(("name", "words"), [("", "/topic NAME"), ("x" * 101, "at most 100")])
async def test_a_name_that_is_none_opens_nothing(tmp_path: Path, name: str, words: str) -> None:
    channel = Counting()
    async with open_rig(tmp_path, channel=channel) as rig:
        assert words in await reply(rig, f"/topic {name}")
        assert channel.opened == []


async def test_a_channel_without_threads_says_so(tmp_path: Path) -> None:
    channel = Flat()
    assert not isinstance(channel, CanOpenThread)
    async with open_rig(tmp_path, channels={channel.id: channel}, known_channels=(channel.id,)) as rig:
        address = Address(channel.id, "group")
        await rig.gateway.desk.command(address, PERSON, "/topic plan", "1")
        await rig.until_true(lambda: channel.said)
        assert channel.said[0].endswith(" has no topics or threads. /new starts a new session here.")
        places = await rig.store.read(lambda tx: tx.conversations.list())
        assert [place.id for place in places] == [ConversationId("flat:group")]


class Counting(MemoryChannel):
    """Writes down what it opened; or raises instead."""

    def __init__(self, error: Exception | None = None) -> None:
        super().__init__()
        self.opened: list[str] = []
        self._error = error

    # pyrefly: ignore [missing-override-decorator]
    async def open_thread(self, address: Address, name: str) -> Address:
        if self._error is not None:
            raise self._error
        self.opened.append(name)
        return await super().open_thread(address, name)


class Flat:
    """A channel that can do nothing but talk."""

    id = ChannelId("flat")

    def __init__(self) -> None:
        self.said: list[str] = []

    async def run(self, desk: object) -> None:
        return

    def render(self, content: Content) -> tuple[Part, ...]:
        return (Part(content.text),)

    async def send(self, address: Address, part: Part) -> MessageRef:
        self.said.append(part.text)
        return MessageRef(address, str(len(self.said)))


async def test_threads_go_on_in_the_session_of_their_place_where_they_share_it(tmp_path: Path) -> None:
    async with open_rig(tmp_path, threads="shared", workspaces=folders(tmp_path, "web")) as rig:
        for thread in ("7", None, "8"):
            await work(rig, thread)
        await reply(rig, "/bind web", thread="9")
        await work(rig, "9")
        await reply(rig, "/new", thread="7")
        for thread in (None, "8"):
            await work(rig, thread)
        sessions = [brief.session_id for brief in rig.engine.briefs]
    assert len(set(sessions[:3])) == 1
    assert sessions[3] not in sessions[:3], "what is bound to something of its own shares nothing"
    assert len(set(sessions[4:])) == 1
    assert sessions[4] not in sessions[:4], "who begins anew does so for all of them"


async def test_two_threads_that_share_a_session_take_turns(tmp_path: Path) -> None:
    async with open_rig(tmp_path, threads="shared") as rig:
        for thread in ("7", "8"):
            await rig.channel.say("work", "group", author=PERSON, thread=thread, private=False)
        done = await rig.until(lambda tx: both if len(both := tx.turns.of(statuses=("done",))) == 2 else None)
    assert {turn.conversation_id for turn in done} == {
        ConversationId("memory:group#7"),
        ConversationId("memory:group#8"),
    }
    assert len({turn.session_id for turn in done}) == 1
