"""Many chats that stream at once, against a server that enforces Telegram's limits: what came of it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

import anyio
from tests.channels.telegram.gateway_house import GatewayHouse, config_for, open_gateway
from tests.channels.telegram.server.running import Server
from tests.channels.telegram.server.world import Post
from tests.runtime.puppet import Strings

from pilothouse.channels.telegram.config import TelegramConfig

REFUSED = "Too Many Requests"
PATIENCE_S = 120.0


class Crowd(NamedTuple):
    """`lags` are the seconds between the end of a turn and its answer, of all that were delivered."""

    lags: list[float]
    missing: int
    refused: int
    counted: int
    """Requests that Telegram's limits are about."""


def name(number: int, turn: int) -> str:
    """As no other chat's turn is called, nor part of another's name."""
    return f"chat{number:03d}turn{turn:02d}."


async def stream(
    server: Server,
    folder: Path,
    *,
    private: int,
    groups: int,
    turns: int = 1,
    words: int = 20,
    every_s: float = 0.1,
    apart_s: float = 0.0,
) -> Crowd:
    """In each chat one turn after the other; the chats begin `apart_s` apart, and so end apart."""
    server.flood.mode = "enforce"
    ended: dict[str, float] = {}

    async def play(strings: Strings) -> None:
        said = next(word for word in strings.prompt.text.split() if word.startswith("chat"))
        await strings.start()
        for number in range(words):
            await strings.say(f"word {number} of {said} ")
            await anyio.sleep(every_s)
        ended[said] = time.time()
        await strings.end(f"answer {said}")

    owner = server.person("Ada")
    people = [server.person(f"Person {number}") for number in range(private)]
    places = [person.chat for person in people] + [owner.make_group(f"Group {n}") for n in range(groups)]
    talkers = [*people, *[owner] * groups]
    config: TelegramConfig = config_for(server)
    lags: list[float] = []
    async with open_gateway(
        server,
        folder,
        dict.fromkeys([owner, *people], "owner"),
        play,
        config=config,
        max_turns_at_once=len(places) + 8,
        first_view_s=2.0,
        edit_every_s=1.25,
    ) as house:

        async def talk(number: int) -> None:
            await anyio.sleep(number * apart_s)
            for turn in range(turns):
                said = name(number, turn)
                talkers[number].say(f"@pilot_test_bot {said}", chat=places[number])
                post = await _answer(house, places[number].id, said)
                lags.append(post.at - ended[said])

        with anyio.move_on_after(PATIENCE_S):
            async with anyio.create_task_group() as tasks:
                for number in range(len(places)):
                    tasks.start_soon(talk, number)
    refused = sum(REFUSED in call.error for call in server.calls)
    counted = sum(call.method.startswith(("send", "edit")) for call in server.calls)
    return Crowd(lags, len(places) * turns - len(lags), refused, counted)


async def _answer(house: GatewayHouse, chat_id: int, said: str) -> Post:
    world = house.server.world
    found: list[Post] = []

    def seen() -> bool:
        found[:] = [
            post for post in world.shown(chat_id) if f"answer {said}" in post.text and not post.silent
        ]
        return bool(found)

    await world.until(seen)
    return found[0]
