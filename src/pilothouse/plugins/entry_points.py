"""Reads the entry points of installed packages directly from their metadata files.

`importlib.metadata` gives the same, but importing it takes longer than most commands. It is used only where packages
are not in plain folders, or where another finder is installed.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

OURS = "pilothouse."


class Point(NamedTuple):
    group: str
    name: str
    target: str
    dist: str


def entry_points(group: str) -> list[Point]:
    """Return the entry points of a group. The first of two packages with the same name wins, as in Python."""
    folders = tuple(sys.path)
    if _is_plain(folders):
        return [point for point in scan(folders) if point.group == group]
    return list(_ask_python(group))


@cache
def scan(folders: tuple[str, ...]) -> list[Point]:
    """Scan for all our groups, once: packages installed later count at the next start."""
    return [point for info in _infos(folders) for point in _points(info)]


def _is_plain(folders: tuple[str, ...]) -> bool:
    finders = [finder for finder in sys.meta_path if hasattr(finder, "find_distributions")]
    only_folders = all(
        not folder.lower().endswith(".egg") and not os.path.isfile(folder) for folder in folders
    )
    return only_folders and all(getattr(finder, "__name__", "") == "PathFinder" for finder in finders)


def _infos(folders: tuple[str, ...]) -> Iterator[str]:
    """Yield the metadata folder of each package."""
    seen = set[str]()
    for folder in folders:
        try:
            children = os.listdir(folder or ".")
        except OSError:
            continue
        for child in children:
            stem, dot, kind = child.rpartition(".")
            if not dot or kind.lower() not in ("dist-info", "egg-info"):
                continue
            name = re.sub(r"[-_.]+", "_", stem.partition("-")[0]).lower()
            if name not in seen:
                seen.add(name)
                yield os.path.join(folder or ".", child)


def _points(info: str) -> Iterator[Point]:
    group, dist = "", ""
    for line in map(str.strip, _lines(info, "entry_points.txt")):
        if line.startswith("[") and line.endswith("]"):
            group = line[1:-1]
        elif group.startswith(OURS) and line and not line.startswith("#"):
            name, _, target = line.partition("=")
            dist = dist or _name(info)
            yield Point(group, name.strip(), target.strip(), dist)


def _name(info: str) -> str:
    """Return the package's own spelling of its name; the folder's is normalised."""
    for line in (*_lines(info, "METADATA"), *_lines(info, "PKG-INFO")):
        key, _, value = line.partition(":")
        if key.lower() == "name":
            return value.strip()
    return os.path.basename(info).partition("-")[0]


def _lines(info: str, name: str) -> list[str]:
    try:
        with open(os.path.join(info, name), encoding="utf-8", errors="replace") as file:
            return file.read().splitlines()
    except OSError:
        return []


def _ask_python(group: str) -> Iterator[Point]:
    from importlib import metadata

    for point in metadata.entry_points(group=group):
        yield Point(group, point.name, point.value, point.dist.name if point.dist else "")
