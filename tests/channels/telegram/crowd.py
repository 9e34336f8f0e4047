"""Many chats that stream at once, against a server that enforces Telegram's limits: what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.channels.crowding import VIEWS, Crowd, Crowding, Plan
from tests.channels.telegram.gateway_house import open_gateway
from tests.channels.telegram.server.running import Server
from tests.channels.telegram.server.world import Post

REFUSED = "Too Many Requests"


async def stream(
    server: Server,
    folder: Path,
    plan: Plan,
    *,
    private: int,
    groups: int,
    views: Mapping[str, Any] = VIEWS,
) -> Crowd:
    server.flood.mode = "enforce"
    owner, crowding, world = server.person("Ada"), Crowding(plan), server.world
    people = [server.person(f"Person {number}") for number in range(private)]
    places = [person.chat for person in people] + [owner.make_group(f"Group {n}") for n in range(groups)]
    talkers = [*people, *[owner] * groups]

    def say(number: int, said: str) -> None:
        talkers[number].say(f"@pilot_test_bot {said}", chat=places[number])

    async def answered_at(number: int, said: str) -> float:
        found: list[Post] = []

        def seen() -> bool:
            posts = world.shown(places[number].id)
            found[:] = [post for post in posts if f"answer {said}" in post.text and not post.silent]
            return bool(found)

        await world.until(seen)
        return found[0].at

    async with open_gateway(
        server,
        folder,
        dict.fromkeys([owner, *people], "owner"),
        crowding.play,
        max_turns_at_once=len(places) + 8,
        **views,
    ):
        lags = await crowding.talk(len(places), say, answered_at)
    missing = len(places) * plan.turns - len(lags)
    refused = sum(REFUSED in call.error for call in server.calls)
    counted = sum(call.method.startswith(("send", "edit")) for call in server.calls)
    edits = sum(call.method.startswith("edit") for call in server.calls)
    return Crowd(lags, missing, refused, counted, edits)
