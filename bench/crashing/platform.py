"""The seam for a channel whose platform stands outside of the gateway's process.

A platform is a server that outlives every kill: five places to talk in, what people do there, and all that they ever saw.
It tells each of its own points to `watch`, which may kill the gateway there: *before* a call is carried out (then it
never is), or *after* (then its answer reaches nobody). Each has a module here with `open_platform`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from bench.crashing.points import Kind

PLACES = ("batch", "long", "tool", "approve", "stop")
CHANNELS = ("telegram", "discord")

Watch = Callable[[Kind], Awaitable[bool]]
"""Told of a point; true if the gateway was killed there."""


async def go_on(kind: Kind) -> bool:
    return False


RETRY = "Retry"
"""Below a failure; it may stay."""


class Shown(NamedTuple):
    """A message of ours, progress aside: its text as it first stood there, without its look."""

    place: str
    id: str
    text: str
    answers: str
    """The message that it replies to."""


class Platform(Protocol):
    settings: dict[str, Any]
    """The section of the configuration that brings a gateway here."""
    owners: list[str]
    """User ids as the house knows them."""
    watch: Watch

    async def furnish(self, folder: Path) -> None:
        """Puts there what a gateway that has been here before would have kept."""
        ...

    def conversation(self, place: str) -> str:
        """How the house calls it."""
        ...

    def say(self, place: str, text: str) -> str:
        """A person writes; the native id of what they wrote."""
        ...

    def edit(self, place: str, native_id: str, text: str) -> None: ...

    def press(self, place: str, id: str, label: str, words: str) -> bool:
        """False if what stands there has no such button, or nobody has taken the press yet: then it is tried again.
        `words` are for a form, where one opens."""
        ...

    def buttons(self) -> list[str]:
        """What could still be pressed, a stop and a retry aside."""
        ...

    def shown(self) -> list[Shown]:
        """All that ever stood there, oldest first, deleted or not."""
        ...

    def waits(self) -> bool:
        """Whether the gateway has still to take something."""
        ...

    def complaints(self) -> list[str]:
        """What the platform's judges would not take."""
        ...

    async def until_heard(self) -> None:
        """Until a gateway that was started just now listens here."""
        ...


def open_platform(channel: str, variant: str, shared: Path) -> AbstractAsyncContextManager[Platform]:
    """`shared` is a folder for what serves all trials of a sweep; a variant is another age of the same platform."""
    return import_module(f"bench.crashing.{channel}").open_platform(variant, shared)
