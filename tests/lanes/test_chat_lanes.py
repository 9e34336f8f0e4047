"""`/lanes` in a chat with threads: a real repository, and a lane that is a conversation of its own."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from tests.lanes.repository import git, make_repository
from tests.runtime.puppet import PuppetEngine, Strings, until_interrupted
from tests.runtime.rig import MEMBER, Rig, open_rig

from pilothouse.bootstrap.lanes import LaneHost
from pilothouse.channels.memory import PERSON, MemoryChannel
from pilothouse.core.channel import Receipt
from pilothouse.core.errors import NoThreads, Rejected
from pilothouse.core.ids import ConversationId
from pilothouse.core.lane import Lane, LaneDesk, LaneError, NewLane
from pilothouse.core.message import Address, Author
from pilothouse.core.people import People
from pilothouse.runtime.outbox import content_of
from pilothouse.runtime.ports import OUTBOX

pytestmark = pytest.mark.anyio
PEOPLE = People({PERSON.id: "owner", MEMBER.id: "member"})


@asynccontextmanager
async def open_lanes(
    folder: Path,
    engine: PuppetEngine | None = None,
    channel: MemoryChannel | None = None,
    threads: str = "own",
) -> AsyncIterator[Rig]:
    repository = str(make_repository(folder / "repo"))
    async with open_rig(
        folder, engine, channel, default_workspace=repository, people=PEOPLE, threads=threads
    ) as rig:
        rig.ports.lanes = LaneHost(folder / "data", rig.store.read, rig.store.write)
        yield rig


async def reply(rig: Rig, line: str, *, by: Author = PERSON) -> str:
    receipt: Receipt = await rig.channel.say(line, "group", author=by, private=False)
    row = await rig.until(lambda tx: tx.outbox.by_key(f"reply:{receipt.message_id}"))
    return content_of(row).text


@pytest.mark.parametrize("threads", ["own", "shared"])
async def test_a_lane_is_a_thread_that_works_in_its_worktree_and_gets_its_task_once(
    tmp_path: Path, threads: str
) -> None:
    async with open_lanes(tmp_path, threads=threads) as rig:
        assert "No lanes" in await reply(rig, "/lanes")
        told = await reply(rig, "/lanes create Fix the parser")
        (lane,) = await rig.ports.lanes.all()
        assert told.startswith(f"Lane {lane.id} works in a thread") and f"cd {lane.worktree}" in told
        await rig.until_ended(1, ConversationId(lane.conversation))
        (brief,) = rig.engine.briefs
        assert brief.workspace == lane.worktree and not brief.trusted
        assert git(Path(lane.worktree), "branch", "--show-current") == lane.branch
        (turn,) = await rig.store.read(lambda tx: tx.turns.of(ConversationId(lane.conversation)))
        assert turn.prompt.text.count("Fix the parser") == 1
        assert f"{lane.id} finished: Fix the parser" in await reply(rig, "/lanes")
        await rig.channel.say("here", "group", private=False)
        await rig.until(lambda tx: len(tx.turns.of(statuses=("done",))) == 2)
        assert rig.engine.briefs[1].workspace == str(tmp_path / "repo")
        assert rig.engine.briefs[1].session_id != brief.session_id


async def test_only_the_word_force_closes_a_lane_that_runs_or_is_dirty_and_its_thread_goes_back(
    tmp_path: Path,
) -> None:
    async with open_lanes(tmp_path, PuppetEngine(until_interrupted)) as rig:
        await reply(rig, "/lanes create Work")
        (lane,) = await rig.ports.lanes.all()
        place = ConversationId(lane.conversation)
        await rig.until_live(place)
        refused = await reply(rig, f"/lanes close {lane.id}")
        assert f"is running. To end it: /lanes close {lane.id} force" in refused
        turn = await rig.store.read(lambda tx: tx.turns.live_in(place))
        assert turn is not None
        await rig.channel.say("/stop", "group", thread=thread_of(lane.conversation), private=False)
        await rig.until_ended(1, place)
        Path(lane.worktree, "new.txt").write_text("x")
        assert "not committed" in await reply(rig, f"/lanes close {lane.id}")
        assert f"on the branch {lane.branch}" in await reply(rig, f"/lanes close {lane.id} force")
        assert not Path(lane.worktree).exists() and not await rig.ports.lanes.all()
        conversation = await rig.store.read(lambda tx: tx.conversations.get(place))
        assert conversation is not None and conversation.workspace is None


async def test_one_lane_is_shown_and_those_that_ended_long_ago_are_closed(tmp_path: Path) -> None:
    async with open_lanes(tmp_path) as rig:
        assert "No lane ended" in await reply(rig, "/lanes gc")
        for task in ("One", "Two"):
            await reply(rig, f"/lanes create {task}")
        one, two = await rig.ports.lanes.all()
        for lane in (one, two):
            await rig.until_ended(1, ConversationId(lane.conversation))
        shown = await reply(rig, f"/lanes status {two.id}", by=MEMBER)
        assert f"{two.id} finished: Two" in shown and one.id not in shown
        assert "There is no lane 'none'" in await reply(rig, "/lanes status none")
        assert "Only an admin" in await reply(rig, "/lanes gc", by=MEMBER)
        assert "No lane ended" in await reply(rig, "/lanes gc"), "they ended just now"
        rig.ports.lanes = LaneHost(
            tmp_path / "data", rig.store.read, rig.store.write, now=lambda: time.time() + 25 * 3600
        )
        told = await reply(rig, "/lanes gc")
        assert told.count("is closed") == 2 and one.id in told
        assert not await rig.ports.lanes.all()


async def test_a_thread_works_in_its_parents_folder_also_when_its_lane_was_closed_elsewhere(
    tmp_path: Path,
) -> None:
    async with open_lanes(tmp_path) as rig:
        for number, close in enumerate((close_by_tool, collect_by_tool), 1):
            await reply(rig, f"/lanes create Work {number}")
            (lane,) = await rig.ports.lanes.all()
            place = ConversationId(lane.conversation)
            await rig.until_ended(1, place)
            await close(rig.ports.lanes, lane.id)
            assert not Path(lane.worktree).exists() and not await rig.ports.lanes.all()
            rig.ports.signals.poke(OUTBOX)  # as the turn does that has the tool
            await rig.until_said(f"Lane {lane.id} is closed.")
            await rig.channel.say("go on", "group", thread=thread_of(lane.conversation), private=False)
            await rig.until_ended(2, place)
            assert rig.engine.briefs[-1].workspace == str(tmp_path / "repo")


async def close_by_tool(lanes: LaneDesk, id: str) -> None:
    await lanes.close(id)


async def collect_by_tool(lanes: LaneDesk, id: str) -> None:
    assert [lane.id for lane in await lanes.collect(0)] == [id]


async def test_a_thread_that_was_bound_elsewhere_stays_there(tmp_path: Path) -> None:
    async with open_lanes(tmp_path) as rig:
        await reply(rig, "/lanes create Work")
        (lane,) = await rig.ports.lanes.all()
        place = ConversationId(lane.conversation)
        await rig.until_ended(1, place)
        thread = await rig.store.read(lambda tx: tx.conversations.get(place))
        assert thread is not None
        elsewhere = msgspec.structs.replace(thread, workspace="/elsewhere")
        await rig.store.write(lambda tx: tx.conversations.save(elsewhere))
        await rig.ports.lanes.close(lane.id)
        rig.ports.signals.poke(OUTBOX)
        assert await rig.store.read(lambda tx: tx.conversations.get(place)) == elsewhere


def thread_of(conversation: str) -> str:
    return conversation.rpartition("#")[2]


class Refusing(MemoryChannel):
    def __init__(self, error: Rejected) -> None:
        super().__init__()
        self._error = error

    # pyrefly: ignore [missing-override-decorator]
    async def open_thread(self, address: Address, name: str) -> Address:
        raise self._error


async def test_without_a_thread_nothing_is_left_and_bad_words_are_explained(tmp_path: Path) -> None:
    async with open_lanes(tmp_path, channel=Refusing(Rejected("threads are off"))) as rig:
        assert "threads are off" in await reply(rig, "/lanes create Work")
        assert not await rig.ports.lanes.all()
        assert len(git(tmp_path / "repo", "worktree", "list").splitlines()) == 1
        assert "There is no lane 'x'" in await reply(rig, "/lanes close x")
        for line in ("/lanes create", "/lanes what", "/lanes close x y"):
            assert "/lanes create TASK starts one" in await reply(rig, line)
        assert "No lanes" in await reply(rig, "/lanes", by=MEMBER)
        assert "Only an admin may" in await reply(rig, "/lanes create Work", by=MEMBER)


class Tmux(LaneHost):
    """Makes the worktree without a chat; or fails as without tmux."""

    error = ""

    # pyrefly: ignore [missing-override-decorator]
    async def create_here(self, wish: NewLane) -> Lane:
        if self.error:
            raise LaneError(self.error)
        return self.join(await self.add(msgspec.structs.replace(wish, backend="chat")), "")


class WithoutTmux(Tmux):
    error = "tmux was not found."


async def test_in_a_chat_that_has_no_threads_the_lane_is_a_chat_in_tmux(tmp_path: Path) -> None:
    async with open_lanes(tmp_path, channel=Refusing(NoThreads("this chat has no topics."))) as rig:
        rig.ports.lanes = Tmux(tmp_path / "data", rig.store.read, rig.store.write)
        told = await reply(rig, "/lanes create Work")
        (lane,) = await rig.ports.lanes.all()
        assert told.startswith(f"Lane {lane.id} works on ")
        worktrees = git(tmp_path / "repo", "worktree", "list").splitlines()
        assert len(worktrees) == 2, "the repository's own, and the lane's"


async def test_in_a_chat_that_has_no_threads_and_without_tmux_both_reasons_are_told(tmp_path: Path) -> None:
    async with open_lanes(tmp_path, channel=Refusing(NoThreads("this chat has no topics."))) as rig:
        rig.ports.lanes = WithoutTmux(tmp_path / "data", rig.store.read, rig.store.write)
        told = await reply(rig, "/lanes create Work")
        assert "this chat has no topics." in told and "tmux was not found." in told
        assert not await rig.ports.lanes.all()
        assert len(git(tmp_path / "repo", "worktree", "list").splitlines()) == 1


async def test_a_folder_without_a_repository_is_a_clear_error(tmp_path: Path) -> None:
    async def play(strings: Strings) -> None:
        await strings.start()
        await strings.end()

    empty = tmp_path / "empty"
    empty.mkdir()
    async with open_rig(tmp_path, PuppetEngine(play), default_workspace=str(empty)) as rig:
        rig.ports.lanes = LaneHost(tmp_path / "data", rig.store.read, rig.store.write)
        assert "is in no git repository" in await reply(rig, "/lanes create Work")
        git(empty, "init", "-q")
        assert "has no commits yet" in await reply(rig, "/lanes create Work")
