"""What every verb is handed: the store, the clock, and who is plugged in. Filled by bootstrap."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol, TypeVar

import anyio

from pilothouse.core.channel import Channel
from pilothouse.core.clock import Clock
from pilothouse.core.engine import Brief, Engine
from pilothouse.core.errors import StoreUnavailable
from pilothouse.core.ids import ChannelId, ConversationId, EngineId, IdMaker
from pilothouse.core.policy import AskAlways, Policy
from pilothouse.core.store import NodeInfo, Store, Tx
from pilothouse.runtime.settings import Briefer, Settings
from pilothouse.runtime.signals import Signals

T = TypeVar("T")

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0


class Log(Protocol):
    def __call__(self, event: str, /, **fields: object) -> None: ...


async def _nothing_left() -> None:
    """Where no engine starts processes there is nothing to sweep."""


def _as_it_is(conversation_id: ConversationId, brief: Brief) -> Brief:
    return brief


class Ports:
    """One per gateway. `settings` is a function: configuration may be reloaded under a running turn.

    `sweep` ends the processes that a killed holder of the engines left behind; it is called by the next one.
    """

    def __init__(  # noqa: PLR0913 - each by its name
        self,
        *,
        store: Store,
        clock: Clock,
        ids: IdMaker,
        settings: Callable[[], Settings],
        engines: Mapping[EngineId, Engine],
        channels: Mapping[ChannelId, Channel],
        brief: Briefer = _as_it_is,
        policy: Policy | None = None,
        alive: Callable[[NodeInfo], bool | None] = lambda _info: None,
        sweep: Callable[[], Awaitable[None]] = _nothing_left,
        log: Log = lambda _event, **_fields: None,
    ) -> None:
        self.store = store
        self.clock = clock
        self.ids = ids
        self.settings = settings
        self.engines = engines
        self.channels = channels
        self.brief = brief
        self.policy: Policy = policy or AskAlways()
        self.alive = alive
        self.sweep = sweep
        self.log = log
        self.signals = Signals()

    async def persist(self, unit: Callable[[Tx], T]) -> T:
        """A write that must happen: waits out a full disk or a locked database, however long it takes.

        Only for bookkeeping of what has already happened. What a person still waits for is refused instead,
        so that they know.
        """
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                return await self.store.write(unit)
            except StoreUnavailable as error:
                self.log("store.write_postponed", error=str(error), pause_s=pause_s)
                await anyio.sleep(pause_s)
                pause_s = min(LONGEST_PAUSE_S, pause_s * 2)
