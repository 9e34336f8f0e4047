"""Knows the versions of the programs that run engines in jails: of those that run, not of what is installed by now.

Rules: a program is asked in a thread when it is first started, and its version is unknown until it answered. It is told by
its file: a changed one is another program. Where a process runs on and its file changed, its version is unknown.
"""

from __future__ import annotations

import os
import re
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from msgspec import Struct

from pilothouse.core.engine import ProcessStart
from pilothouse.isolation.profile import is_within
from pilothouse.isolation.support import Trial
from pilothouse.processes import read_version

WITHIN_S = 20.0
FIRST_LINE = 200
_VERSION = re.compile(r"\d+\.\d+\.\d+")
_SHELL = re.compile(rb"#!.*sh\b")


class Program(Struct, frozen=True):
    """The time of the last change of the inode is part of `state`: npm gives the files of all versions the same time."""

    path: str
    state: tuple[int, ...]


class Answer(Struct, frozen=True):
    version: str = ""
    problem: str = ""


UNKNOWN = Answer(problem="unknown")


class RunningVersions:
    def __init__(self, read: Callable[[str, float], str] = read_version) -> None:
        self._read = read
        self._trials: dict[Program, Trial[Answer]] = {}
        self._running: defaultdict[str, list[Program | None]] = defaultdict(list)

    @contextmanager
    def note(self, engine: str, start: ProcessStart, writable: Iterable[str]) -> Iterator[None]:
        """Note a process of an engine for as long as it runs. `writable` are the paths that it may write to."""
        program, running = find_program(engine, start, writable), self._running[engine]
        running.append(program)
        if program is not None:
            self._version(program)
        try:
            yield
        finally:
            running.remove(program)

    def of(self, engine: str) -> Sequence[str]:
        """Return the version of each process of an engine that runs in a jail now; empty for one that is not known."""
        return [self._version(one) if one is not None else "" for one in self._running.get(engine, ())]

    def _version(self, program: Program) -> str:
        if look(program.path) != program:
            return ""
        trial = self._trials.setdefault(program, Trial(partial(self._ask, program)))
        answer = trial.known()
        return answer.version if answer else ""

    def _ask(self, program: Program) -> Answer:
        try:
            found = _VERSION.search(self._read(program.path, WITHIN_S))
        except (OSError, ValueError):
            return UNKNOWN
        return Answer(found[0]) if found and look(program.path) == program else UNKNOWN


def find_program(engine: str, start: ProcessStart, writable: Iterable[str]) -> Program | None:
    """Return the program of a start if its own file tells its version: not behind a shell script or a version manager, and no
    interpreter. Nor is one asked that an agent may have written: that happens outside of the jail."""
    found = shutil.which(start.argv[0], path=start.environment.get("PATH"))
    if found is None:
        return None
    real = os.path.realpath(found)
    is_named = engine in os.path.basename(found).lower() and engine in real.lower()
    if not engine or not is_named or any(is_within(real, os.path.realpath(one)) for one in writable):
        return None
    return None if _is_shell_script(real) else look(real)


def look(path: str) -> Program | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return Program(path, (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns))


def _is_shell_script(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return _SHELL.match(file.readline(FIRST_LINE)) is not None
    except OSError:
        return True
