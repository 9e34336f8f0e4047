"""Lists what the jail of one start shows: its workspace, what the operator allows, its program and what that needs."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct

from pilothouse.core.engine import ProcessStart
from pilothouse.core.isolation import WORKSPACE_FILE_NAME, Isolation
from pilothouse.isolation.network import Wiring
from pilothouse.isolation.pins import pinned, state_of
from pilothouse.isolation.profile import Mount, Profile, is_within
from pilothouse.isolation.repository import repository_mounts
from pilothouse.isolation.system import is_system, program_mounts, system_mounts, system_secrets
from pilothouse.isolation.uploads import uploads_mounts


class Places(Struct, frozen=True):
    """Paths of Pilothouse's own files."""

    scratch: str
    """The folder for the private homes of jails."""
    hidden: tuple[str, ...]
    """Folders and files."""
    home: str
    uploads: str = ""
    """The folder for files that people send, with one of its own for each workspace."""


def make_profile(
    start: ProcessStart,
    isolation: Isolation,
    places: Places,
    home: str,
    private_home: Path,
    wiring: Wiring,
) -> Profile:
    """Return the jail of one start."""
    workspace = os.path.realpath(start.workspace)
    hidden = tuple(_covers(places.hidden))
    covers = (*hidden, *system_secrets())
    private = (home, os.path.realpath(home), *(cover.target for cover in covers))
    allowed = (workspace, *map(os.path.realpath, (*isolation.allow_read, *isolation.allow_write)))
    aliases = (
        *_aliases("read", isolation.allow_read, allowed),
        *_aliases("write", isolation.allow_write, allowed),
    )
    shown = (*allowed, *(mount.target for mount in aliases))
    own = [
        *_needed(start, private, shown),
        *uploads_mounts(places.uploads, workspace),
        *wiring.mounts,
    ]
    seen = (*shown, home)
    if start.workspace != workspace and not any(is_within(start.workspace, above) for above in seen):
        own.append(Mount("link", start.workspace, workspace))
    return Profile(
        workspace,
        home,
        str(private_home),
        system_mounts(),
        read=tuple(map(os.path.realpath, isolation.allow_read)),
        write=tuple(map(os.path.realpath, isolation.allow_write)),
        aliases=aliases,
        hidden=hidden,
        guarded=(*repository_mounts(workspace), *_workspace_file(workspace)),
        own=tuple(own),
        cwd=start.cwd,
        shares_network=wiring.shares_network,
        is_root=os.geteuid() == 0,
    )


def _workspace_file(workspace: str) -> Iterator[Mount]:
    """Protect the file that narrows what may be done in the workspace: the next start obeys it."""
    file = os.path.join(workspace, WORKSPACE_FILE_NAME)
    state = state_of(file)
    if state and not stat.S_ISLNK(state.st_mode):
        yield pinned("read", file, state)


def _aliases(kind: Literal["read", "write"], paths: Iterable[str], shown: Sequence[str]) -> Iterator[Mount]:
    """Show folders under the names by which the operator wrote them, too. A link in what is shown is there already."""
    for path in paths:
        real = os.path.realpath(path)
        if path != real and not is_system(path) and not any(is_within(path, above) for above in shown):
            yield Mount(kind, path, real)


def _needed(start: ProcessStart, private: Sequence[str], shown: Sequence[str]) -> Iterator[Mount]:
    """Show what the program needs besides the system and what is `shown`."""
    needs, path = start.needs, start.environment.get("PATH", os.defpath)
    for program in (start.argv[0], *needs.programs):
        for mount in program_mounts(program, path, private):
            # bubblewrap cannot mount on a link that a folder shows already
            if not any(is_within(mount.target, above) for above in shown):
                yield mount
    yield from our_program(private)
    yield from (Mount("write", target, source) for target, source in needs.mounts.items())
    yield from (Mount("read", one, os.path.realpath(one)) for one in needs.read)
    yield from (Mount("write", one, os.path.realpath(one)) for one in needs.write)
    yield from (Mount("read", one) for one in needs.fixed if not os.path.islink(one))


def _covers(hidden: Iterable[str]) -> Iterator[Mount]:
    """Cover folders before what is in them. What does not exist needs no cover, and would be made on the machine."""
    for path in sorted(set(map(os.path.realpath, hidden))):
        if os.path.isdir(path):
            yield Mount("empty", path)
        elif os.path.exists(path):
            yield Mount("hide_file", path)


def our_program(private: Sequence[str]) -> Iterator[Mount]:
    """Show our Python and package, which the bridge to our tools runs with."""
    package = str(Path(__file__).parents[1])
    for path in dict.fromkeys((sys.base_prefix, sys.prefix, package)):
        if not is_system(path, private):
            yield Mount("read", path)
