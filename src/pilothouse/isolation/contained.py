"""Turns a start into that of a container, and notes it in its scratch folder, so that one of a killed gateway is removed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from pilothouse.core.engine import ProcessStart
from pilothouse.core.isolation import Isolation
from pilothouse.isolation import relay
from pilothouse.isolation.container import (
    Box,
    Runtime,
    client_environment,
    comma_problem,
    container_words,
    flat,
)
from pilothouse.isolation.container_files import lay_out, prepare, transcripts
from pilothouse.isolation.limits import bounds_of
from pilothouse.isolation.pins import check_words
from pilothouse.isolation.profile import Mount, Profile, mounts
from pilothouse.isolation.runtime import remove_container, root_words
from pilothouse.isolation.system import is_system
from pilothouse.processes.errors import SpawnFailed, SpawnProblem

NOTE = "container"
PYTHON = "python3"


def contain(
    start: ProcessStart, isolation: Isolation, profile: Profile, scratch: Path, runtime: Runtime
) -> ProcessStart:
    """Raises `SpawnFailed` where a path cannot be mounted."""
    container = isolation.container
    has_own_root = not (container.image or container.rootfs)
    shown = lay_out(scratch / "workspace", start, isolation)
    profile = msgspec.structs.replace(
        profile,
        system=(*(profile.system if has_own_root else ()), *shown[:1]),
        own=(*profile.own, *shown[1:], *transcripts(profile.workspace), *_relay(has_own_root)),
    )
    found = flat(mounts(profile))
    if problem := comma_problem(found):
        raise SpawnFailed(problem, argv0=start.argv[0], cwd=start.cwd, reason=SpawnProblem.BAD_ARGUMENT)
    root, covers = scratch / "root", scratch / "covers"
    prepare(found, root if has_own_root else None, covers, scratch)
    box = Box(
        container_name(scratch),
        runtime,
        root_words(container, root),
        str(covers),
        bounds_of(isolation),
        os.geteuid(),
        os.getegid(),
    )
    environment = start.environment if has_own_root else _without_path(start.environment)
    argv = start.argv if has_own_root else image_argv(start.argv, start.environment.get("PATH", os.defpath))
    checks = check_words((*profile.guarded, *profile.own)) if has_own_root else ()
    words = container_words(box, profile, environment, [*checks, *argv])
    outside = {**environment, **client_environment(os.environ)}
    return msgspec.structs.replace(start, argv=words, environment=outside)


def _relay(has_own_root: bool) -> tuple[Mount, ...]:
    return () if has_own_root else (Mount("read", relay.__file__),)


def _without_path(environment: Mapping[str, str]) -> dict[str, str]:
    """An image has a PATH of its own."""
    return {name: value for name, value in environment.items() if name != "PATH"}


def image_argv(argv: Sequence[str], path: str) -> list[str]:
    """Name programs of this machine's system by their bare names: an image brings its own."""
    at = list(argv).index("--") + 1 if relay.__file__ in argv[:4] else 0
    names = {0: PYTHON, at: os.path.basename(argv[at])} if at else {0: os.path.basename(argv[0])}
    found = list(argv)
    for index, name in names.items():
        if is_system(os.path.realpath(shutil.which(argv[index], path=path) or argv[index])):
            found[index] = name
    return found


def container_name(scratch: Path) -> str:
    return f"pilothouse-{scratch.name}"


def note_container(scratch: Path, command: Sequence[str]) -> None:
    (scratch / NOTE).write_bytes(msgspec.json.encode(list(command)))


def remove_noted(scratch: Path) -> None:
    """Remove the container of a killed gateway, if there was one."""
    try:
        command = msgspec.json.decode((scratch / NOTE).read_bytes(), type=list[str])
    except (OSError, msgspec.DecodeError):
        return
    remove_container(command, container_name(scratch))
