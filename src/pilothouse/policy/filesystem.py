"""Resolves paths: follows links, dangling ones too, and expands patterns within a bound."""

from __future__ import annotations

import glob
import os
import posixpath
import re
from itertools import islice
from typing import Protocol

MAX_LINKS = 40
MAX_MATCHES = 500
MAX_LISTED = 1000
MAX_MAGIC = 2
"""Maximum number of names with wildcards in a pattern: each multiplies the folders to list."""
_MAGIC = re.compile(r"[*?\[]")


class Filesystem(Protocol):
    """The port through which the policy reads the file system. `~` is the home folder; an unreadable path is None.

    A `folder` is `/` or a path that `resolve` gave: it is not looked at again.
    """

    def resolve(self, folder: str, path: str) -> str | None:
        """Return the real path, every link followed, dangling ones too."""
        ...

    def expand(self, folder: str, pattern: str) -> tuple[str, ...] | None:
        """Return the paths that a pattern matches now; None if too many, or if shells differ about it."""
        ...

    def has_no_links(self, folder: str) -> bool:
        """Tell whether the folder contains no links. False if unknown."""
        ...

    def is_git_dir(self, folder: str) -> bool:
        """Tell whether git might use the folder itself as a git directory."""
        ...


def joined(folder: str, path: str) -> str:
    """Join and normalise a path without following links."""
    return "/" + posixpath.normpath(posixpath.join(folder, path)).lstrip("/")


class BareFilesystem:
    """Takes paths as written, without reading any disk. For tests."""

    def __init__(self, home: str = "/home/nobody") -> None:
        self._home = home

    def resolve(self, folder: str, path: str) -> str | None:
        if path == "~" or path.startswith("~/"):
            path = self._home + path[1:]
        if path.startswith("~") or "\0" in path:
            return None
        return joined(folder, path)

    def expand(self, folder: str, pattern: str) -> tuple[str, ...] | None:
        return ()

    def has_no_links(self, folder: str) -> bool:
        return False

    def is_git_dir(self, folder: str) -> bool:
        return False


class RealFilesystem:
    def __init__(self, home: str | None = None) -> None:
        self._home = home or os.path.expanduser("~")

    def resolve(self, folder: str, path: str) -> str | None:
        """Return None for loops and unreadable folders. A missing file resolves to where it would be created."""
        if path[:1] == "~":
            if path[1:2] not in ("", "/"):
                return None
            path = self._home + path[1:]
        if "/" in path and path.startswith(folder + "/"):
            path = path[len(folder) + 1 :]
        try:
            return _follow("" if path[:1] == "/" else folder.rstrip("/"), path)
        except (OSError, ValueError):
            return None

    def expand(self, folder: str, pattern: str) -> tuple[str, ...] | None:
        if pattern.startswith("~/"):
            pattern = glob.escape(self._home) + pattern[1:]
        if "[" in pattern or "**" in pattern or sum(map(glob.has_magic, pattern.split("/"))) > MAX_MAGIC:
            return None  # shells differ about brackets and `**`, and from Python
        if _has_no_match(folder, pattern):
            return ()
        try:
            found = tuple(islice(glob.iglob(pattern, root_dir=folder), MAX_MATCHES + 1))
        except (OSError, ValueError):
            return None
        return None if len(found) > MAX_MATCHES else found

    def has_no_links(self, folder: str) -> bool:
        """List the folder once. Any link is a no, because systems differ in which names are equal."""
        try:
            with os.scandir(folder) as entries:
                listed = list(islice(entries, MAX_LISTED + 1))
        except FileNotFoundError:
            return True
        except OSError:
            return False
        if len(listed) > MAX_LISTED or not os.access(folder, os.X_OK):
            return False
        return not any(entry.is_symlink() for entry in listed)

    def is_git_dir(self, folder: str) -> bool:
        """Tell whether git might use the folder as a repository, whose `config` may name programs to run.

        git (2.39) wants HEAD, and objects and refs either here or in the folder that the file `commondir` names. Any one
        of them beside HEAD is enough for us: a false yes only asks a person.
        """
        names = ("commondir", "objects", "refs")
        return _is_there(folder, "HEAD") and any(_is_there(folder, name) for name in names)


def _is_there(folder: str, name: str) -> bool:
    return os.path.lexists(os.path.join(folder, name))


def _has_no_match(folder: str, pattern: str) -> bool:
    """Tell whether no file name begins with the fixed part of the pattern, so that nothing can match.

    Commands are full of texts that look like patterns; this avoids compiling each.
    """
    magic = _MAGIC.search(pattern)
    place, slash, start = pattern[: magic.start() if magic else 0].rpartition("/")
    if not start:
        return False
    try:
        names = os.listdir(os.path.join(folder, place + slash))
    except (OSError, ValueError):
        return False
    return not any(name.startswith(start) for name in names)


def _follow(real: str, path: str) -> str:
    """Follow links like `os.path.realpath`, but raise `OSError` for a loop or an unreadable folder.

    `real` has no links any more; only what comes after it is looked at.
    """
    pending = [path] if "/" not in path and path not in ("", ".") else _parts(path)
    links = 0
    while pending:
        part = pending.pop()
        if part == "..":
            real = real.rpartition("/")[0]
            continue
        there = f"{real}/{part}"
        try:
            target = os.readlink(there)
        except PermissionError:
            raise
        except OSError:  # no link, or nothing there: what would be made, would be made here
            real = there
            continue
        links += 1
        if links > MAX_LINKS:
            raise OSError(f"{path!r} has too many links")
        if target.startswith("/"):
            real = ""
        pending.extend(_parts(target))
    return real or "/"


def _parts(path: str) -> list[str]:
    """Return the names of a path, the last one first."""
    return [part for part in path.split("/")[::-1] if part and part != "."]
