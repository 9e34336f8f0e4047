"""Makes sure that a jail shows the files that were looked at: a program in another jail of the workspace may swap them for links.

Rules: folders in a workspace are opened one by one, and links are not followed. What is mounted of them is known by its device
and inode, which are compared inside, before the program starts.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from pilothouse.isolation.profile import Kind, Mount
from pilothouse.isolation.system import is_system

SWAPPED = "Files of the workspace's git repository, or its .pilothouse.toml, were replaced while the jail was made. Try again."
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_SYSTEM_PATH = "/usr/bin:/bin"
_CANNOT_START = 126


@contextmanager
def open_folder(name: str, at: int | None = None) -> Iterator[int]:
    """Open a folder that is no link, in an open one or by its path. Raises `OSError`."""
    descriptor = os.open(name, _FOLDER, dir_fd=at)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def make_folders(folder: str, parts: Iterable[str]) -> None:
    """Make folders, each in the one before, without following a link. Raises `OSError`."""
    with open_folder(folder) as place:
        for part in parts:
            try:
                inner = os.open(part, _FOLDER, dir_fd=place)
            except FileNotFoundError:
                os.mkdir(part, dir_fd=place)
                inner = os.open(part, _FOLDER, dir_fd=place)
            os.dup2(inner, place, inheritable=False)
            os.close(inner)


def state_of(name: str, at: int | None = None) -> os.stat_result | None:
    """Return the state of a file, or of the link in its place; None if there is none."""
    try:
        return os.stat(name, dir_fd=at, follow_symlinks=False)
    except FileNotFoundError:
        return None


def pinned(kind: Kind, target: str, state: os.stat_result, source: str = "") -> Mount:
    """Mount exactly the file or folder that has this state."""
    return Mount(kind, target, source, f"{state.st_dev}:{state.st_ino}")


def check_words(mounts: Iterable[Mount]) -> list[str]:
    """Return the words before a command that end it where another file was mounted; none where the system has no `stat`."""
    found, program = [mount for mount in mounts if mount.identity], _find_stat()
    if not found or not program:
        return []
    paths, expected = shlex.join(mount.target for mount in found), " ".join(one.identity for one in found)
    same = f'[ "$(echo $({shlex.quote(program)} -c %d:%i -- {paths}))" = "{expected}" ]'
    failed = f"{{ echo {shlex.quote(SWAPPED)} >&2; exit {_CANNOT_START}; }}"
    return ["/bin/sh", "-c", f'{same} || {failed}; exec "$@"', "sh"]


def _find_stat() -> str:
    """Find the program where a jail shows it: its link may lie elsewhere, and its own name tells it what to do."""
    program = shutil.which("stat", path=f"{_SYSTEM_PATH}:{os.environ.get('PATH', '')}") or ""
    while os.path.islink(program) and not is_system(program):
        program = os.path.join(os.path.dirname(program), os.readlink(program))
    return program if is_system(program) else ""
