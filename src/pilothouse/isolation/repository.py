"""The parts of a git repository that run programs outside of a jail: an agent inside must not write them.

A commit must still be possible, also in a worktree, whose repository lies elsewhere. A repository that names a folder by a
link is not followed: anybody may have made the link.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from pilothouse.isolation.profile import Mount

_READ_ONLY = ("hooks", "config", "config.worktree")
_MAX_BYTES = 4096


def repository_mounts(workspace: str) -> tuple[Mount, ...]:
    """Show the repository of a workspace writable, but for its hooks and settings."""
    inner = os.path.join(workspace, ".git")
    if os.path.islink(inner):
        return ()
    if os.path.isdir(inner):
        return tuple(_guard(inner))
    if os.path.isfile(inner):
        return tuple(_worktree(inner))
    return ()


def _guard(folder: str) -> Iterator[Mount]:
    """A folder that is a mount cannot be renamed, so another one cannot take its place."""
    yield Mount("write", folder)
    for name in _READ_ONLY:
        path = os.path.join(folder, name)
        if name == "hooks" and not os.path.lexists(path):
            os.makedirs(path, exist_ok=True)
        if os.path.lexists(path) and not os.path.islink(path):
            yield Mount("read", path)


def _worktree(file: str) -> Iterator[Mount]:
    """Show the repository of a worktree, if that one says that the worktree is its own."""
    yield Mount("read", file)
    own = os.path.realpath(_line(file).removeprefix("gitdir:").strip())
    if os.path.realpath(_line(os.path.join(own, "gitdir"))) != os.path.realpath(file):
        return
    common = os.path.realpath(os.path.join(own, _line(os.path.join(own, "commondir"))))
    if os.path.isdir(os.path.join(common, "objects")) and os.path.dirname(os.path.dirname(own)) == common:
        yield from _guard(common)


def _line(path: str) -> str:
    """Return the first line of a small plain file; empty if there is none."""
    try:
        if not os.path.isfile(path):
            return ""
        with open(path, "rb") as file:
            return os.fsdecode(file.read(_MAX_BYTES).split(b"\n")[0]).strip()
    except OSError:
        return ""
