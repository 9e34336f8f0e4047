"""A process that has imported Pilothouse, and forks for every program that a test wants to start.

Most of what a command costs is Python's imports. A forked program has its own streams, folder, environment, arguments
and session; only its imports are done already. A request may name further packages, which are imported before its fork
and stay for all later ones. `tests/forked.py` talks to this process.
"""

from __future__ import annotations

import atexit
import faulthandler
import fcntl
import functools
import gc
import importlib
import io
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import sys
import termios
import time
import traceback
from pathlib import Path
from typing import Any

PACKAGES = ("cli", "bootstrap", "stores", "runtime", "channels.terminal", "engines.script", "engines.claude")
LIBRARIES = (
    "anyio._backends._asyncio",
    "rich.markdown",
    "rich.table",
    "prompt_toolkit.shortcuts",
    "pilothouse.testing.desk",
)
INHERITED = tuple(sys.path[1:])
"""Without the folder of this file, which comes first."""


def preload() -> None:
    sys.path[0] = str(Path(__file__).parent.parent / "src")
    for package in PACKAGES:
        preload_package(package)
    for name in LIBRARIES:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()


@functools.cache
def preload_package(package: str) -> None:
    name = f"pilothouse.{package}"
    for module in pkgutil.walk_packages(importlib.import_module(name).__path__, f"{name}."):
        importlib.import_module(module.name)
    gc.freeze()


def serve(control: socket.socket) -> dict[str, Any] | None:
    """Return in every forked program, with its request; return nothing when the tests are over."""
    running: dict[int, tuple[int, socket.socket]] = {}
    while True:
        for ready in select.select([control.fileno(), *running], [], [])[0]:
            if ready in running:
                _tell_end(ready, *running.pop(ready))
                continue
            received, descriptors, *_ = socket.recv_fds(control, 1, 4)
            if not received:
                return None
            line, streams = socket.socket(fileno=descriptors[0]), descriptors[1:]
            with line.makefile("r") as lines:
                request = json.loads(lines.readline())
            for package in request["packages"]:
                preload_package(package)
            child = os.fork()
            if not child:
                _take_over(streams, [control, line, *(other for _, other in running.values())])
                return request
            for stream in streams:
                os.close(stream)
            line.sendall(f"{child}\n".encode())
            running[os.pidfd_open(child)] = child, line


def _tell_end(watched: int, child: int, line: socket.socket) -> None:
    os.close(watched)
    _, status = os.waitpid(child, 0)
    try:
        line.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
    except BrokenPipeError:  # the test did not wait for it
        pass
    line.close()


def _take_over(streams: list[int], foreign: list[socket.socket]) -> None:
    for other in foreign:
        other.close()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)


def become(request: dict[str, Any]) -> None:
    """Be as Python would have started with this request."""
    if request["session"] != "same":
        os.setsid()
    if request["session"] == "terminal":
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()
    os.chdir(request["cwd"])
    paths = request["env"].get("PYTHONPATH", "")
    sys.path[:] = [request["cwd"], *filter(None, paths.split(os.pathsep)), *INHERITED]
    sys.argv[1:] = request["words"]
    sys.stdin = sys.__stdin__ = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = sys.__stdout__ = _output(1, "strict", line_buffering=os.isatty(1))
    sys.stderr = sys.__stderr__ = _output(2, "backslashreplace", line_buffering=True)
    faulthandler.register(signal.SIGUSR2, file=2)


def _output(number: int, errors: str, *, line_buffering: bool) -> Any:
    unbuffered = bool(os.environ.get("PYTHONUNBUFFERED"))
    raw = open(number, "wb", buffering=0 if unbuffered else -1, closefd=False)  # noqa: SIM115
    return io.TextIOWrapper(
        raw, encoding="utf-8", errors=errors, line_buffering=line_buffering, write_through=unbuffered
    )


def play(module: str) -> int:
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as left:
        return left.code if isinstance(left.code, int) else bool(left.code)
    except BaseException:  # noqa: BLE001 - as Python does
        traceback.print_exc()
        return 1
    return 0


def main() -> None:
    preload()
    if request := serve(socket.socket(fileno=int(sys.argv[1]))):
        become(request)
        code = play(request["module"])
        # To take all that was imported apart would cost more than most commands do.
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
