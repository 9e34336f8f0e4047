"""A gateway on Telegram in a process of its own, to be killed: `python -m tests.channels.telegram.killed HOME URL TOKEN IDS…`."""

from __future__ import annotations

import sys
from pathlib import Path

import anyio
from tests.runtime.puppet import PUPPET, PuppetEngine, Strings
from tests.runtime.rig import settings_for

from pilothouse.bootstrap.machine import is_alive, this_node
from pilothouse.channels.telegram.addressing import TELEGRAM
from pilothouse.channels.telegram.channel import TelegramChannel
from pilothouse.channels.telegram.config import TelegramConfig
from pilothouse.core.channel import ChannelHost
from pilothouse.core.ids import UserId
from pilothouse.core.people import People
from pilothouse.core.secret import Secret
from pilothouse.runtime.blobs import StoreBlobs
from pilothouse.runtime.clock import SystemClock, new_id
from pilothouse.runtime.gateway import Gateway
from pilothouse.runtime.ports import Ports
from pilothouse.stores.sqlite import STORE


def _silent(event: str, **fields: object) -> None:
    pass


async def answer(strings: Strings) -> None:
    """Nothing is shown before the end: whoever is killed in between may run it again."""
    await strings.start()
    await strings.end(f"you said: {strings.prompt.text}")


async def serve(home: Path, url: str, token: str, people: list[str]) -> None:
    roles = People({UserId(f"telegram:{id}"): "owner" for id in people})
    settings = settings_for(home, people=roles, known_channels=(TELEGRAM,))
    async with STORE.open(STORE.config(path=str(home / "pilothouse.db"))) as store:
        clock = SystemClock()
        host = ChannelHost(StoreBlobs(store, clock), str(home), _silent, clock)
        channel = TelegramChannel(TelegramConfig(token=Secret(token), api_base=url), host)
        ports = Ports(
            store=store,
            clock=clock,
            ids=new_id,
            settings=lambda: settings,
            engines={PUPPET: PuppetEngine(answer)},
            channels={TELEGRAM: channel},
            alive=is_alive,
        )
        await Gateway(ports, this_node("killed")).run()


if __name__ == "__main__":
    anyio.run(serve, Path(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4:])
