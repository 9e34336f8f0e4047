"""`pilothouse up`: the gateway, until somebody stops it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import anyio

from pilothouse import __version__
from pilothouse.bootstrap.app import (
    House,
    build_channels,
    build_engines,
    default_engine,
    name_engine,
    open_house,
    reload_on_change,
)
from pilothouse.bootstrap.assembly import make_ports
from pilothouse.bootstrap.configuration import missing_folders
from pilothouse.bootstrap.event_loop import calm_collector, run, say_leaving, spare_collector
from pilothouse.bootstrap.machine import adopt_orphans, stop_on_signal, this_node, tilde
from pilothouse.bootstrap.terminal_text import say
from pilothouse.runtime.gateway import Gateway
from pilothouse.runtime.ports import Ports


def run_up(*, safe: bool = False, approval_mode: str | None = None) -> int:
    """The gateway, until somebody stops it."""
    return run(partial(_up, safe=safe, approval_mode=approval_mode))


async def _up(*, safe: bool, approval_mode: str | None) -> int:
    spare_collector()
    flags = {"policy.approval_mode": approval_mode} if approval_mode else None
    async with open_house(on_terminal=True, flags=flags) as house:
        engines, channels = build_engines(house), build_channels(house)
        ports = make_ports(house, engines, channels, safe=safe)
        gateway = Gateway(
            ports,
            this_node("pilothouse up"),
            on_ready=partial(_say_ready, house, ports),
            on_stopping=partial(_say_stopping, house),
        )
        calm_collector()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stop_on_signal, gateway.stop)
            tasks.start_soon(reload_on_change, house)
            tasks.start_soon(adopt_orphans)
            await gateway.run()
            tasks.cancel_scope.cancel()
    return 0


def _say_ready(house: House, ports: Ports) -> None:
    names = ", ".join(ports.channels) or "no channels: pilothouse chat talks to it"
    engine = name_engine(house, default_engine(house))
    folder = house.config.gateway.default_workspace
    where = tilde(Path(folder).expanduser()) if folder else "no folder chosen"
    say(f"pilothouse {__version__} is ready · {engine} · {where} · {names}")
    for text in _shortcomings(house):
        say(f"warning: {text}")


def _shortcomings(house: House) -> Iterator[str]:
    """Why turns will fail though we are ready. No reason to stop: it may be mended while we run."""
    id = default_engine(house)
    status = house.status_of(house.plugins.engine(id))
    if not status.available:
        fix = f" → {status.fix}" if status.fix else ""
        yield f"engine {id}: {status.problem}{fix}"
    yield from map(str, missing_folders(house.holder.loaded))


def _say_stopping(house: House, running: int) -> None:
    """What is written may still have to be delivered, so there may be something to wait for even where no turn runs."""
    say_leaving(house.config.gateway.grace_s, running, idle="Stopping. Ctrl-C again leaves at once.")
