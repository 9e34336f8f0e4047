"""Tells whether bubblewrap can make a jail on this machine, by making one, and remembers it: a success for good, a failure for
a minute, since a person may mend it.

A trial starts a program that may hang, so `known` never waits for one: the threads of the store and of the gateway use that.
"""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from msgspec import Struct

from pilothouse.isolation.profile import Profile, jail_arguments
from pilothouse.isolation.system import system_mounts

WITHIN_S = 10.0
INSTALL = "sudo apt install bubblewrap"
MISSING = f"bubblewrap is not installed. Install it: {INSTALL} (or your system's package of that name)."
NO_LINUX = (
    "Jails need Linux, and this is {name}. Run Pilothouse on Linux, in a virtual machine or a container."
)
NO_NAMESPACES = (
    "The kernel lets bubblewrap make no namespace: {said}. Where AppArmor restricts user namespaces, allow them for bwrap; inside "
    "a container, start that with --security-opt seccomp=unconfined; else: sudo sysctl kernel.unprivileged_userns_clone=1."
)
FAILED = "bubblewrap does not work here: {said}."


class Support(Struct, frozen=True):
    """`problem` says why no jail can be made here and what to do; empty if one can."""

    program: str = ""
    problem: str = ""


def find_support() -> Support:
    """Try a small jail. Blocks for some milliseconds."""
    return try_jail(shutil.which("bwrap"))


def try_jail(program: str | None) -> Support:
    if sys.platform != "linux":
        return Support(problem=NO_LINUX.format(name=sys.platform))
    if program is None:
        return Support(problem=MISSING)
    profile = Profile("/opt", "/home/jail", "/opt", system_mounts(), is_root=os.geteuid() == 0)
    argv = [program, *jail_arguments(profile, ["/bin/sh", "-c", "exit 0"])]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=WITHIN_S, check=False, cwd="/")
    except (OSError, subprocess.TimeoutExpired) as error:
        return Support(program, FAILED.format(said=error))
    return Support(program, _explain(done.stderr) if done.returncode else "")


def _explain(said: str) -> str:
    last = (
        said.strip().splitlines()[-1].removeprefix("bwrap: ").rstrip(".")
        if said.strip()
        else "no reason given"
    )
    refused = any(
        word in last for word in ("namespace", "uid map", "Operation not permitted", "Permission denied")
    )
    return (NO_NAMESPACES if refused else FAILED).format(said=last)


AGAIN_S = 60.0
"""A failure counts so long."""


class Result(Protocol):
    @property
    def problem(self) -> str: ...


R = TypeVar("R", bound=Result)


class Trial(Generic[R]):
    def __init__(self, attempt: Callable[[], R], now: Callable[[], float] = time.monotonic) -> None:
        self._attempt = attempt
        self._now = now
        self._lock = threading.Lock()
        self._found: R | None = None
        self._until = 0.0

    def find(self) -> R:
        """Return the result, after a trial where none is known or the last one failed long ago. Blocks."""
        with self._lock:
            if self._found is None or self._now() >= self._until:
                found = self._attempt()
                self._until = self._now() + AGAIN_S if found.problem else math.inf
                self._found = found
            return self._found

    def known(self) -> R | None:
        """Return the last result at once; None before the first. Where `find` would try, a thread does."""
        if (self._found is None or self._now() >= self._until) and not self._lock.locked():
            threading.Thread(target=self.find, daemon=True).start()
        return self._found
