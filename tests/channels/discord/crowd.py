"""Many channels that stream at once, against a server that enforces Discord's limits: what came of it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

import anyio
from simcord.backend.models import Channel
from tests.channels.discord.gateway_house import GatewayHouse, config_for, open_gateway
from tests.channels.discord.server.running import Server
from tests.channels.discord.server.world import Post
from tests.runtime.puppet import Strings

from pilothouse.channels.discord.wire import sent_at
from pilothouse.core.trigger import Trigger

PATIENCE_S = 180.0


class Crowd(NamedTuple):
    """`lags` are the seconds between the end of a turn and its answer, of all that were delivered."""

    lags: list[float]
    missing: int
    refused: int
    counted: int
    """Requests that Discord's limits are about."""
    edits: int
    """How often progress was shown anew."""


def name(number: int, turn: int) -> str:
    """As no other channel's turn is called, nor part of another's name."""
    return f"channel{number:03d}turn{turn:02d}."


async def stream(
    server: Server,
    folder: Path,
    *,
    channels: int,
    turns: int = 1,
    words: int = 20,
    every_s: float = 0.1,
    apart_s: float = 0.0,
) -> Crowd:
    """In each channel one turn after the other; the channels begin `apart_s` apart, and so end apart."""
    server.limits.publish()
    ended: dict[str, float] = {}

    async def play(strings: Strings) -> None:
        said = next(word for word in strings.prompt.text.split() if word.startswith("channel0"))
        await strings.start()
        for number in range(words):
            await strings.say(f"word {number} of {said} ")
            await anyio.sleep(every_s)
        ended[said] = time.time()
        await strings.end(f"answer {said}")

    ada = server.person("ada")
    places = [server.world.make_channel(f"room-{number}") for number in range(channels)]
    lags: list[float] = []
    async with open_gateway(
        server,
        folder,
        {ada: "owner"},
        play,
        config=config_for(server, trigger=Trigger("all")),
        max_turns_at_once=len(places) + 8,
        first_view_s=2.0,
        edit_every_s=1.25,
    ) as house:

        async def talk(number: int) -> None:
            await anyio.sleep(number * apart_s)
            for turn in range(turns):
                said = name(number, turn)
                ada.say(said, channel=places[number])
                post = await _answer(house, places[number], said)
                lags.append(sent_at(str(post.id)) - ended[said])

        with anyio.move_on_after(PATIENCE_S):
            async with anyio.create_task_group() as tasks:
                for number in range(len(places)):
                    tasks.start_soon(talk, number)
    edits = sum(call.method == "PATCH" for call in server.calls)
    missing = channels * turns - len(lags)
    return Crowd(lags, missing, server.limits.refused, len(server.calls), edits)


async def _answer(house: GatewayHouse, channel: Channel, said: str) -> Post:
    world = house.server.world
    found: list[Post] = []

    def seen() -> bool:
        found[:] = [
            post for post in world.shown(channel) if f"answer {said}" in post.text and not post.silent
        ]
        return bool(found)

    await world.until(seen)
    return found[0]
