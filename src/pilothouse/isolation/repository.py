"""The parts of a git repository that run programs outside of a jail: an agent inside must not write them.

A commit must still be possible, with the author that the user's own git settings name, also in a worktree, whose repository lies
elsewhere. A repository that names a folder by a link is not followed: anybody may have made the link.
"""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from pilothouse.isolation.pins import open_folder, pinned, state_of
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
    try:
        with open_folder(workspace) as place:
            found = state_of(".git", place)
            if found and stat.S_ISREG(found.st_mode):
                return tuple(_worktree(inner, place, found))
            with open_folder(".git", place) as own:
                return tuple(_guard(inner, own))
    except OSError:  # there is none, or a link, or it became one
        return ()


def _guard(folder: str, place: int) -> Iterator[Mount]:
    """A folder that is a mount cannot be renamed, so another one cannot take its place."""
    guarded = _guarded_parts(place)
    yield pinned("read" if guarded is None else "write", folder, os.fstat(place))
    for name, state in (guarded or {}).items():
        yield pinned("read", os.path.join(folder, name), state)


def _guarded_parts(place: int) -> dict[str, os.stat_result] | None:
    """Return what must not be written; None for a repository with links among it.

    git takes settings and hooks from the folder that `commondir` names. One that names another folder is not ours to judge."""
    try:
        _make_missing(place)
        if _line("commondir", place) != _ITSELF:
            return None
        states = {name: state_of(name, place) for name in (*_READ_ONLY, "commondir")}
        states |= _worktree_files(place)
    except OSError:
        return None
    found = {name: state for name, state in states.items() if state is not None}
    return None if any(stat.S_ISLNK(state.st_mode) for state in found.values()) else found


def _make_missing(place: int) -> None:
    """Make what is missing of the guarded parts, or a program inside could make it."""
    with suppress(FileExistsError):
        os.mkdir("hooks", dir_fd=place)
    with suppress(FileExistsError):
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open("commondir", flags, 0o666, dir_fd=place), "w", encoding="ascii") as file:
            file.write(f"{_ITSELF}\n")


def _worktree_files(place: int) -> dict[str, os.stat_result | None]:
    """Return the files of the repository's worktrees that name its settings. Raises `OSError` for a link to a folder."""
    if state_of("worktrees", place) is None:
        return {}
    found: dict[str, os.stat_result | None] = {}
    with open_folder("worktrees", place) as trees:
        for name in _names(trees):
            state = state_of(name, trees)
            if state is None or stat.S_ISREG(state.st_mode):
                continue
            with open_folder(name, trees) as tree:
                for file in ("commondir", "config.worktree"):
                    found[f"worktrees/{name}/{file}"] = state_of(file, tree)
    return found


def _names(place: int) -> list[str]:
    descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=place)
    try:
        return os.listdir(descriptor)
    finally:
        os.close(descriptor)


def _worktree(file: str, place: int, state: os.stat_result) -> Iterator[Mount]:
    """Show the repository of a worktree, if that one says that the worktree is its own."""
    yield pinned("read", file, state)
    own = os.path.realpath(_line(".git", place).removeprefix("gitdir:").strip())
    trees, name = os.path.split(own)
    common = os.path.dirname(trees)
    with (
        suppress(OSError),  # it is not the worktree of a repository
        open_folder(common) as shared,
        open_folder(os.path.basename(trees), shared) as all_trees,
        open_folder(name, all_trees) as tree,
    ):
        leads_back = os.path.realpath(_line("gitdir", tree)) == file
        leads_up = os.path.realpath(os.path.join(own, _line("commondir", tree))) == common
        objects = state_of("objects", shared)
        if leads_back and leads_up and objects and stat.S_ISDIR(objects.st_mode):
            yield from _guard(common, shared)


def _line(name: str, at: int) -> str:
    """Return the first line of a small plain file; empty if there is none."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        with open(os.open(name, flags, dir_fd=at), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return ""
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
