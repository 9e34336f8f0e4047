"""Facts about this machine: our node, whether another one is alive, leftover processes, which engines work here.

Cheap to import: `doctor` and `engines` use it without loading a gateway.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable
from pathlib import Path

from pilothouse.config import Adapter, find_paths
from pilothouse.core.engine import NODE_MARKER, EngineSpec, EngineStatus
from pilothouse.core.store import NodeInfo


def this_node(name: str) -> NodeInfo:
    from pilothouse.processes.procfs import read_process

    info = read_process(os.getpid())
    return NodeInfo(name, _host(), os.getpid(), str(info.id.started) if info else "")


def is_alive(info: NodeInfo) -> bool | None:
    """Returns None if it cannot be known: another host, or a system without /proc."""
    from pilothouse.processes.procfs import procfs_works, read_process

    if info.host != _host() or not procfs_works():
        return None
    found = read_process(info.pid)
    return found is not None and found.alive and str(found.id.started) == info.started


async def sweep_leftovers(marker: str, log: Callable[..., None], nodes: Iterable[NodeInfo] = ()) -> None:
    """Ends the processes that a killed gateway of this store left running; what its living nodes started goes on."""
    from pilothouse.processes import Marker
    from pilothouse.processes import sweep_leftovers as sweep

    living = frozenset(node.pid for node in nodes if is_alive(node))
    for left in await sweep(Marker(NODE_MARKER, marker), living=living):
        log("process.swept", pid=left.id.pid, command=left.command, ended=left.ended)


def tilde(path: Path) -> str:
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path != home and path.is_relative_to(home) else str(path)


def _host() -> str:
    """Includes the boot id: pids are reused after a reboot."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()[:8]
    except OSError:
        boot = ""
    return f"{socket.gethostname()} {boot}".strip()


def probe(spec: EngineSpec, engine: Adapter | None) -> EngineStatus:
    """Asks the engine about itself. A probe that raises is reported as a status too."""
    if engine is None:
        return EngineStatus(
            False, problem="its section in the configuration is wrong", fix="pilothouse config check"
        )
    if not engine.enabled:
        return EngineStatus(False, problem="disabled", fix=f"set engines.{spec.id}.enabled = true")
    try:
        return probe_settings(spec, engine)
    except Exception as error:  # noqa: BLE001 - a plugin's fault is data here
        return EngineStatus(False, problem=f"its probe broke: {type(error).__name__}: {error}")


def probe_settings(spec: EngineSpec, engine: Adapter) -> EngineStatus:
    """Asks the engine about itself, with the state folder if it keeps logins there."""
    if spec.probe_with is None:
        return spec.probe(engine.settings)
    return spec.probe_with(engine.settings, str(find_paths(os.environ).state_dir / "engines" / spec.id))
