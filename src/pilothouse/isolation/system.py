"""The part of this machine that every jail shows read-only, and the programs that jails are made with."""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from pilothouse.isolation.profile import Mount, is_within

FOLDERS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix", "/gnu")
SECRETS = ("/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers", "/etc/sudoers.d")
SECRETS += ("/etc/ssl/private", "/etc/ssh", "/etc/security/opasswd", "/etc/krb5.keytab", "/etc/wireguard")
"""Files of /etc that are hidden where this user may read them."""
ADMINISTERED = ("/etc", "/opt", "/usr/local/etc")
"""A jail of root shows what root may read: here it hides what other users cannot."""
PRIVATE = ("/tmp", "/var/tmp", "/run")  # noqa: S108 - folders inside, which are empty
_RESOLVER = "/etc/resolv.conf"
_INTERPRETERS = re.compile(r"node|bun|deno|python(3(\.\d+)?)?")
_PREFIX_PARTS = ("bin", "lib", "lib64")


def system_mounts() -> tuple[Mount, ...]:
    """Return the system, with an empty /tmp, /dev and /proc of the jail's own, and no secrets."""
    empty = (Mount("empty", path) for path in PRIVATE)
    return (*_folders(), *system_secrets(), *empty, *_resolver())


def _folders() -> Iterator[Mount]:
    for folder in FOLDERS:
        if os.path.islink(folder):
            yield Mount("link", folder, os.readlink(folder))
        elif os.path.isdir(folder):
            yield Mount("read", folder)


def _resolver() -> Iterator[Mount]:
    """Show the file behind a link to /run, which is empty inside."""
    real = os.path.realpath(_RESOLVER)
    if os.path.isfile(real) and not is_system(real):
        yield Mount("read", real)


def system_secrets() -> Iterator[Mount]:
    """Hide what exists now: bubblewrap cannot cover what is missing."""
    for path in (*SECRETS, *(_closed_of_root() if os.geteuid() == 0 else ())):
        if os.path.exists(path) and os.access(path, os.R_OK):
            yield Mount("empty" if os.path.isdir(path) else "hide_file", path)


@lru_cache(maxsize=1)
def _closed_of_root() -> tuple[str, ...]:
    """Look once per process: there are thousands of files."""
    return tuple(path for folder in ADMINISTERED for path in closed_paths(folder))


def closed_paths(folder: str) -> Iterator[str]:
    """Yield the files and folders below this one that others than owner and group cannot open. Links are not followed."""
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        if entry.path in SECRETS or entry.is_symlink():
            continue
        needed = stat.S_IXOTH if entry.is_dir() else stat.S_IROTH
        try:
            is_open = entry.stat(follow_symlinks=False).st_mode & needed
        except OSError:
            continue
        if not is_open:
            yield entry.path
        elif entry.is_dir():
            yield from closed_paths(entry.path)


def is_system(path: str, private: Sequence[str] = ()) -> bool:
    """Tell whether every jail shows this path. `private` are folders and files that it covers."""
    if any(is_within(path, one) for one in private):
        return False
    return any(is_within(path, folder) for folder in FOLDERS)


def program_mounts(program: str, path: str, private: Sequence[str] = ()) -> tuple[Mount, ...]:
    """Show a program that lies outside of the system: its file, or the packages that a script of npm belongs to, and the
    interpreter that its first line names. `private` are real folders and files that this must not show."""
    found = shutil.which(program, path=path) or program
    shown = dict.fromkeys(_program_paths(found, path, private))
    return tuple(Mount("read", one) for one in shown if not is_system(one, private))


def _program_paths(program: str, path: str, private: Sequence[str]) -> Iterator[str]:
    real = os.path.realpath(program)
    if not os.path.isfile(real):
        return
    yield from _package(Path(real), private)
    yield program
    if interpreter := _interpreter(real, path):
        yield from _program_paths(interpreter, path, private)


def _package(real: Path, private: Sequence[str]) -> Iterator[str]:
    """Yield the outermost `node_modules` around a file, the prefix of an interpreter, or the file alone."""
    if "node_modules" in real.parts:
        yield str(Path(*real.parts[: real.parts.index("node_modules") + 1]))
    elif _INTERPRETERS.fullmatch(real.name) and real.parent.name == "bin":
        yield from _prefix(real.parent.parent, private)
    else:
        yield str(real)


def _prefix(folder: Path, private: Sequence[str]) -> Iterator[str]:
    """Yield a prefix, or only what an interpreter needs of one that other things lie in: ~/.local, or the home folder."""
    if any(is_within(one, str(folder)) for one in private):
        yield from (str(folder / name) for name in _PREFIX_PARTS)
    else:
        yield str(folder)


def _interpreter(program: str, path: str) -> str:
    """Return the program that the first line of a script names; empty if it is no script."""
    try:
        with open(program, "rb") as file:
            head = file.read(256)
    except OSError:
        return ""
    if not head.startswith(b"#!"):
        return ""
    words = os.fsdecode(head[2:].split(b"\n")[0]).split()
    names = (
        [word for word in words[1:] if not word.startswith("-")]
        if words and words[0].endswith("/env")
        else words
    )
    return (shutil.which(names[0], path=path) or "") if names else ""
