"""Mounts of a contained program, as words for podman or docker. Pure, but for looks at which paths exist.

The mounts are those of a jail. Runtimes make them by depth, not in the order in which they are given, so what a later mount
covers is left out here. Nothing is mounted by `tmpfs`: podman would copy into it what it is meant to hide.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from pilothouse.core.isolation import INSIDE_USER
from pilothouse.isolation.limits import Bounds
from pilothouse.isolation.profile import Mount, Profile, is_within, mounts

NAMES = 65_536
"""User ids that exist inside."""
CLIENT = (
    "HOME",
    "PATH",
    "USER",
    "LOGNAME",
    "LANG",
    "TMPDIR",
    "XDG_RUNTIME_DIR",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "DBUS_SESSION_BUS_ADDRESS",
    "DOCKER_HOST",
    "DOCKER_CONTEXT",
    "DOCKER_CONFIG",
    "CONTAINERS_CONF",
    "CONTAINERS_STORAGE_CONF",
)
"""Variables by which podman and docker find their own things: they get the gateway's, whatever the engine has."""
MARKERS = ("PILOTHOUSE_PROCESS",)
"""Variables that the launcher adds: what carries them belongs to the process."""
COMMA = "The path {path} has a comma in its name, so podman and docker cannot mount it. Rename it."


class Runtime(Struct, frozen=True):
    """`problem` says why no container can be made, and what to do; empty if one can. `options` stand before the command."""

    program: str = ""
    options: tuple[str, ...] = ()
    is_docker: bool = False
    has_init: bool = False
    problem: str = ""


class Box(Struct, frozen=True):
    """One container. `root` is an image, or words for a root folder; `covers` is a folder of ours for empty mounts."""

    name: str
    runtime: Runtime
    root: tuple[str, ...]
    covers: str
    bounds: Bounds
    user: int
    group: int


def container_words(
    box: Box, profile: Profile, environment: Mapping[str, str], argv: Sequence[str]
) -> list[str]:
    """Return the command that starts `argv` inside."""
    runtime = box.runtime
    words = [runtime.program, *runtime.options, "run", "--rm", "--interactive", "--name", box.name]
    words += ["--hostname", "container", "--log-driver", "none", "--read-only", "--cap-drop", "ALL"]
    words += ["--security-opt", "no-new-privileges", "--security-opt", "label=disable", "--pull", "never"]
    words += ["--network", "host" if profile.shares_network else "none"]
    words += [*(["--init"] if runtime.has_init else []), *_user(box), *_limits(box)]
    for mount in flat(mounts(profile)):
        words += _mount(mount, box.covers)
    for name in (*sorted(environment), *MARKERS):
        words += ["--env", f"{name}={environment[name]}" if name in CLIENT else name]
    words += ["--workdir", os.path.realpath(profile.cwd or profile.workspace), "--entrypoint", ""]
    return [*words, *box.root, *argv]


def _user(box: Box) -> list[str]:
    """Be the gateway's user outside, and never root inside if that can be had: programs such as Claude Code refuse some things
    to root. The files of the workspace stay the gateway's."""
    if box.runtime.is_docker:
        return ["--user", f"{box.user}:{box.group}"]
    if box.user:
        return ["--userns", "keep-id"]
    below = ["--uidmap", f"0:1:{INSIDE_USER}", "--uidmap", f"{INSIDE_USER}:0:1"]
    above = ["--uidmap", f"{INSIDE_USER + 1}:{INSIDE_USER + 1}:{NAMES - INSIDE_USER - 1}"]
    return [*below, *above, "--user", f"{INSIDE_USER}:{INSIDE_USER}"]


def _limits(box: Box) -> list[str]:
    bounds = box.bounds
    words = ["--pids-limit", str(bounds.processes), "--memory", str(bounds.memory_bytes)]
    words += ["--memory-swap", str(bounds.memory_bytes), "--ulimit", "core=0:0"]
    words += ["--ulimit", f"nofile={bounds.open_files}:{bounds.open_files}"]
    if not box.runtime.is_docker:  # docker's would count all processes of the user
        words += ["--ulimit", f"nproc={bounds.processes}:{bounds.processes}"]
    return words


def flat(found: Iterable[Mount]) -> list[Mount]:
    """Leave out what a later mount covers, and order by depth."""
    kept: list[Mount] = []
    for mount in found:
        kept = [one for one in kept if not is_within(one.target, mount.target)]
        kept.append(mount)
    return sorted(kept, key=lambda one: (one.target.count("/"), one.target))


def cover_of(mount: Mount, covers: str) -> str:
    """Return the folder of ours that lies on a path in order to hide what is there."""
    return os.path.join(covers, mount.target.strip("/").replace("/", "%"))


def source_of(mount: Mount, covers: str) -> str:
    if mount.kind == "empty":
        return cover_of(mount, covers)
    return "/dev/null" if mount.kind == "hide_file" else mount.source or mount.target


def _mount(mount: Mount, covers: str) -> Iterator[str]:
    source = source_of(mount, covers)
    if mount.kind == "link" or not os.path.exists(source):
        return
    read_only = "" if mount.kind in ("write", "empty") else ",readonly"
    yield from ("--mount", f"type=bind,source={source},destination={mount.target}{read_only}")


def comma_problem(found: Iterable[Mount]) -> str:
    """Say which path cannot be mounted; empty if all can."""
    paths = [path for mount in found for path in (mount.target, mount.source) if "," in path]
    return COMMA.format(path=paths[0]) if paths else ""


def client_environment(gateway: Mapping[str, str]) -> dict[str, str]:
    return {name: gateway[name] for name in CLIENT if name in gateway}
