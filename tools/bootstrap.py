"""Make an environment with the locked packages: `bootstrap.py KIND ROOT FOLDER`, its stamp on standard input.

Only the standard library, for nothing else exists yet. Two at once: the second waits, then finds the work done.
A half-made environment is never used: the stamp is written last, and what has none is removed.
"""

import contextlib
import fcntl
import hashlib
import importlib.util
import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from pathlib import Path
from types import FrameType
from typing import NoReturn


class SetupError(Exception):
    """The environment cannot be made; the text says why, and what to do."""


OFFLINE_SIGNS = (
    "after connection broken by",
    "name resolution",
    "Failed to establish a new connection",
    "Network is unreachable",
    "dns error",
    "error sending request",
    "Could not connect",
    "Connection refused",
    "timed out",
)
OFFLINE = (
    "The packages cannot be downloaded: the package index is out of reach. The first start needs the network, or a proxy or an "
    "index of your own in pip's or uv's settings. Connect, then start again."
)


def say(text: str, end: str = "\n") -> None:
    print(text, end=end, file=sys.stderr, flush=True)


@contextlib.contextmanager
def step(label: str) -> Generator[None]:
    started = time.monotonic()
    say(f"  {label}", end=" ")
    try:
        yield
    except BaseException:
        say("")
        raise
    say(f"({time.monotonic() - started:.1f} s)")


def child_environment(env_bin: Path) -> dict[str, str]:
    """Keep what people set up for their package index, drop what would lead packages elsewhere."""
    strays = {"PYTHONHOME", "PYTHONPATH", "VIRTUAL_ENV", "PIP_TARGET", "PIP_PREFIX"}
    env = {name: value for name, value in os.environ.items() if name not in strays}
    env |= {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_ROOT_USER_ACTION": "ignore", "PIP_USER": "0"}
    # Without build isolation, uv_build looks for its own program on PATH.
    env["PATH"] = f"{env_bin}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    if cache := os.environ.get("PILOTHOUSE_CACHE_DIR"):
        env |= {"PIP_CACHE_DIR": f"{cache}/pip", "UV_CACHE_DIR": f"{cache}/uv"}
    return env


def call(root: Path, env: Path, *command: str | Path) -> None:
    done = subprocess.run(
        command,
        cwd=root,
        env=child_environment(env / "bin"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode:
        tail = "\n".join(f"    {line}" for line in done.stdout.splitlines()[-15:])
        why = f"{OFFLINE}\n  " if any(sign in done.stdout for sign in OFFLINE_SIGNS) else ""
        raise SetupError(f"{why}{Path(command[0]).name} failed with exit code {done.returncode}:\n{tail}")


def install_with_uv(base: Path, env: Path, root: Path, locks: list[str]) -> None:
    uv = str(shutil.which("uv"))
    python = env / "bin/python"
    with step(f"environment: Python {platform.python_version()}, uv"):
        call(root, env, uv, "venv", "--no-project", "--python", base, env)
    install = (uv, "pip", "install", "--python", python, "--no-deps")
    with step("locked packages"):
        call(root, env, *install, "--require-hashes", *locks)
    with step("pilothouse"):
        call(root, env, *install, "--no-build-isolation", "--editable", root)


def install_with_pip(base: Path, env: Path, root: Path, locks: list[str]) -> None:
    with step(f"environment: Python {platform.python_version()}, pip"):
        call(root, env, base, "-I", "-m", "venv", env)
    install = (env / "bin/python", "-I", "-m", "pip", "install", "--no-deps", "--no-compile")
    with step("locked packages"):
        call(root, env, *install, "--require-hashes", *locks)
    with step("pilothouse"):
        call(root, env, *install, "--no-build-isolation", "--no-index", "--editable", root)


def find_installers() -> list[Callable[[Path, Path, Path, list[str]], None]]:
    installers: list[Callable[[Path, Path, Path, list[str]], None]] = []
    if shutil.which("uv"):
        installers.append(install_with_uv)
    if importlib.util.find_spec("venv") and importlib.util.find_spec("ensurepip"):
        installers.append(install_with_pip)
    if not installers:
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        remedy = (
            f"sudo apt install python{version}-venv"
            if shutil.which("apt")
            else f"install your system's venv and ensurepip modules for Python {version}, or uv"
        )
        raise SetupError(f"this Python cannot make environments. Then start again after:\n    {remedy}")
    return installers


def build(env: Path, root: Path, kind: str) -> None:
    # The interpreter's own file, not a link to it: when an upgrade takes it away, the environment visibly breaks.
    base = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    locks = [word for name in (kind, "build") for word in ("--requirement", f"requirements/{name}.txt")]
    installers = find_installers()
    for install in installers:
        shutil.rmtree(env, ignore_errors=True)
        try:
            install(base, env, root, locks)
        except SetupError as error:
            if install is installers[-1]:
                raise
            say(f"  {error}\n  once more, without uv")
        else:
            return


def write_whole(path: Path, content: bytes) -> None:
    new = path.with_name(path.name + ".new")
    new.write_bytes(content)
    new.replace(path)


def is_in_use(env: Path) -> bool:
    """Does a process run from it? Removing it would break what that process has yet to import."""
    needle = os.fsencode(env) + b"/"
    if not Path("/proc/self/cmdline").exists():
        return time.time() - env.stat().st_mtime < 7 * 24 * 3600
    for cmdline in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if needle in cmdline.read_bytes():
                return True
    return False


def remove_old(folder: Path, kind: str, current: Path) -> None:
    for env in folder.glob(f"{kind}-*"):
        if env != current and not ((env / "stamp").exists() and is_in_use(env)):
            shutil.rmtree(env, ignore_errors=True)


@contextlib.contextmanager
def alone(path: Path) -> Generator[None]:
    """Hold the lock. The system takes it back from a process that dies, so it is never stale."""
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("pilothouse: waiting for another start that is installing the packages")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def make(kind: str, root: Path, folder: Path, stamp: bytes) -> None:
    version = platform.python_version()
    digest = hashlib.sha256(stamp + version.encode()).hexdigest()[:12]
    env = folder / f"{kind}-{version}-{digest}"
    folder.mkdir(parents=True, exist_ok=True)
    with alone(folder / f"{kind}.lock"):
        finished = env / "stamp"
        if not (finished.exists() and finished.read_bytes() == stamp and (env / "bin/python").exists()):
            say(f"pilothouse: installing into {env}")
            started = time.monotonic()
            try:
                build(env, root, kind)
                write_whole(finished, stamp)
            except BaseException:
                shutil.rmtree(env, ignore_errors=True)
                raise
            say(f"  ready after {time.monotonic() - started:.1f} s")
        write_whole(folder / f"{kind}.key", f"{env.name}\n".encode())
        remove_old(folder, kind, env)


def stop(signum: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + signum)


def main() -> int:
    kind, root, folder = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, stop)
    try:
        make(kind, root, folder, sys.stdin.buffer.read())
    except SetupError as error:
        say(f"pilothouse: {error}")
        return 1
    except OSError as error:
        say(f"pilothouse: cannot set up {folder}: {error}\n    PILOTHOUSE_CACHE_DIR may name another place")
        return 1
    except SystemExit:
        say("pilothouse: stopped; what was half made is gone")
        raise
    return 0


if __name__ == "__main__":
    sys.exit(main())
