"""Starts a program and notices its end, without reaping it.

Rules: the child leads its own session and group, and inherits no descriptor but its three. An ended leader stays a zombie
until its tree is cleaned up: until then no other process can get its pid or its group's number.
"""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence

import anyio

from pilothouse.processes.errors import explain

_POLL_S = 0.02
_STATUS_TAKEN = 255  # asyncio reports the same when the status was collected elsewhere


def start(argv: Sequence[str], *, cwd: str, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start the program, or raise `SpawnFailed`. Blocks, as asyncio does, for the milliseconds of fork and exec."""
    try:
        return subprocess.Popen(
            list(argv),
            cwd=cwd,
            env=dict(env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
    except (OSError, ValueError, IndexError) as error:
        raise explain(error, argv=argv, cwd=cwd, path=env.get("PATH", "")) from error


async def wait_unreaped(pid: int) -> int:
    """Wait for a child's end and leave it a zombie; return its exit code (negative: the signal)."""
    await _until_exit(pid)
    while (code := peek_exit_code(pid)) is None:
        await anyio.sleep(_POLL_S)
    return code


async def wait_reaped(popen: subprocess.Popen[bytes]) -> int:
    """Wait for a child's end and reap it, on systems that cannot look without reaping."""
    while (code := popen.poll()) is None:
        await anyio.sleep(_POLL_S)
    return code


def peek_exit_code(pid: int) -> int | None:
    """Return the exit code of a child that has ended; None while it runs."""
    if sys.platform == "darwin":
        raise NotImplementedError("macOS has no waitid() before Python 3.13; wait_reaped() is for it.")
    try:
        status = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return _STATUS_TAKEN
    if status is None:
        return None
    return status.si_status if status.si_code == os.CLD_EXITED else -status.si_status


async def _until_exit(pid: int) -> None:
    """Return when the process has ended, or at once on systems where only polling can tell."""
    if sys.platform != "linux":
        return
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:  # kernels before 5.3, some sandboxes
        return
    try:
        await anyio.wait_readable(descriptor)
    finally:
        os.close(descriptor)
