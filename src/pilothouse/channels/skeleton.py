"""Shared behaviour of channels with a remote platform: send while they are connected, say short notices, and bear outages.

The first failures of a connection are quiet, because networks blink. A lasting outage raises one alarm of each kind until
it ends. A call that shows progress is not cut off once it was sent (`ProgressCalls`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup

from pilothouse.core.channel import ChannelHost
from pilothouse.core.clock import Clock
from pilothouse.core.errors import DeliveryError, TryLater
from pilothouse.core.ids import ChannelId
from pilothouse.core.message import Address

S = TypeVar("S")
T = TypeVar("T")
OPENING_S = 5.0
MAX_NOTICES = 16
"""Notices that may wait to be sent at the same time; further ones are dropped."""


class Connected(Generic[S]):
    """The sender of a channel while it is connected. `say` sends a notice with it, on which nothing depends."""

    def __init__(
        self, id: ChannelId, host: ChannelHost, say: Callable[[S, Address, str, str], Awaitable[None]]
    ) -> None:
        self._id = id
        self._log = host.log
        self._say = say
        self._notices = 0
        self.close()

    def open(self, sender: S) -> None:
        self._sender = sender
        self._opened.set()

    def close(self) -> None:
        self._sender: S | None = None
        self._opened = anyio.Event()

    async def sender(self) -> S:
        """Return the sender, waiting briefly for it. Nothing was sent yet, so the caller may retry."""
        if self._sender is None:
            with anyio.move_on_after(OPENING_S):
                await self._opened.wait()
        if self._sender is None:
            raise TryLater(OPENING_S, f"the {self._id.title()} channel is not open yet")
        return self._sender

    async def tell(self, tasks: TaskGroup, address: Address, text: str, reply_to: str) -> None:
        """Send a notice in the background: a place that must wait delays nothing that is received."""
        if self._notices >= MAX_NOTICES:
            self._log(f"{self._id}.not_told", level="warning", text=text)
            return
        self._notices += 1
        tasks.start_soon(self._tell, address, text, reply_to)

    async def _tell(self, address: Address, text: str, reply_to: str) -> None:
        try:
            await self._say(await self.sender(), address, text, reply_to)
        except DeliveryError as error:
            self._log(f"{self._id}.not_told", text=text, why=str(error))
        finally:
            self._notices -= 1


LANDS_S = 0.5
"""The longest time that an answer waits for progress of its turn that was sent and has no answer yet.

What takes longer may still take effect below the answer: a draft stays there until it expires, an edit until the
progress message is removed, the typing indicator for some seconds."""


async def wait_until_landed(landed: anyio.Event, clock: Clock) -> None:
    """Wait for the end of a call that was cancelled after it was sent, at most `LANDS_S`."""

    async def give_up(scope: anyio.CancelScope) -> None:
        await clock.sleep(LANDS_S)
        scope.cancel()

    with anyio.CancelScope(shield=True):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(give_up, tasks.cancel_scope)
            await landed.wait()
            tasks.cancel_scope.cancel()


class ProgressCalls:
    """Makes calls that show progress, in the tasks of a connection.

    A platform acts on what it received, even if the client has closed the connection. So a call is cancelled only before
    it begins; later its caller waits for it, and what is sent next arrives after it."""

    def __init__(self, tasks: TaskGroup, clock: Clock) -> None:
        self._tasks = tasks
        self._clock = clock

    async def make(self, call: Callable[[], Awaitable[T]], *, creates: bool = False) -> T | None:
        """Make a call and return its result; None if the connection was closed meanwhile.

        A call that `creates` a message is awaited to its end even if it was cancelled: without the message's number
        nobody could remove it."""
        await anyio.lowlevel.checkpoint_if_cancelled()
        ended = anyio.Event()
        results: list[T] = []
        errors: list[Exception] = []

        async def carry_out() -> None:
            try:
                results.append(await call())
            except Exception as error:  # noqa: BLE001 - it belongs to the caller, not to the connection
                errors.append(error)
            finally:
                ended.set()

        try:
            self._tasks.start_soon(carry_out)
        except RuntimeError:
            raise TryLater(OPENING_S, "the connection is closed") from None
        with anyio.CancelScope(shield=creates):
            try:
                await ended.wait()
            except anyio.get_cancelled_exc_class():
                await wait_until_landed(ended, self._clock)
                raise
        if errors:
            raise errors[0]
        return results[0] if results else None


FIRST_S = 1.0
LONGEST_S = 60.0
LOUD_S = 60.0
"""An outage that lasts this long is reported."""


def pause_s(in_a_row: int, longest_s: float = LONGEST_S, first_s: float = FIRST_S) -> float:
    """Return the pause after a number of failures in a row. It doubles with each."""
    return min(first_s * 2 ** min(in_a_row - 1, 10), longest_s)


class Outage:
    """One outage after the other. `in_a_row` counts failures; `trouble` is the last alarm, empty while all is well."""

    def __init__(self, clock: Clock, alarm: Callable[[str], None]) -> None:
        self._clock = clock
        self._alarm = alarm
        self._since: float | None = None
        self._told: set[str] = set()
        self.in_a_row = 0
        self.trouble = ""

    @property
    def lasted_s(self) -> float:
        return 0.0 if self._since is None else self._clock.monotonic() - self._since

    def fail(self) -> int:
        """Count a failure; return how many there were in a row."""
        self.begin()
        self.in_a_row += 1
        return self.in_a_row

    def begin(self, since: float | None = None) -> None:
        """Begin an outage, unless one has begun. `since` is when, if not now."""
        if self._since is None:
            self._since = self._clock.monotonic() if since is None else since

    def begin_anew(self) -> None:
        """Measure the outage from now on: the connection worked for a moment. The count and the alarms stay."""
        self._since = self._clock.monotonic()

    def tell(self, kind: str, text: str) -> None:
        """Raise an alarm, once for each kind."""
        if kind not in self._told:
            self._told.add(kind)
            self.trouble = text
            self._alarm(text)

    def end(self) -> float | None:
        """End the outage; return how long it lasted, or None if there was none."""
        lasted_s = None if self._since is None else self.lasted_s
        self._since, self.in_a_row, self.trouble = None, 0, ""
        self._told.clear()
        return lasted_s
