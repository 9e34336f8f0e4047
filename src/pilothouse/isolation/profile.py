"""Mounts of a jailed program, as arguments of bubblewrap. Pure.

Rule: a path exists inside only if a mount here names it. Later mounts lie on top of earlier ones, so the order is the
meaning: system, private home and /tmp, folders that may be read, folders that may be written, the workspace, and last what
the program itself needs. What is ours is hidden in each of them, so only a mount that lies inside of it shows a part.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from msgspec import Struct

from pilothouse.core.isolation import INSIDE_USER

Kind = Literal["read", "write", "empty", "hide_file", "link"]
_FLAGS: dict[str, str] = {"read": "--ro-bind-try", "write": "--bind-try", "link": "--symlink"}


class Mount(Struct, frozen=True):
    """`source` is a path of the machine; for a link, its text."""

    kind: Kind
    target: str
    source: str = ""
    identity: str = ""
    """Device and inode of what must be mounted, if it could be swapped meanwhile."""

    def words(self) -> list[str]:
        if self.kind == "empty":
            return ["--tmpfs", self.target]
        if self.kind == "hide_file":
            return ["--ro-bind", "/dev/null", self.target]
        return [_FLAGS[self.kind], self.source or self.target, self.target]


class Profile(Struct, frozen=True):
    """One jail. All paths are absolute and real, but for `aliases`."""

    workspace: str
    home: str
    private_home: str
    """The folder of the machine that is the home folder inside."""
    system: tuple[Mount, ...] = ()
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    aliases: tuple[Mount, ...] = ()
    """Show folders under other names too: the operator wrote a link."""
    hidden: tuple[Mount, ...] = ()
    """Cover our own files and folders wherever a mount would show them."""
    guarded: tuple[Mount, ...] = ()
    """Parts of the workspace that are protected from change."""
    own: tuple[Mount, ...] = ()
    """Files that the program and its helpers need."""
    cwd: str = ""
    shares_network: bool = True
    is_root: bool = False
    limiter: tuple[str, ...] = ()
    """Words before the program that limit what it may use."""


def jail_arguments(profile: Profile, argv: Sequence[str]) -> list[str]:
    """Return the arguments of bubblewrap that start `argv` inside."""
    words = ["--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    if profile.is_root:
        words += ["--uid", str(INSIDE_USER), "--gid", str(INSIDE_USER)]
    if not profile.shares_network:
        words.append("--unshare-net")
    words += ["--die-with-parent", "--cap-drop", "ALL", "--hostname", "jail"]
    words += ["--dev", "/dev", "--proc", "/proc"]
    for mount in mounts(profile):
        words += mount.words()
    words += ["--chdir", profile.cwd or profile.workspace, "--"]
    return [*words, *profile.limiter, *argv]


def mounts(profile: Profile) -> list[Mount]:
    """Return every mount, in the order in which they are made."""
    around = [
        *profile.system,
        Mount("write", profile.home, profile.private_home),
        *(Mount("read", path) for path in profile.read),
        *(Mount("write", path) for path in profile.write),
        *profile.aliases,
    ]
    workspace = Mount("write", profile.workspace)
    return [
        *around,
        *(cover for mount in around for cover in _covers(profile.hidden, mount)),
        workspace,
        *_covers(profile.hidden, workspace),
        *profile.guarded,
        *(one for mount in profile.own for one in (mount, *_covers(profile.hidden, mount))),
    ]


def _covers(hidden: Iterable[Mount], mount: Mount) -> Iterator[Mount]:
    """Cover what is ours in what a mount shows, under the name that it has there."""
    source = mount.source or mount.target
    for cover in hidden:
        if mount.kind in ("read", "write") and is_within(cover.target, source):
            inside = os.path.join(mount.target, os.path.relpath(cover.target, source))
            yield Mount(cover.kind, os.path.normpath(inside))


def is_within(path: str, folder: str) -> bool:
    return folder in (path, "/") or path.startswith(folder.rstrip("/") + "/")


def refusal(workspace: str, home: str, hidden: Iterable[str], lanes: str = "") -> str:
    """Say why a folder cannot be the workspace of a jail; empty if it can. `lanes` holds the worktrees of lanes: each may be one,
    though it lies among what is hidden."""
    if workspace == "/":
        return "A workspace that is / cannot be jailed: everything would be inside."
    if is_within(home, workspace):
        return f"The workspace {workspace} holds the home folder, so a jail would hide nothing. Use a folder below it."
    is_lane = bool(lanes) and workspace != lanes and is_within(workspace, lanes)
    if not is_lane and any(is_within(workspace, path) for path in hidden):
        return f"The workspace {workspace} is inside Pilothouse's own folders. Use another one."
    return ""
