"""The parts of a git repository that run programs outside of a jail: an agent inside must not write them.

A commit must still be possible, with the author that the user's own git settings name, also in a worktree, whose repository lies
elsewhere. A repository that names a folder by a link is not followed: anybody may have made the link.
"""

from __future__ import annotations

import glob
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from pilothouse.isolation.profile import Mount

_READ_ONLY = ("hooks", "config", "config.worktree", "modules")
"""A commit in a submodule is not possible inside: its settings lie among what a commit writes."""
_MAX_BYTES = 4096
_ITSELF = "."
_SETTINGS = (".gitconfig", ".config/git/config")
_AUTHOR = ("git", "config", "--global", "--includes", "--null", "--get-regexp", r"^user\.(name|email)$")
_WITHIN_S = 5.0


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
    """A folder that is a mount cannot be renamed, so another one cannot take its place.

    git takes settings and hooks from the folder that `commondir` names. One that names another folder is not ours to judge."""
    common = os.path.join(folder, "commondir")
    guarded = [*(os.path.join(folder, name) for name in _READ_ONLY), common, *_worktree_files(folder)]
    if any(map(os.path.islink, guarded)) or not _make_guarded(folder, common) or _line(common) != _ITSELF:
        yield Mount("read", folder)
        return
    yield Mount("write", folder)
    yield from (Mount("read", path) for path in guarded if os.path.lexists(path))


def _make_guarded(folder: str, common: str) -> bool:
    """Make what is missing of the guarded parts, or a program inside could make it; return whether they are there."""
    try:
        if not os.path.lexists(os.path.join(folder, "hooks")):
            os.makedirs(os.path.join(folder, "hooks"))
        if not os.path.lexists(common):
            with open(common, "x", encoding="ascii") as file:
                file.write(f"{_ITSELF}\n")
    except OSError:
        return False
    return True


def _worktree_files(folder: str) -> Iterator[str]:
    """Return the files of the repository's worktrees that name its settings."""
    for name in ("commondir", "config.worktree"):
        yield from glob.glob(os.path.join(glob.escape(folder), "worktrees", "*", name))


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


def write_author(home: str, private_home: Path) -> None:
    """Write the author of commits into the private home, and none of the user's other settings: they may hold logins."""
    if not any(os.path.isfile(os.path.join(home, name)) for name in _SETTINGS):
        return
    environment = {"HOME": home, "PATH": os.environ.get("PATH", os.defpath)}
    try:
        done = subprocess.run(
            _AUTHOR, env=environment, cwd="/", capture_output=True, timeout=_WITHIN_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return
    found = dict(row.split("\n", 1) for row in os.fsdecode(done.stdout).split("\0") if "\n" in row)
    lines = [f"\t{key.removeprefix('user.')} = {_quoted(value)}\n" for key, value in found.items()]
    if lines:
        (private_home / ".gitconfig").write_text("".join(["[user]\n", *lines]), "utf-8", "surrogateescape")


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
