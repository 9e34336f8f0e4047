"""Tells whether podman or docker can make a container on this machine, by making one; and removes containers."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from pilothouse.core.isolation import Container
from pilothouse.isolation.container import Box, Runtime, client_environment, container_words, flat
from pilothouse.isolation.container_files import prepare
from pilothouse.isolation.limits import MB, Bounds
from pilothouse.isolation.profile import Mount, Profile, mounts
from pilothouse.isolation.system import system_mounts

WITHIN_S = 20.0
REMOVE_WITHIN_S = 20.0
INITS = ("/usr/libexec/podman/catatonit", "/usr/lib/podman/catatonit", "/usr/bin/catatonit")
LOWER_RUNTIMES = ("crun", "runc")
TRIAL = Bounds(64, 256, 512 * MB)

INSTALL = "sudo apt install podman"
NO_LINUX = (
    "Containers need Linux, and this is {name}. Run Pilothouse on Linux, in a virtual machine or a container."
)
MISSING = (
    f"Neither podman nor docker is installed. Install one: {INSTALL} (or your system's package of that name)."
)
NO_PROGRAM = 'The container runtime {runtime!r} is not there. Install it, or correct "runtime" in [isolation.container].'
NO_ROOT = 'The root folder {rootfs} does not exist. Make it, or correct "rootfs" in [isolation.container].'
NEEDS_IMAGE = (
    "docker makes containers from images alone. Set an image in [isolation.container], or install podman, which can show "
    "this machine's own system."
)
NO_IMAGE = "The image {image} is not on this machine. Fetch it: {program} pull {image}. Pilothouse never fetches one by itself."
NO_SUBUID = (
    "podman without root needs ids of its own for your user. Add them: sudo usermod --add-subuids 100000-165535 "
    "--add-subgids 100000-165535 {user}; then: podman system migrate."
)
NO_DAEMON = "docker cannot reach its service: {said}. Start it (sudo systemctl start docker), and let your user use it."
HANGS = "{program} started no container within {within:g} s. Try it by hand: {program} info."
FAILED = "{program} can make no container here: {said}."


def find_runtime(container: Container) -> Runtime:
    """Try a small container. Blocks for a second."""
    return try_runtime(container)


def try_runtime(container: Container, path: str | None = None, within_s: float = WITHIN_S) -> Runtime:
    if sys.platform != "linux":
        return Runtime(problem=NO_LINUX.format(name=sys.platform))
    names = [container.runtime] if container.runtime else ["podman", "docker"]
    program = next((found for name in names if (found := shutil.which(name, path=path))), "")
    if not program:
        return Runtime(problem=NO_PROGRAM.format(runtime=container.runtime) if container.runtime else MISSING)
    if container.rootfs and not os.path.isdir(container.rootfs):
        return Runtime(program, problem=NO_ROOT.format(rootfs=container.rootfs))
    try:
        return _look(program, container, path, within_s)
    except OSError as error:
        return Runtime(program, problem=FAILED.format(program=program, said=error.strerror))
    except subprocess.TimeoutExpired:
        return Runtime(program, problem=HANGS.format(program=program, within=within_s))


def _look(program: str, container: Container, path: str | None, within_s: float) -> Runtime:
    version = _run([program, "--version"], within_s).stdout
    is_docker = "docker version" in version.lower()
    if is_docker and not container.image:
        return Runtime(program, is_docker=True, problem=NEEDS_IMAGE)
    plain = Runtime(program, (), is_docker, is_docker or any(map(os.path.exists, INITS)))
    found = _attempt(plain, container, within_s)
    if is_docker or not found.problem:
        return found
    for name in (name for name in LOWER_RUNTIMES if shutil.which(name, path=path)):
        other = _attempt(msgspec.structs.replace(plain, options=("--runtime", name)), container, within_s)
        if not other.problem:
            return other
    return found


def _attempt(runtime: Runtime, container: Container, within_s: float) -> Runtime:
    with tempfile.TemporaryDirectory(prefix="pilothouse-", ignore_cleanup_errors=True) as made:
        folder = Path(made).resolve()
        for name in ("work", "home", "covers"):
            (folder / name).mkdir()
        system: tuple[Mount, ...] = () if container.image or container.rootfs else system_mounts()
        profile = Profile(
            str(folder / "work"), "/home/pilothouse", str(folder / "home"), system, shares_network=False
        )
        root = root_words(container, folder / "root")
        prepare(
            flat(mounts(profile)),
            None if container.image or container.rootfs else folder / "root",
            folder / "covers",
            folder,
        )
        box = Box(folder.name, runtime, root, str(folder / "covers"), TRIAL, os.geteuid(), os.getegid())
        try:
            done = _run(container_words(box, profile, {}, ["/bin/sh", "-c", "exit 0"]), within_s)
        finally:
            remove_container([runtime.program, *runtime.options], box.name)
    problem = explain(done.stderr, runtime.program, container) if done.returncode else ""
    return msgspec.structs.replace(runtime, problem=problem)


def root_words(container: Container, own: Path) -> tuple[str, ...]:
    """Name the root of a container: an image, a folder of the operator that stays as it is, or one of ours."""
    if container.image:
        return (container.image,)
    return ("--rootfs", f"{container.rootfs}:O" if container.rootfs else str(own))


def explain(said: str, program: str, container: Container) -> str:
    """Say what to do about the words of a runtime that failed."""
    lines = said.strip().splitlines() or ["no reason given"]
    last = lines[-1].removeprefix("Error: ").removeprefix("docker: ").rstrip(".")
    text = said.lower()
    if "subuid" in text or "subgid" in text:
        return NO_SUBUID.format(user=os.environ.get("USER") or "YOUR_NAME")
    if "docker daemon" in text or "docker.sock" in text:
        return NO_DAEMON.format(said=last)
    if container.image and any(
        words in text for words in ("no such image", "image not known", "unable to find image")
    ):
        return NO_IMAGE.format(image=container.image, program=program)
    return FAILED.format(program=program, said=last)


def remove_container(command: Sequence[str], name: str) -> None:
    """End a container with everything in it, if it is still there."""
    try:
        _run([*command, "rm", "--force", name], REMOVE_WITHIN_S)
    except (OSError, subprocess.TimeoutExpired):
        return  # its processes carry our marker: the next start of the gateway ends them


def _run(argv: Sequence[str], within_s: float) -> subprocess.CompletedProcess[str]:
    """Raises `TimeoutExpired` once the program and its children were ended."""
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        argv,
        env=client_environment(os.environ),
        stdin=subprocess.DEVNULL,
        stdout=pipe,
        stderr=pipe,
        text=True,
        errors="replace",
        start_new_session=True,
        cwd="/",
    )
    with process:
        try:
            told, said = process.communicate(timeout=within_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(argv, process.returncode, told, said)
