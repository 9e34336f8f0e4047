"""A whole gateway, with a puppet for an engine, behind a real channel: what the tests of every platform share."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import anyio
from tests.runtime.puppet import Play, PuppetEngine
from tests.runtime.rig import Rig, open_rig

from pilothouse.core.channel import Channel, ChannelHost, MenuCommand
from pilothouse.core.clock import Clock
from pilothouse.core.ids import BlobHash, UserId
from pilothouse.core.message import Attachment
from pilothouse.core.people import People, Role
from pilothouse.runtime.commands.table import menu
from pilothouse.runtime.ports import StoreBlobs, SystemClock

C = TypeVar("C", bound=Channel)

MENU = menu()


class LateBlobs:
    """The store is opened after the channel was made."""

    inner: StoreBlobs

    async def get(self, blob: BlobHash) -> bytes:
        return await self.inner.get(blob)

    async def put(self, data: bytes, name: str, media_type: str) -> Attachment:
        return await self.inner.put(data, name, media_type)


async def until(seen: Callable[[], Any], rig: Rig, calls: Callable[[], Sequence[object]]) -> Any:
    """What `seen` finds, once it finds anything; `calls` are those that the platform was asked last."""
    with anyio.move_on_after(60):
        while not (found := seen()):
            await anyio.sleep(0.01)
        return found
    raise AssertionError(
        f"never seen; the last calls were {list(calls())}, the log ends with {rig.logged[-12:]}"
    )


@asynccontextmanager
async def open_behind(
    make: Callable[[ChannelHost], C],
    folder: Path,
    people: Mapping[UserId, Role],
    *plays: Play,
    menu: Sequence[MenuCommand] = (),
    blobs: LateBlobs | None = None,
    clock: Clock | None = None,
    **settings: Any,
) -> AsyncIterator[tuple[Rig, C]]:
    """A gateway behind the channel that `make` makes. Its log holds what the channel says, too."""
    blobs, clock = blobs or LateBlobs(), clock or SystemClock()
    logged: list[tuple[str, dict[str, object]]] = []

    def log(event: str, **fields: object) -> None:
        logged.append((event, fields))

    channel = make(ChannelHost(blobs, str(folder), log, clock, tuple(menu)))
    async with open_rig(
        folder,
        PuppetEngine(*plays),
        channels={channel.id: channel},
        clock=clock,
        people=People(dict(people)),
        known_channels=(channel.id,),
        **settings,
    ) as rig:
        blobs.inner = StoreBlobs(rig.store, clock)
        logged[:0] = rig.logged
        rig.logged = logged
        yield rig, channel
