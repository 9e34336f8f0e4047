"""The part of this machine that every jail shows read-only, and the programs that jails are made with."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from pilothouse.isolation.profile import Mount, is_within

FOLDERS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix", "/gnu")
SECRETS = ("/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers", "/etc/sudoers.d")
SECRETS += ("/etc/ssl/private", "/etc/ssh", "/etc/security/opasswd", "/etc/krb5.keytab", "/etc/wireguard")
"""Of /etc, hidden where this user may read them: a gateway of root could show them."""
PRIVATE = ("/tmp", "/var/tmp", "/run")  # noqa: S108 - folders inside, which are empty
_RESOLVER = "/etc/resolv.conf"


@lru_cache(maxsize=1)
def system_mounts() -> tuple[Mount, ...]:
    """Return the system, with an empty /tmp, /dev and /proc of the jail's own, and no secrets."""
    empty = (Mount("empty", path) for path in PRIVATE)
    return (*_folders(), *_secrets(), *empty, *_resolver())


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


def _secrets() -> Iterator[Mount]:
    for path in SECRETS:
        if os.path.exists(path) and os.access(path, os.R_OK):
            yield Mount("empty" if os.path.isdir(path) else "hide_file", path)


def is_system(path: str) -> bool:
    """Tell whether every jail shows this path."""
    return any(is_within(path, folder) for folder in FOLDERS)


def program_mounts(program: str, path: str) -> tuple[Mount, ...]:
    """Show a program that lies outside of the system: its file, or the packages that a script of npm belongs to, and the
    interpreter that its first line names."""
    found = shutil.which(program, path=path) or program
    return tuple(
        Mount("read", one) for one in dict.fromkeys(_program_paths(found, path)) if not is_system(one)
    )


def _program_paths(program: str, path: str) -> Iterator[str]:
    real = os.path.realpath(program)
    if not os.path.isfile(real):
        return
    yield from _package(real)
    yield program
    if interpreter := _interpreter(real, path):
        yield from _program_paths(interpreter, path)


def _package(real: str) -> Iterator[str]:
    """Yield the outermost `node_modules` around a file, the prefix of an interpreter, or the file alone."""
    parts = Path(real).parts
    if "node_modules" in parts:
        yield str(Path(*parts[: parts.index("node_modules") + 1]))
    elif Path(real).name.startswith(("node", "python", "bun", "deno")) and Path(real).parent.name == "bin":
        yield str(Path(real).parent.parent)
    else:
        yield real


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
