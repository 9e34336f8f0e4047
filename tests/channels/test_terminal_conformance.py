"""The terminal keeps what every channel must, and nothing of one conversation shows in another."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.channels.terminal_rig import Edges
from tests.channels.terminal_scene import make_channel

from pilothouse.channels.terminal import CHANNEL
from pilothouse.channels.terminal.config import Interactive
from pilothouse.channels.terminal.receive import take_seat
from pilothouse.core.channel import HoldsPlaces
from pilothouse.core.errors import Rejected
from pilothouse.core.ids import ConversationId
from pilothouse.core.message import Address, Part
from pilothouse.testing.channel import ChannelConformance, ChannelRig, check_spec


class TerminalRig:
    redelivers = False

    def __init__(self, state_dir: Path) -> None:
        read, self._write = os.pipe()
        self._stdin = os.fdopen(read)
        self._edges = Edges(dumb=True, together=True)
        self.channel = make_channel(state_dir, Interactive(), replace(self._edges.streams, stdin=self._stdin))
        self.address = self.channel.address

    async def arrive(self, event_id: str, text: str) -> None:
        os.write(self._write, f"{text}\n".encode())

    def seen(self) -> str:
        return self._edges.stdout.getvalue()

    def close(self) -> None:
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
    seat = take_seat("demo", "ada", lambda: 1.5, 42)
    assert [seat.next_id(), seat.next_id()] == ["1500-42-1", "1500-42-2"]
    assert (seat.author.id, seat.author.name) == ("terminal:ada", "ada")
