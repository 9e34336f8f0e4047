"""Runs the event loop, and turns a group of errors into the one that says most."""

from __future__ import annotations

import gc
from collections.abc import Awaitable, Callable
from contextlib import suppress

import anyio

from pilothouse.bootstrap.terminal_text import say
from pilothouse.core.errors import main_error

INTERRUPTED = 130


class LeftAtOnce(Exception):
    """Somebody asked twice. A `KeyboardInterrupt` in a task would tear the event loop, and print where."""


def run(main: Callable[[], Awaitable[int]]) -> int:
    try:
        return anyio.run(main)
    except KeyboardInterrupt:
        return INTERRUPTED
    except LeftAtOnce:
        return INTERRUPTED
    except BaseExceptionGroup as group:
        error = main_error(group)
        if isinstance(error, KeyboardInterrupt | LeftAtOnce):
            return INTERRUPTED
        raise error from group


def spare_collector() -> None:
    """Modules that are being imported are not garbage: to look for some after every 700 objects takes time for nothing."""
    gc.set_threshold(50_000, 20, 20)


def say_leaving(grace_s: float, running: int, *, idle: str = "") -> None:
    """`idle` is said where no turn runs."""
    text = f"Leaving: a running turn has {grace_s:.0f} s to end. Ctrl-C leaves now." if running else idle
    if text:
        with suppress(OSError):  # the window may be closed: the turn has its time all the same
            say(text)


def calm_collector() -> None:
    """What is loaded by now stays, and is never looked at again. What a turn makes is almost all freed by itself:
    looking for cycles after every 700 objects took a fifth of the time under load."""
    gc.collect()
    gc.freeze()
    spare_collector()
