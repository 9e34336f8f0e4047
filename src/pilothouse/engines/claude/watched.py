"""A session that runs in somebody's terminal, followed by its log: for `pilothouse watch`. Nothing is ever written."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path

import anyio

from pilothouse.core.event import SessionStarted
from pilothouse.engines.claude.launch import is_session_id
from pilothouse.engines.claude.log_lines import LogTranslator
from pilothouse.engines.claude.session_log import (
    SUFFIX,
    LogTail,
    find_log,
    folder_name,
    newest,
    projects_folder,
)
from pilothouse.engines.claude.turns import Step

BACKLOG = 8 * 1024 * 1024
"""How far back the beginning of the turn under way is looked for."""
LOOK_EVERY_S = 0.2
QUIET_S = 1.0
SHORTEST = 4


class WatchedLog:
    def __init__(self, where: str, find: Callable[[], Path | None]) -> None:
        self.where = where
        self._find = find

    @property
    def found(self) -> bool:
        return self._find() is not None

    async def follow(self) -> AsyncIterator[Sequence[Step]]:
        tail = LogTail(self._find, skip=lambda size: max(0, size - BACKLOG))
        translator = LogTranslator()
        yield _last_turn(_read(tail, translator))
        quiet_s = 0.0
        while True:
            steps = _read(tail, translator)
            quiet_s = 0.0 if steps else quiet_s + LOOK_EVERY_S
            yield steps if quiet_s < QUIET_S else translator.pause()
            await anyio.sleep(LOOK_EVERY_S)


def find_watched(environment: Mapping[str, str], word: str) -> Sequence[WatchedLog]:
    """A whole id is waited for, wherever it appears; its beginning must be there already, and so must a folder."""
    projects = projects_folder(environment)
    if os.sep in word or word.endswith(SUFFIX) or word in (".", "..", "~"):
        return _by_path(projects, Path(word).expanduser())
    word = word.lower()
    if is_session_id(word):
        return [_of(projects, word)]
    if len(word) < SHORTEST or not set(word) <= set("0123456789abcdef-"):
        return []
    ids = {path.stem for path in projects.glob(f"*/{word}*{SUFFIX}") if is_session_id(path.stem)}
    return [_of(projects, id) for id in sorted(ids)]


def _of(projects: Path, session: str) -> WatchedLog:
    return WatchedLog(session, lambda: find_log(projects, session))


def _by_path(projects: Path, path: Path) -> Sequence[WatchedLog]:
    """A log; or a folder, which means the session that was used last in it."""
    if path.is_dir():
        found = newest(projects, f"*{SUFFIX}", folder_name(str(path)))
        return [WatchedLog(found.stem, lambda: found)] if found else []
    if path.suffix != SUFFIX or not path.parent.is_dir():
        return []
    return [WatchedLog(str(path), lambda: path if path.exists() else None)]


def _read(tail: LogTail, translator: LogTranslator) -> list[Step]:
    steps: list[Step] = []
    while lines := tail.read():
        steps += [step for line in lines for step in translator.feed(line)]
    return steps


def _last_turn(steps: Sequence[Step]) -> Sequence[Step]:
    starts = [place for place, step in enumerate(steps) if isinstance(step, SessionStarted)]
    return steps[starts[-1] :] if starts else ()
