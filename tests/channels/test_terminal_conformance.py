"""The terminal keeps what every channel must, and nothing of one conversation shows in another."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace
from tests.channels.terminal_rig import Edges
from tests.channels.terminal_scene import make_channel

from pilothouse.channels.terminal import CHANNEL
from pilothouse.channels.terminal.config import Interactive
from pilothouse.channels.terminal.receive import make_identity
from pilothouse.core.channel import HoldsPlaces
from pilothouse.core.clock import Clock
from pilothouse.core.errors import Rejected, TryLater
from pilothouse.core.event import SessionStarted, TurnEnded
from pilothouse.core.ids import ConversationId, TurnId
from pilothouse.core.message import Address, Content, Part
from pilothouse.testing.channel import ChannelConformance, ChannelRig, check_spec
from pilothouse.testing.clock import FakeClock
from pilothouse.testing.desk import ScriptedDesk


class TerminalRig:
    redelivers = False

    def __init__(self, state_dir: Path, clock: Clock | None = None) -> None:
        read, self._write = os.pipe()
        self._stdin = os.fdopen(read)
        self._edges = Edges(dumb=True, together=True)
        streams = replace(self._edges.streams, stdin=self._stdin)
        self.channel = make_channel(state_dir, Interactive(), streams, clock)
        self.address = self.channel.address

    def hang_up(self) -> None:
        os.close(self._write)
        self._write = -1

    async def arrive(self, event_id: str, text: str) -> None:
        os.write(self._write, f"{text}\n".encode())

    def seen(self) -> str:
        return self._edges.stdout.getvalue()

    def close(self) -> None:
        if self._write >= 0:
            os.close(self._write)
        self._stdin.close()
        self._edges.close()


class TestTerminal(ChannelConformance):
    @pytest.fixture
    def rig(self, tmp_path: Path) -> Iterator[ChannelRig]:
        rig = TerminalRig(tmp_path)
        yield rig
        rig.close()


def test_its_spec_is_sound() -> None:
    check_spec(CHANNEL)


def test_it_holds_its_own_conversation_only(tmp_path: Path) -> None:
    edges = Edges(dumb=True)
    channel = make_channel(tmp_path, Interactive(), edges.streams)
    edges.close()
    assert isinstance(channel, HoldsPlaces)
    assert channel.holds() == (ConversationId("terminal:/work/demo"),)


@pytest.mark.anyio
async def test_what_is_meant_for_another_place_is_rejected(tmp_path: Path) -> None:
    edges = Edges(dumb=True)
    channel = make_channel(tmp_path, Interactive(), edges.streams)
    edges.close()
    with pytest.raises(Rejected, match="/work/demo"):
        await channel.send(Address(channel.id, "/elsewhere"), Part("x"))


def test_ids_are_made_of_time_process_and_number() -> None:
    identity = make_identity("demo", "ada", lambda: 1.5, 42)
    assert [identity.next_id(), identity.next_id()] == ["1500-42-1", "1500-42-2"]
    assert (identity.author.id, identity.author.name) == ("terminal:ada", "ada")


@pytest.mark.anyio
async def test_an_answer_that_found_the_terminal_closed_is_shown_at_the_next_opening(tmp_path: Path) -> None:
    desk, turn = ScriptedDesk(), TurnId("t1")
    first = TerminalRig(tmp_path, FakeClock(now=1000.0))
    (conversation,) = first.channel.holds()
    (part,) = first.channel.render(Content("It is done.", "answer", turn_id=turn))
    async with anyio.create_task_group() as group:
        group.start_soon(first.channel.run, desk)
        await first.channel.send(first.address, Part("ready", {"kind": "notice"}))
        desk.publish(conversation, turn, 1001.0, SessionStarted(), TurnEnded("completed", "It is done."))
        await anyio.wait_all_tasks_blocked()
        first.hang_up()
    with pytest.raises(TryLater):
        await first.channel.send(first.address, part)
    first.close()
    second = TerminalRig(tmp_path, FakeClock(now=2000.0))
    async with anyio.create_task_group() as group:
        group.start_soon(second.channel.run, desk)
        await second.channel.send(second.address, part)
        group.cancel_scope.cancel()
    assert "It is done." not in first.seen()
    assert "While you were away\n\nIt is done.\n\n✓ 0s\n" in second.seen()
    second.close()
