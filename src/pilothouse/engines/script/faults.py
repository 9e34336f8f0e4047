"""Faults of a bad engine, on purpose. Standard library only, because the player loads it.

Rule: a fault hits the whole process, as a real one would, not only the session that plays it.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from typing import NoReturn

PORTION = 64 * 1024

GARBAGE = (
    b"Segmentation fault (core dumped)",
    b"\xff\xfe\x00 not UTF-8 \x80",
    b'{"type":"event","session":',
    b'{"type":"surprise","session":"s","what":1}',
    b'{"type":"event","session":"s","turn":1,"event":{"type":"no_such_event"}}',
    b'{"type":"event","session":"s","turn":"one","event":{"type":"text_set","block_id":1}}',
    b"[1, 2, 3]",
    b"\x1b[31mcolours\x1b[0m",
    b"null",
    b"",
)

hung = threading.Event()
"""Set for the whole process once it hangs."""


def crash(code: int, stderr: str) -> NoReturn:
    """End at once: with an exit code, or, if it is negative, by that signal."""
    os.write(2, stderr.encode())
    if code < 0:
        os.kill(os.getpid(), -code)
        time.sleep(60)  # the signal may come a moment later, and nothing may be printed before
    os._exit(code % 256)


def hang() -> NoReturn:
    """Block for ever. `hung` is set before; the main thread checks it before it obeys a command."""
    while True:
        time.sleep(3600)


def flood(size: int, into: str, raw: Callable[[bytes], None], check: Callable[[], None]) -> None:
    """Write `size` bytes: into stderr, as short foreign lines, or as one endless line."""
    portion = b"x" * 127 + b"\n" if into == "lines" else b"x" * 128
    portion *= PORTION // 128
    for start in range(0, size, PORTION):
        check()
        data = portion[: size - start]
        if into == "stderr":
            os.write(2, data)
        else:
            raw(data)
    if into != "stderr":
        raw(b"\n")


def spawn_escaped_child() -> None:
    """Start a child in a session of its own that ignores SIGTERM, and wait until it does."""
    import subprocess  # slow to import, and seldom needed

    program = "trap '' TERM; echo ready; exec sleep 600"
    child = subprocess.Popen(["/bin/sh", "-c", program], stdout=subprocess.PIPE, start_new_session=True)
    assert child.stdout is not None
    child.stdout.readline()


def listen() -> None:
    """Let SIGUSR1 switch SIGTERM off. Only the main thread may change a signal's action."""
    signal.signal(signal.SIGUSR1, lambda *_: signal.signal(signal.SIGTERM, signal.SIG_IGN))


def ignore_sigterm() -> None:
    os.kill(os.getpid(), signal.SIGUSR1)
    while signal.getsignal(signal.SIGTERM) is not signal.SIG_IGN:
        time.sleep(0.001)
