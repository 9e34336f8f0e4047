"""The process of a long-running command: its event loop, its signals, its garbage collector."""

from __future__ import annotations

import gc
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress

import anyio

from pilothouse.bootstrap.terminal_text import say
from pilothouse.core.errors import main_error

INTERRUPTED = 130


class QuitNow(Exception):
    """Raised on a repeated signal. A `KeyboardInterrupt` in a task would break the event loop and print a traceback."""


def run(main: Callable[[], Awaitable[int]]) -> int:
    """Runs the event loop. Of a group of errors, raises the one that explains most."""
    try:
        return anyio.run(main)
    except (KeyboardInterrupt, QuitNow):
        return INTERRUPTED
    except BaseExceptionGroup as group:
        error = main_error(group)
        if isinstance(error, KeyboardInterrupt | QuitNow):
            return INTERRUPTED
        raise error from group


async def stop_on_signal(
    stop: Callable[[], None],
    signals: tuple[signal.Signals, ...] = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP),
    stop_now: Callable[[], None] | None = None,
    listening: Callable[[], None] = lambda: None,
) -> None:
    """Calls `stop` on the first signal and raises `QuitNow` on the next one.

    With `stop_now`, the second signal calls that instead: it waits for no turn but still cleans up. `listening` is called
    once the signals are caught. A repeated SIGHUP is ignored: kernel and shell may both send one for a closed window.
    """
    with anyio.open_signal_receiver(*signals) as received:
        listening()
        count = 0
        async for number in received:
            if count and number == signal.SIGHUP:
                continue
            count += 1
            if count == 1:
                stop()
            elif count == 2 and stop_now is not None:
                stop_now()
            else:
                raise QuitNow


async def adopt_orphans() -> None:
    """Becomes the parent of orphaned grandchildren, and reaps them."""
    from pilothouse.processes import become_subreaper, collect_orphans

    if become_subreaper():
        await collect_orphans()


def say_leaving(grace_s: float, running: int, *, idle: str = "") -> None:
    """Tells how long a running turn may take to end; without one, says `idle`."""
    text = f"Leaving: a running turn has {grace_s:.0f} s to end. Ctrl-C leaves now." if running else idle
    if text:
        with suppress(OSError):  # the window may be closed; the turn still gets its time
            say(text)


def relax_collector() -> None:
    """Collects less often: while modules are imported, a collection every 700 objects finds nothing."""
    gc.set_threshold(50_000, 20, 20)


def freeze_collector() -> None:
    """Excludes everything loaded so far from collection.

    Almost all that a turn makes is freed by reference counts; frequent collections took a fifth of the time under load.
    """
    gc.collect()
    gc.freeze()
    relax_collector()
