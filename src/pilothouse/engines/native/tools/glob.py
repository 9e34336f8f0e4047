"""`glob`: files by a pattern, newest first.

Links are not followed, nor is one that was put in place of a folder after its path was judged."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterator
from typing import Annotated

import anyio
from anyio.to_thread import run_sync
from msgspec import Meta, Struct

from pilothouse.engines.native.files import open_folder
from pilothouse.engines.native.tools.tool import Output, Tool, ToolError, Workbench

DEFAULT_FILES = 100
MAX_FILES = 1000
MAX_WALKED = 500_000
MAX_DEPTH = 100
"""Each level holds an open folder."""
WITHIN_S = 30.0
MAX_VARIANTS = 64
_BRACES = re.compile(r"\{([^{}]*)\}")
SKIPPED = frozenset({".git", "node_modules", "__pycache__", ".venv"})


class Input(Struct, frozen=True, forbid_unknown_fields=True):
    pattern: Annotated[
        str, Meta(min_length=1, max_length=500, description="Such as **/*.py or src/{a,b}/*.ts.")
    ]
    path: Annotated[str, Meta(description="The folder. Default the workspace.")] = "."
    limit: Annotated[int, Meta(ge=1, description="Files. Default 100, max 1000.")] = DEFAULT_FILES


async def run(given: Input, bench: Workbench) -> Output:
    try:
        with anyio.fail_after(WITHIN_S):
            found = await run_sync(_find, given, abandon_on_cancel=True)
    except TimeoutError:
        raise ToolError(
            f"The search took longer than {WITHIN_S:g} seconds. Search a smaller folder."
        ) from None
    limit = min(given.limit, MAX_FILES)
    more = [f"[{len(found) - limit} more files]"] * (len(found) > limit)
    return Output("\n".join([*found[:limit], *more]) or "No files.")


def _find(given: Input) -> list[str]:
    wanted = GlobPattern(given.pattern)
    try:
        with open_folder(given.path) as place:
            names = [name for name in walk(place) if wanted.matches(name)]
    except OSError as error:
        raise ToolError(f"There is no folder {given.path}: {error.strerror}.") from error
    found = [os.path.join(given.path, name) for name in names]
    return sorted(found, key=_changed_at, reverse=True)


def _changed_at(path: str) -> float:
    try:
        return os.lstat(path).st_mtime
    except OSError:
        return 0.0


def walk(place: int) -> Iterator[str]:
    """Yield each file below an open folder, by its path from there."""
    walked = 0
    for inner, folders, files, _ in os.fwalk(".", dir_fd=place):
        is_deep = inner.count("/") >= MAX_DEPTH
        folders[:] = [] if is_deep else sorted(name for name in folders if name not in SKIPPED)
        for name in sorted(files):
            yield os.path.normpath(os.path.join(inner, name))
            walked += 1
            if walked >= MAX_WALKED:
                return


class GlobPattern:
    """Matches relative paths in linear time: `**` stands for any folders, other parts match one part of the path."""

    def __init__(self, pattern: str) -> None:
        variants = _variants(pattern.removeprefix("./"))
        self._variants = [[_part(part) for part in variant.split("/")] for variant in variants]

    def matches(self, name: str) -> bool:
        return any(_matches(parts, name.split("/")) for parts in self._variants)


def _variants(pattern: str) -> list[str]:
    """Expand `{a,b}`, to a bounded number of patterns."""
    found = [pattern]
    while len(found) < MAX_VARIANTS and any(_BRACES.search(one) for one in found):
        found = [variant for one in found for variant in _expand(one)]
    return found[:MAX_VARIANTS]


def _expand(pattern: str) -> list[str]:
    match = _BRACES.search(pattern)
    if match is None:
        return [pattern]
    return [pattern[: match.start()] + one + pattern[match.end() :] for one in match[1].split(",")]


def _part(part: str) -> re.Pattern[str] | None:
    return None if part == "**" else re.compile(fnmatch.translate(part))


def _matches(parts: list[re.Pattern[str] | None], names: list[str]) -> bool:
    places = _with_skips(parts, {0})
    for name in names:
        stays = {at for at in places if at < len(parts) and parts[at] is None}
        moves = {at + 1 for at in places if at < len(parts) and (one := parts[at]) and one.match(name)}
        places = _with_skips(parts, stays | moves)
    return len(parts) in places


def _with_skips(parts: list[re.Pattern[str] | None], places: set[int]) -> set[int]:
    """Add the places behind a `**`, which may stand for nothing."""
    for at in range(len(parts)):
        if at in places and parts[at] is None:
            places = places | {at + 1}
    return places


TOOL = Tool(
    "glob",
    "List files whose path matches a glob pattern, newest first.",
    "search",
    Input,
    run,
    title=("glob: ", "pattern"),
    path_key="path",
    only_reads=True,
)
