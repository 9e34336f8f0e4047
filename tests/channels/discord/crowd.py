"""Many channels that stream at once, against a server that enforces Discord's limits: what came of it."""

from __future__ import annotations

from pathlib import Path

from tests.channels.crowding import VIEWS, Crowd, Crowding, Plan
from tests.channels.discord.gateway_house import config_for, open_gateway
from tests.channels.discord.server.running import Server
from tests.channels.discord.server.world import Post

from pilothouse.channels.discord.wire import sent_at
from pilothouse.core.trigger import Trigger


async def stream(server: Server, folder: Path, plan: Plan, *, channels: int) -> Crowd:
    server.limits.publish()
    ada, crowding, world = server.person("ada"), Crowding(plan), server.world
    places = [world.make_channel(f"room-{number}") for number in range(channels)]

    def say(number: int, said: str) -> None:
        ada.say(said, channel=places[number])

    async def answered_at(number: int, said: str) -> float:
        found: list[Post] = []

        def seen() -> bool:
            posts = world.shown(places[number])
            found[:] = [post for post in posts if f"answer {said}" in post.text and not post.silent]
            return bool(found)

        await world.until(seen)
        return sent_at(str(found[0].id))

    config = config_for(server, trigger=Trigger("all"))
    async with open_gateway(
        server,
        folder,
        {ada: "owner"},
        crowding.play,
        config=config,
        max_turns_at_once=channels + 8,
        **VIEWS,
    ):
        lags = await crowding.talk(channels, say, answered_at)
    edits = sum(call.method == "PATCH" for call in server.calls)
    return Crowd(lags, channels * plan.turns - len(lags), server.limits.refused, len(server.calls), edits)
