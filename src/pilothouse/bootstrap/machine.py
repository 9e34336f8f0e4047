"""What only the operating system knows: who we are, who still lives, what was left running, and its signals.

Whether an engine works on this machine, as it says itself. Light: `doctor` and `engines` load no gateway for it.
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import anyio

from pilothouse.bootstrap.event_loop import LeftAtOnce
from pilothouse.config import Adapter
from pilothouse.core.engine import NODE_MARKER, EngineSpec, EngineStatus
from pilothouse.core.store import NodeInfo


def this_node(name: str) -> NodeInfo:
    from pilothouse.processes.procfs import read_process

    info = read_process(os.getpid())
    return NodeInfo(name, _host(), os.getpid(), str(info.id.started) if info else "")


def is_alive(info: NodeInfo) -> bool | None:
    """None where we cannot know: another host, or a system that does not tell."""
    from pilothouse.processes.procfs import procfs_works, read_process

    if info.host != _host() or not procfs_works():
        return None
    found = read_process(info.pid)
    return found is not None and found.alive and str(found.id.started) == info.started


async def sweep_leftovers(marker: str, log: Callable[..., None]) -> None:
    """Ends what a killed gateway of this store left running."""
    from pilothouse.processes import Marker
    from pilothouse.processes import sweep_leftovers as sweep

    for left in await sweep(Marker(NODE_MARKER, marker)):
        log("process.swept", pid=left.id.pid, command=left.command, ended=left.ended)


async def adopt_orphans() -> None:
    """Grandchildren that lose their parent become ours, and are buried."""
    from pilothouse.processes import become_subreaper, collect_orphans

    if become_subreaper():
        await collect_orphans()


async def stop_on_signal(
    stop: Callable[[], None],
    signals: tuple[signal.Signals, ...] = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP),
    hurry: Callable[[], None] | None = None,
    listening: Callable[[], None] = lambda: None,
) -> None:
    """The first one asks nicely; a second one leaves at once, as people expect of Ctrl-C. With `hurry` there is a step
    between the two: it waits for nobody, and still puts things away. From `listening` on the signals are ours.

    Of a window that is closed the kernel tells, and perhaps the shell too: nobody is impatient then.
    """
    with anyio.open_signal_receiver(*signals) as received:
        listening()
        heard = 0
        async for told in received:
            if heard and told == signal.SIGHUP:
                continue
            heard += 1
            if heard == 1:
                stop()
            elif heard == 2 and hurry is not None:
                hurry()
            else:
                raise LeftAtOnce


def tilde(path: Path) -> str:
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path != home and path.is_relative_to(home) else str(path)


def _host() -> str:
    """With the boot: after one, every pid of before means somebody else."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()[:8]
    except OSError:
        boot = ""
    return f"{socket.gethostname()} {boot}".strip()


def probe(spec: EngineSpec, engine: Adapter | None) -> EngineStatus:
    """What the engine says about itself on this machine; a probe that breaks is an answer too."""
    if engine is None:
        return EngineStatus(
            False, problem="its section in the configuration is wrong", fix="pilothouse config check"
        )
    if not engine.enabled:
        return EngineStatus(False, problem="disabled", fix=f"set engines.{spec.id}.enabled = true")
    try:
        return spec.probe(engine.settings)
    except Exception as error:  # noqa: BLE001 - a plugin's fault is data here
        return EngineStatus(False, problem=f"its probe broke: {type(error).__name__}: {error}")
